import CLibpq

/// An error or a notice of the server: the fields of an ErrorResponse or NoticeResponse message (PostgreSQL documentation,
/// "Error and Notice Message Fields").
public struct ServerReport: Sendable, Equatable {
  /// `ERROR`, `FATAL`, `PANIC`, `WARNING`, `NOTICE`, …, never translated.
  public var severity: String
  /// Five characters; `00000` for a plain notice.
  public var sqlState: String
  /// One line. It may quote a value, so log ``redactedMessage`` instead.
  public var message: String
  /// The detail, often with values of the row: not for a log.
  public var detail: String?
  /// Advice.
  public var hint: String?
  /// The position in the statement, in characters from 1.
  public var position: Int?
  /// The call stack of PL/pgSQL functions.
  public var context: String?
  /// The schema of the table.
  public var schema: String?
  /// The table with the error.
  public var table: String?
  /// The column with the error.
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

  /// The message without the value that an error of class 22 ("data exception") quotes.
  public var redactedMessage: String {
    guard sqlState.hasPrefix("22"), let first = message.firstIndex(of: "\""),
      let last = message.lastIndex(of: "\""), first < last
    else { return message }
    return message[...first] + "…" + message[last...]
  }
}

extension ServerReport {
  /// Whether the server or a pooler ends the session with this report.
  var endsSession: Bool { severity == "FATAL" || severity == "PANIC" }

  /// Whether PostgreSQL itself ends the session while no statement is being committed: by an administrator, a fast shutdown
  /// or a timeout of the session. A pooler's report does not name the server's function.
  var interruptsSession: Bool { endsSession && routine == "ProcessInterrupts" }

  /// The fields of an error or notice result; nil for a result without SQLSTATE, which libpq makes when the connection
  /// breaks.
  init?(_ result: OpaquePointer?) {
    // Some poolers omit V, which is not translated; S is.
    // The letters of the protocol are the values of libpq's PG_DIAG constants.
    func field(_ letter: Unicode.Scalar) -> String? {
      PQresultErrorField(result, Int32(letter.value)).map { String(cString: $0) }
    }
    guard let sqlState = field("C") else { return nil }
    self.init(severity: field("V") ?? field("S") ?? "ERROR", sqlState: sqlState, message: field("M") ?? "")
    detail = field("D")
    hint = field("H")
    position = field("P").flatMap { Int($0) }
    context = field("W")
    schema = field("s")
    table = field("t")
    column = field("c")
    constraint = field("n")
    routine = field("R")
  }
}
