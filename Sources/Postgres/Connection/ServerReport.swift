import CLibpq

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

extension ServerReport {
  /// The server, or a pooler before it, ends the session with this report.
  var endsSession: Bool { severity == "FATAL" || severity == "PANIC" }

  /// PostgreSQL itself ends the session, at a point where no statement is being committed: an administrator, a fast
  /// shutdown, a time-out of the session. A pooler names no function of the server.
  var interruptsSession: Bool { endsSession && routine == "ProcessInterrupts" }

  /// The fields of an error or notice result. libpq makes results of its own, without a SQLSTATE,
  /// when the connection breaks; those are nil.
  init?(_ result: OpaquePointer?) {
    // V came with PostgreSQL 9.6, and some poolers leave it out; S is translated, if not by those.
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
