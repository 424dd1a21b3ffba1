import CLibpq
import Glibc

extension LibpqSession {
  /// Connects and logs in. Blocks: call it on a thread of its own.
  ///
  /// libpq's non-blocking way (`PQconnectStart`) resolves names in a blocking call all the same,
  /// and leaves to its caller the time-out per host that lets a silent first host of several be
  /// passed over. The blocking way does both, and `target_session_attrs`, as its users know it.
  static func connect(_ configuration: PostgresConfiguration) throws(PostgresError) -> LibpqSession {
    let seconds = max(2, configuration.connectTimeout.components.seconds)
    let silence = max(1000, configuration.queryTimeout.components.seconds * 1000)
    // Of a keyword that is given twice, the later one holds: what stands before `dbname` is a
    // default, and the URI that `dbname` expands to has the last word.
    let options: KeyValuePairs<String, String> = [
      "connect_timeout": String(seconds),
      "fallback_application_name": configuration.applicationName,
      // Without these, a peer that vanished is noticed after two hours, or a quarter of one.
      "keepalives_idle": "30", "keepalives_interval": "5", "keepalives_count": "3",
      "tcp_user_timeout": String(silence),
      "dbname": configuration.uri,
      "options": options(configuration, silence),
      "client_encoding": "UTF8",
    ]
    guard let handle = connect(options) else {
      throw PostgresError(.unavailable("out of memory"))
    }
    let session = LibpqSession(handle: handle)
    guard PQstatus(handle) == CONNECTION_OK, PQsetnonblocking(handle, 1) == 0, session.enterPipeline()
    else {
      defer { session.finish() }
      throw PostgresError(.unavailable(session.errorMessage))
    }
    return session
  }

  /// The server, too, may be the one whom nobody tells that the other has vanished: a transaction that nobody
  /// continues would keep its locks for hours. Whoever is silent for as long as we wait for an answer has
  /// gone.
  ///
  /// PgBouncer refuses these options. What the URI says comes last, and so has the last word here too.
  private static func options(_ configuration: PostgresConfiguration, _ silence: Int64) -> String {
    guard configuration.setsOptions else { return configuration.serverOptions }
    return "-c idle_in_transaction_session_timeout=\(silence) \(configuration.serverOptions)"
  }

  private static func connect(_ options: KeyValuePairs<String, String>) -> OpaquePointer? {
    var keywords: [UnsafePointer<CChar>?] = []
    var values: [UnsafePointer<CChar>?] = []
    for (keyword, value) in options {
      keywords.append(UnsafePointer(strdup(keyword)))
      values.append(UnsafePointer(strdup(value)))
    }
    defer {
      for pointer in keywords + values { free(UnsafeMutablePointer(mutating: pointer)) }
    }
    keywords.append(nil)
    values.append(nil)
    return PQconnectdbParams(keywords, values, 1)
  }
}
