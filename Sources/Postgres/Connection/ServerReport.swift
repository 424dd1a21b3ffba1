/// What the server says of an error or a notice: the fields of its ErrorResponse or NoticeResponse
/// message (PostgreSQL documentation, "Error and Notice Message Fields").
public struct ServerReport: Sendable, Equatable {
  /// `ERROR`, `FATAL`, `PANIC`, `WARNING`, `NOTICE`, …, never translated.
  public var severity: String
  /// Five characters; `00000` for a plain notice.
  public var sqlState: String
  /// One line. Quotes the offending value where the error is about a value: log
  /// ``redactedMessage`` instead.
  public var message: String
  /// More, often with values of the row: not for a log.
  public var detail: String?
  /// What to do about it.
  public var hint: String?
  /// Where in the statement, in characters from 1.
  public var position: Int?
  /// What called it: the stack of functions, for PL/pgSQL.
  public var context: String?
  /// The schema of the table that the error is about.
  public var schema: String?
  /// The table that the error is about.
  public var table: String?
  /// The column that the error is about.
  public var column: String?
  /// The violated constraint.
  public var constraint: String?
  /// The server's function that reported it.
  var routine: String?

  init(severity: String, sqlState: String, message: String) {
    self.severity = severity
    self.sqlState = sqlState
    self.message = message
  }

  /// The message without what it quotes, where that is data: errors of class 22, "data
  /// exception", quote the value they refuse.
  public var redactedMessage: String {
    guard sqlState.hasPrefix("22"), let first = message.firstIndex(of: "\""),
      let last = message.lastIndex(of: "\""), first < last
    else { return message }
    return message[...first] + "…" + message[last...]
  }
}
