import CLibpq
import Glibc

/// Where the database is, and how patient to be with it.
public struct PostgresConfiguration: Sendable {
  /// A libpq connection URI or keyword string; several hosts and `target_session_attrs` included.
  /// Holds the password: never print it.
  public let uri: String
  /// The `options` of the URI, or of `PGOPTIONS` where it has none: settings for the server process.
  let serverOptions: String
  /// Shown in `pg_stat_activity`, unless the URI names an `application_name`.
  public var applicationName: String
  /// For one address of one host, to connect and log in. libpq counts in whole seconds and takes
  /// at least 2. A `connect_timeout` in the URI wins.
  public var connectTimeout: Duration = .seconds(3)
  /// From sending a query to its whole answer.
  public var queryTimeout: Duration = .seconds(10)
  /// How long to wait for a connection of the pool.
  public var acquireTimeout: Duration = .seconds(3)
  /// The most connections the pool opens.
  public var maximumConnections = 8
  /// Connections that are kept open although nobody uses them.
  public var minimumConnections = 0
  /// The most tasks that may wait for a connection; the next one gets `.poolExhausted` at once.
  public var maximumWaiters = 1024
  /// An unused connection beyond the minimum is closed after this time.
  public var idleTimeout: Duration = .seconds(600)
  /// A connection is replaced after this time (and up to a tenth less, so that not all go at once).
  public var maximumLifetime: Duration = .seconds(3600)
  /// Off for PgBouncer in transaction mode, where the next statement may meet another server
  /// process, which knows nothing of what was prepared.
  public var usesPreparedStatements = true
  /// Off where a pooler is in between that refuses settings (`options`) at login, as PgBouncer does in any mode.
  public var setsOptions = true
  /// How many prepared statements a connection keeps; the least recently used goes first.
  public var maximumPreparedStatements = 256

  /// Checks the URI's form with libpq's own parser. Does not connect.
  ///
  /// - Throws: ``PostgresError`` of kind `.misuse`, with libpq's reason but without what was
  ///   between the quotes, which may be a piece of the password.
  public init(uri: String, applicationName: String = "") throws(PostgresError) {
    var message: UnsafeMutablePointer<CChar>?
    let options = PQconninfoParse(uri, &message)
    defer {
      PQconninfoFree(options)
      PQfreemem(message)
    }
    guard options != nil else {
      let reason = message.map { String(cString: $0) } ?? "out of memory"
      throw PostgresError(.misuse("the connection URI is wrong: \(Self.redact(reason))"))
    }
    if let slip = Self.slip(in: options) {
      throw PostgresError(.misuse("the connection URI is wrong: \(slip)"))
    }
    self.uri = uri
    self.applicationName = applicationName
    var option = options
    while let keyword = option?.pointee.keyword, strcmp(keyword, "options") != 0 {
      option = option?.successor()
    }
    serverOptions = (option?.pointee.val ?? getenv("PGOPTIONS")).map { String(cString: $0) } ?? ""
  }

  /// What libpq takes for a host or a port and would quote with each attempt, though it is a piece of a password in
  /// which a sign of the URI's own is not escaped.
  private static func slip(in options: UnsafeMutablePointer<PQconninfoOption>?) -> String? {
    let escapes = "in a password, '/' is written %2F and '@' %40"
    var option = options
    while let keyword = option?.pointee.keyword {
      let values = (option?.pointee.val).map { String(cString: $0).split(separator: ",") } ?? []
      switch String(cString: keyword) {
      case "port" where values.contains { UInt16($0) == nil }: return "its port is not a number; \(escapes)"
      case "host" where values.contains { $0.contains("@") && !$0.hasPrefix("/") && !$0.hasPrefix("@") }:
        return "its host has an '@'; \(escapes)"
      default: option = option?.successor()
      }
    }
    return nil
  }

  /// Removes what libpq quotes of the URI, unless it is the name of an option.
  static func redact(_ reason: String) -> String {
    let reason = String(reason.prefix { $0 != "\n" })
    let namesAnOption = ["invalid URI query parameter", "invalid connection option"]
    guard !namesAnOption.contains(where: reason.hasPrefix), let first = reason.firstIndex(of: "\""),
      let last = reason.lastIndex(of: "\""), first < last
    else { return reason }
    return reason[...first] + "…" + reason[last...]
  }
}
