import CLibpq
import Foundation

extension LibpqSession {
  /// Connects and logs in. Blocks: call it on a thread of its own.
  ///
  /// libpq's non-blocking call (`PQconnectStart`) also resolves names with a blocking call, and has no timeout per host. The
  /// blocking call has that timeout, which is needed to try the next host, and supports `target_session_attrs`.
  static func connect(_ configuration: PostgresConfiguration) throws(PostgresError) -> LibpqSession {
    let seconds = max(2, configuration.connectTimeout.components.seconds)
    let silence = max(1000, configuration.queryTimeout.components.seconds * 1000)
    // The last occurrence of a keyword counts: those before `dbname` are defaults, and the URI in `dbname` overrides them.
    let options: KeyValuePairs<String, String> = [
      "connect_timeout": String(seconds),
      "fallback_application_name": configuration.applicationName,
      // The system's defaults notice a vanished peer after two hours, or 15 minutes while sending.
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

  /// Makes the server end a transaction whose client has vanished; its locks would be held for hours.
  ///
  /// PgBouncer refuses these options. The options of the URI come last, so they override these.
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
