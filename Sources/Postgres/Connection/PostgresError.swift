import CLibpq

/// An error of a query, a connection or the pool.
public struct PostgresError: Error, Sendable {
  /// The kinds of errors.
  public enum Kind: Sendable, Equatable {
    /// No connection could be made, or it was lost before the response. The reason is libpq's.
    case unavailable(String)
    /// The query's deadline passed. The connection was closed and a cancel request sent.
    case timedOut
    /// No connection became free in time, or too many callers wait for one.
    case poolExhausted
    /// The pool was closed.
    case closed
    /// The transaction may or may not be committed: the connection was lost, or the deadline passed, after COMMIT was
    /// sent and before its response. Or the wait for a synchronous standby was cancelled: the transaction is committed,
    /// and a failover may undo it.
    case outcomeUnknown(String)
    /// The server refused the statement with this SQLSTATE (PostgreSQL documentation, appendix A).
    /// ``PostgresError/report`` has the details.
    case server(sqlState: String)
    /// A bound value cannot be sent.
    case encoding(String)
    /// A column cannot be read as the type asked for.
    case decoding(String)
    /// The configuration is wrong, or the caller violated a precondition.
    case misuse(String)
  }

  /// The kind of the error.
  public let kind: Kind
  /// The server's report, if it sent one.
  public let report: ServerReport?
  /// Whether a statement was sent without getting a response.
  let wasSent: Bool
  /// Whether nothing was committed, so that the work can be repeated on another connection: the connection was lost
  /// before a statement ran, the transaction was rolled back, or the server refuses writes.
  var isSafeToRepeat = false
  /// Whether the commit failed, so that no transaction is open.
  public internal(set) var endedTransaction = false

  init(_ kind: Kind, report: ServerReport? = nil, wasSent: Bool = false) {
    self.kind = kind
    self.report = report
    self.wasSent = wasSent
  }

  init(_ report: ServerReport) {
    self.init(.server(sqlState: report.sqlState), report: report)
  }

  /// The SQLSTATE, if the server sent one.
  public var sqlState: String? { report?.sqlState }

  /// Whether the same transaction may succeed when it is repeated: a serialization failure (40001) or a deadlock
  /// (40P01).
  public var isRetryable: Bool { sqlState == "40001" || sqlState == "40P01" }

  /// Whether the database is unreachable or refuses all work for now.
  ///
  /// These are class 08, shutdown and start-up (57P01, 57P02, 57P03), too many connections (53300), a read-only server
  /// (25006), timeouts of a transaction (25P03, 25P04) or an idle session (57P05), any other end of the session, lost
  /// or failed connections, an exhausted pool, and timeouts.
  public var isUnavailable: Bool {
    switch kind {
    case .unavailable, .timedOut, .poolExhausted, .closed, .outcomeUnknown: true
    case .server(let sqlState):
      endedSession || Self.unavailableStates.contains(sqlState) || sqlState.hasPrefix("08")
    case .encoding, .decoding, .misuse: false
    }
  }

  /// Whether the server or a pooler ended the session with this error. The severity decides, because each version and
  /// each pooler has reasons of its own.
  public var endedSession: Bool { report?.endsSession ?? false }

  /// Whether a lock was not granted within the `lock_timeout` (55P03).
  public var isLockNotGranted: Bool { sqlState == "55P03" }

  /// Whether the error is transient and does not concern the statement itself.
  ///
  /// These are timeouts of a lock or a statement (55P03, 57014), a transaction rollback (class 40), insufficient
  /// resources (53), system errors (58), prepared statements of another session (26000, 42P05), and unavailability.
  public var isTransient: Bool {
    guard case .server(let sqlState) = kind else { return isUnavailable }
    return isUnavailable || ["55P03", "57014", "26000", "42P05"].contains(sqlState)
      || ["40", "53", "58"].contains(String(sqlState.prefix(2)))
  }

  /// Whether a table, a column, a function, a constraint or a privilege that the statement needs is missing: the
  /// database is being restored, or `search_path` is wrong.
  public var isSchemaIncomplete: Bool {
    guard case .server(let sqlState) = kind else { return false }
    return Self.incompleteSchemaStates.contains(sqlState)
  }

  /// undefined_table, invalid_schema_name, undefined_column, undefined_function, undefined_object,
  /// invalid_column_reference (ON CONFLICT without its constraint, which a restore adds last), insufficient_privilege,
  /// invalid_catalog_name.
  private static let incompleteSchemaStates: Set<String> = [
    "42P01", "3F000", "42703", "42883", "42704", "42P10", "42501", "3D000",
  ]

  private static let unavailableStates: Set<String> = [
    "57P01", "57P02", "57P03", "53300", "25006", "25P03", "25P04", "57P05",
  ]
}

extension PostgresError: CustomStringConvertible {
  /// A sentence for a log without bound values: the server's detail is omitted, and so are values that its message
  /// quotes.
  public var description: String {
    switch kind {
    case .unavailable(let reason): "the database is unavailable: \(reason)"
    case .timedOut: "the query took longer than its timeout"
    case .poolExhausted: "no database connection became free in time"
    case .closed: "the connection pool is closed"
    case .outcomeUnknown(let reason): "the outcome of the transaction is unknown: \(reason)"
    case .server(let sqlState): "\(report?.redactedMessage ?? "the server reported an error") (\(sqlState))"
    case .encoding(let reason), .decoding(let reason), .misuse(let reason): reason
    }
  }
}

/// An error or a notice of the server: the fields of an ErrorResponse or NoticeResponse message (PostgreSQL
/// documentation, "Error and Notice Message Fields").
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

  /// Whether PostgreSQL itself ends the session while no statement is being committed: by an administrator, a fast
  /// shutdown or a timeout of the session. A pooler's report does not name the server's function.
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
    table = field("t")
    column = field("c")
    constraint = field("n")
    routine = field("R")
  }
}
