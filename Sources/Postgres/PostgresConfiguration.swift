import CLibpq
import Foundation

/// The address of a database, and the limits and timeouts of its pool.
public struct PostgresConfiguration: Sendable {
  /// A libpq connection URI or keyword string; several hosts and `target_session_attrs` included.
  /// Holds the password: never print it.
  public let uri: String
  /// The `options` of the URI, or of `PGOPTIONS` where it has none: settings for the server process.
  let serverOptions: String
  /// Shown in `pg_stat_activity`, unless the URI names an `application_name`.
  public var applicationName: String
  /// The timeout to connect and log in, for each address of each host. libpq uses whole seconds and at least 2. A
  /// `connect_timeout` in the URI overrides it.
  public var connectTimeout: Duration = .seconds(3)
  /// The timeout from sending a query to its complete response.
  public var queryTimeout: Duration = .seconds(10)
  /// The timeout to wait for a connection of the pool.
  public var acquireTimeout: Duration = .seconds(3)
  /// The limit of open connections.
  public var maximumConnections = 8
  /// The number of connections that stay open without use.
  public var minimumConnections = 0
  /// The limit of tasks that wait for a connection; the next one gets `.poolExhausted` at once.
  public var maximumWaiters = 1024
  /// An idle connection beyond the minimum is closed after this time.
  public var idleTimeout: Duration = .seconds(600)
  /// A connection is replaced after this time, or up to a tenth earlier, so that not all are replaced at once.
  public var maximumLifetime: Duration = .seconds(3600)
  /// False for PgBouncer in transaction mode, where the next statement may run in another server process without the
  /// prepared statements.
  public var usesPreparedStatements = true
  /// False for a pooler that refuses settings (`options`) at login, as PgBouncer does in any mode.
  public var setsOptions = true
  /// The capacity of a connection's cache of prepared statements.
  public var maximumPreparedStatements = 256

  /// Validates the URI with libpq's parser. Does not connect.
  ///
  /// - Throws: ``PostgresError`` of kind `.misuse` with libpq's reason. Quoted text is removed, because it may be a
  ///   part of the password.
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
    if let reason = Self.unescapedPassword(in: options) {
      throw PostgresError(.misuse("the connection URI is wrong: \(reason)"))
    }
    self.uri = uri
    self.applicationName = applicationName
    var option = options
    while let keyword = option?.pointee.keyword, strcmp(keyword, "options") != 0 {
      option = option?.successor()
    }
    serverOptions = (option?.pointee.val ?? getenv("PGOPTIONS")).map { String(cString: $0) } ?? ""
  }

  /// Detects an unescaped `/` or `@` in the password: libpq would use a part of the password as host or port, and quote
  /// it in its errors.
  private static func unescapedPassword(in options: UnsafeMutablePointer<PQconninfoOption>?) -> String? {
    let escapes = "escape '/' in a password as %2F, and '@' as %40"
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

  /// Removes the text that libpq quotes from the URI, unless it is the name of an option.
  static func redact(_ reason: String) -> String {
    let reason = String(reason.prefix { $0 != "\n" })
    let namesAnOption = ["invalid URI query parameter", "invalid connection option"]
    guard !namesAnOption.contains(where: reason.hasPrefix), let first = reason.firstIndex(of: "\""),
      let last = reason.lastIndex(of: "\""), first < last
    else { return reason }
    return reason[...first] + "…" + reason[last...]
  }
}
