import CLibpq
import Dispatch
import Foundation
import Synchronization

/// A `PGconn` in non-blocking mode, with a method for each libpq call.
///
/// It is not thread-safe, as `PGconn` is not: the owner must serialize the calls.
struct LibpqSession {
  let handle: OpaquePointer

  /// The socket, the same until `PQfinish`.
  var socket: Int32 { PQsocket(handle) }

  /// Whether libpq has closed the connection.
  var isBroken: Bool { PQstatus(handle) == CONNECTION_BAD }

  /// The process id of the server from the login. A pooler sends a number of its own.
  var announcedProcess: Int32 { PQbackendPID(handle) }

  /// The other end of the connection.
  var peer: PostgresPeer {
    PostgresPeer(
      address: PQhostaddr(handle).map { String(cString: $0) } ?? "",
      isEncrypted: PQsslInUse(handle) == 1 || PQgssEncInUse(handle) == 1)
  }

  /// The transaction of the session.
  var status: SessionStatus {
    switch PQtransactionStatus(handle) {
    case PQTRANS_IDLE: .idle
    case PQTRANS_INERROR: .failed
    default: .open
    }
  }

  /// Whether `nextResult()` does not wait for the socket.
  var hasResult: Bool { PQisBusy(handle) == 0 }

  /// libpq's last error on one line, without its indented hints.
  var errorMessage: String {
    let message = PQerrorMessage(handle).map { String(cString: $0) } ?? ""
    let lines = message.split(separator: "\n").filter { !$0.hasPrefix("\t") }
    return lines.isEmpty ? "the connection was lost" : lines.joined(separator: "; ")
  }

  /// Whether the socket has unread data or an end of file.
  var isReadable: Bool {
    var descriptor = pollfd(fd: socket, events: Int16(POLLIN), revents: 0)
    return poll(&descriptor, 1, 0) > 0
  }

  /// Reads from the socket.
  ///
  /// - Returns: false if the connection is lost; results that arrived before can still be read.
  func consumeInput() -> Bool { PQconsumeInput(handle) == 1 }

  /// The next result; nil at the end of the results of one statement.
  func nextResult() -> OpaquePointer? { PQgetResult(handle) }

  /// Sends as many bytes as the socket accepts.
  ///
  /// - Returns: whether bytes are left; nil if the connection is lost.
  func flush() -> Bool? {
    switch PQflush(handle) {
    case 0: false
    case 1: true
    default: nil
    }
  }

  func enterPipeline() -> Bool { PQenterPipelineMode(handle) == 1 }

  func exitPipeline() -> Bool { PQexitPipelineMode(handle) == 1 }

  func sync() -> Bool { PQpipelineSync(handle) == 1 }

  /// Sends statements without values in the simple query protocol, outside of pipeline mode.
  func send(script: String) -> Bool { PQsendQuery(handle, script) == 1 }

  /// Sends one statement without values.
  func send(statement: String) -> Bool {
    PQsendQueryParams(handle, statement, 0, nil, nil, nil, nil, 1) == 1
  }

  /// Sends a statement with its values; the rows have binary format.
  func send(_ query: Query) -> Bool {
    let parameters = query.parameters
    return parameters.withUnsafeValues { count, values in
      PQsendQueryParams(
        handle, query.text, count, parameters.types, values, parameters.lengths, parameters.formats, 1)
    } == 1
  }

  /// Prepares a statement under a name.
  func prepare(_ query: Query, name: String) -> Bool {
    let types = query.parameters.types
    return PQsendPrepare(handle, name, query.text, Int32(types.count), types) == 1
  }

  /// Runs a prepared statement with these values; the rows have binary format.
  func sendPrepared(_ name: String, _ parameters: PostgresParameters) -> Bool {
    parameters.withUnsafeValues { count, values in
      PQsendQueryPrepared(handle, name, count, values, parameters.lengths, parameters.formats, 1)
    } == 1
  }

  func finish() { PQfinish(handle) }
}

/// A cancel request for the current query of a connection.
///
/// @unchecked, because libpq documents that any thread may use a `PGcancel`, also while its connection is in use or
/// closed. It is used once.
struct CancelRequest: @unchecked Sendable {
  private let request: OpaquePointer

  init?(_ session: LibpqSession) {
    guard let request = PQgetCancel(session.handle) else { return nil }
    self.request = request
  }

  /// Connects to the server and sends the request. Blocks, and frees the request.
  func send() {
    withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { error in
      _ = PQcancel(request, error.baseAddress, Int32(error.count))
    }
    PQfreeCancel(request)
  }

  /// Frees the request without sending it.
  func discard() { PQfreeCancel(request) }
}

extension LibpqSession {
  /// Connects and logs in. Blocks: call it on a thread of its own.
  ///
  /// libpq's non-blocking call (`PQconnectStart`) also resolves names with a blocking call, and has no timeout per
  /// host. The blocking call has that timeout, which is needed to try the next host, and supports
  /// `target_session_attrs`.
  static func connect(_ configuration: PostgresConfiguration) throws(PostgresError) -> LibpqSession {
    let seconds = max(2, configuration.connectTimeout.components.seconds)
    let silence = max(1000, configuration.queryTimeout.components.seconds * 1000)
    // The last occurrence of a keyword counts: those before `dbname` are defaults, and the URI in `dbname` overrides
    // them.
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

  /// Makes the server end a transaction whose client has vanished; its locks would be held for hours. And looks for
  /// tables and functions in the schemas `receiptd` and `public` alone: PostgreSQL's default is `"$user", public`, so a
  /// role that may create schemas could make one that is named like the server's role, with functions that the server
  /// would run.
  ///
  /// PgBouncer refuses these options. The options of the URI come last, so they override these.
  private static func options(_ configuration: PostgresConfiguration, _ silence: Int64) -> String {
    guard configuration.setsOptions else { return configuration.serverOptions }
    return "-c idle_in_transaction_session_timeout=\(silence) -c search_path=receiptd,public "
      + configuration.serverOptions
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

/// Collects the notices of one connection, which libpq would print to stderr.
///
/// libpq calls back while it parses input. That happens only under the lock of the ``PipelinedConnection``, which also
/// protects this object.
final class NoticeCollector {
  private static let limit = 1000
  private var notices: [ServerReport] = []

  /// Registers with a connection, which must not outlive this object.
  func register(with session: LibpqSession) {
    _ = PQsetNoticeReceiver(
      session.handle,
      { context, result in
        guard let context, let notice = ServerReport(result) else { return }
        Unmanaged<NoticeCollector>.fromOpaque(context).takeUnretainedValue().add(notice)
      }, Unmanaged.passUnretained(self).toOpaque())
  }

  private func add(_ notice: ServerReport) {
    // Keep the latest notices: the warning that a commit did not reach the standby comes last.
    if notices.count == Self.limit { notices.removeFirst() }
    notices.append(notice)
  }

  /// The notice with which the server ended the session, such as the one of an idle transaction's timeout.
  var lastWords: ServerReport? { notices.last(where: \.endsSession) }

  /// Removes and returns the notices.
  func take() -> [ServerReport] {
    if notices.isEmpty { return [] }
    defer { notices.removeAll() }
    return notices
  }
}

/// Sends cancel requests one after the other on a queue of its own, because sending blocks.
///
/// When the server does not answer and the queue is full, further requests are dropped. Their connections are closed
/// already, which the server notices later.
final class CancellationQueue: Sendable {
  private static let limit = 32
  private let queue = DispatchQueue(label: "postgres.cancel")
  private let waiting = Mutex(0)

  func send(_ request: CancelRequest) {
    let isAccepted = waiting.withLock { waiting in
      guard waiting < Self.limit else { return false }
      waiting += 1
      return true
    }
    guard isAccepted else { return request.discard() }
    queue.async {
      request.send()
      self.waiting.withLock { $0 -= 1 }
    }
  }
}
