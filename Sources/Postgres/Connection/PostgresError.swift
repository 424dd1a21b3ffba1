/// Everything that can go wrong between a query and its rows.
public struct PostgresError: Error, Sendable {
  /// What went wrong.
  public enum Kind: Sendable, Equatable {
    /// No connection could be made, or it was lost before the answer came. The reason is libpq's.
    case unavailable(String)
    /// The query's deadline passed. The connection was given up and the server told to stop.
    case timedOut
    /// All connections are in use and none came free in time, or too many already wait for one.
    case poolExhausted
    /// The pool was closed.
    case closed
    /// The connection was lost, or the deadline passed, after COMMIT was sent and before its
    /// answer came: the transaction may or may not have been committed. Or the wait for a synchronous standby was
    /// cancelled: it is committed, and a failover may undo it.
    case outcomeUnknown(String)
    /// The server refused the statement with this SQLSTATE
    /// (PostgreSQL documentation, appendix A). ``PostgresError/report`` has the rest.
    case server(sqlState: String)
    /// A bound value cannot be sent.
    case encoding(String)
    /// A column cannot be read as the type asked for.
    case decoding(String)
    /// The configuration or the use of the interface is wrong.
    case misuse(String)
  }

  /// What went wrong.
  public let kind: Kind
  /// What the server said, where it said something.
  public let report: ServerReport?
  /// Something was sent and its answer did not come.
  let wasSent: Bool
  /// Nothing of the work is in the database, and another connection may do all of it: the connection was lost before
  /// anything ran or what ran was rolled back, or the server takes no writes any more.
  var ranNothing = false
  /// It was the commit that failed, and nothing is left to be rolled back.
  public internal(set) var endedTransaction = false

  init(_ kind: Kind, report: ServerReport? = nil, wasSent: Bool = false) {
    self.kind = kind
    self.report = report
    self.wasSent = wasSent
  }

  init(_ report: ServerReport) {
    self.init(.server(sqlState: report.sqlState), report: report)
  }

  /// The five characters of the SQLSTATE, where the server gave one.
  public var sqlState: String? { report?.sqlState }

  /// The same transaction may succeed when it is tried again: a serialization failure (40001) or
  /// a deadlock (40P01).
  public var isRetryable: Bool { sqlState == "40001" || sqlState == "40P01" }

  /// The database cannot be reached or does not take work now; later it may. Class 08, shutdown
  /// and start-up (57P01, 57P02, 57P03), too many connections (53300), a read-only server
  /// (25006), a transaction that stood still or went on for too long (25P03, 25P04), a session that did
  /// nothing for too long (57P05), whatever else ended the session, lost or failed connections, an exhausted
  /// pool, time-outs.
  public var isUnavailable: Bool {
    switch kind {
    case .unavailable, .timedOut, .poolExhausted, .closed, .outcomeUnknown: true
    case .server(let sqlState):
      endedSession || Self.unavailableStates.contains(sqlState) || sqlState.hasPrefix("08")
    case .encoding, .decoding, .misuse: false
    }
  }

  /// The server, or what stands before it, said this and went: of the session, not of what was asked. The severity
  /// tells, since reasons are added with each version and by each pooler.
  public var endedSession: Bool { report?.endsSession ?? false }

  /// The server refused for a reason that has nothing to do with what was asked and will pass: a lock or a
  /// statement that took too long (55P03, 57014), a transaction that had to give way (class 40), resources that
  /// are used up (53), trouble of its system (58), statements that another session prepared (26000, 42P05).
  public var isPassing: Bool {
    guard case .server(let sqlState) = kind else { return isUnavailable }
    return isUnavailable || ["55P03", "57014", "26000", "42P05"].contains(sqlState)
      || ["40", "53", "58"].contains(String(sqlState.prefix(2)))
  }

  /// The schema lacks something that the statement names, or withholds it: a table, a column, a function, a constraint,
  /// a privilege. A database that is being restored, and a wrong `search_path`, look like this.
  public var isSchemaIncomplete: Bool {
    guard case .server(let sqlState) = kind else { return false }
    return Self.incompleteSchemaStates.contains(sqlState)
  }

  /// undefined_table, invalid_schema_name, undefined_column, undefined_function, undefined_object,
  /// invalid_column_reference (ON CONFLICT without its constraint, which a restore makes last), insufficient_privilege,
  /// invalid_catalog_name.
  private static let incompleteSchemaStates: Set<String> = [
    "42P01", "3F000", "42703", "42883", "42704", "42P10", "42501", "3D000",
  ]

  private static let unavailableStates: Set<String> = [
    "57P01", "57P02", "57P03", "53300", "25006", "25P03", "25P04", "57P05",
  ]
}

extension PostgresError: CustomStringConvertible {
  /// A sentence for a log. It holds no bound value: the server's detail is left out, and so is
  /// what its message quotes where that is data.
  public var description: String {
    switch kind {
    case .unavailable(let reason): "the database is unavailable: \(reason)"
    case .timedOut: "the query took longer than its time-out"
    case .poolExhausted: "no database connection came free in time"
    case .closed: "the connection pool is closed"
    case .outcomeUnknown(let reason): "the outcome of the transaction is unknown: \(reason)"
    case .server(let sqlState): "\(report?.redactedMessage ?? "the server reported an error") (\(sqlState))"
    case .encoding(let reason), .decoding(let reason), .misuse(let reason): reason
    }
  }
}
