import CLibpq
import Glibc

/// One `PGconn` in non-blocking mode, with libpq's calls under names of their own. No policy.
///
/// Not thread-safe, as `PGconn` is not: whoever holds it takes care that calls do not overlap.
struct LibpqSession {
  let handle: OpaquePointer

  /// The socket. Stays the same from connecting to `PQfinish`.
  var socket: Int32 { PQsocket(handle) }

  /// libpq has given the connection up.
  var isBroken: Bool { PQstatus(handle) == CONNECTION_BAD }

  /// The server process, as it was announced at login. A pooler announces a number of its own.
  var announcedProcess: Int32 { PQbackendPID(handle) }

  /// Outside of any transaction.
  var isIdle: Bool { PQtransactionStatus(handle) == PQTRANS_IDLE }

  /// In a transaction in which a statement failed.
  var isInFailedTransaction: Bool { PQtransactionStatus(handle) == PQTRANS_INERROR }

  /// A result can be had without waiting for the socket.
  var hasResult: Bool { PQisBusy(handle) == 0 }

  /// libpq's last error on one line, without its advice in indented lines.
  var errorMessage: String {
    let message = PQerrorMessage(handle).map { String(cString: $0) } ?? ""
    let lines = message.split(separator: "\n").filter { !$0.hasPrefix("\t") }
    return lines.isEmpty ? "the connection was lost" : lines.joined(separator: "; ")
  }

  /// Something has come that nobody has read: data or the end.
  var isReadable: Bool {
    var descriptor = pollfd(fd: socket, events: Int16(POLLIN), revents: 0)
    return poll(&descriptor, 1, 0) > 0
  }

  /// Reads what the socket has.
  ///
  /// - Returns: false when the connection is lost; what came before the loss can still be taken.
  func consumeInput() -> Bool { PQconsumeInput(handle) == 1 }

  /// The next result; nil ends the results of one statement.
  func nextResult() -> OpaquePointer? { PQgetResult(handle) }

  /// Sends as much as the socket takes.
  ///
  /// - Returns: whether something is left, or nil when the connection is lost.
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

  /// Sends statements without values in the simple protocol; not in a pipeline.
  func send(script: String) -> Bool { PQsendQuery(handle, script) == 1 }

  /// Sends one statement without values.
  func send(statement: String) -> Bool {
    PQsendQueryParams(handle, statement, 0, nil, nil, nil, nil, 1) == 1
  }

  /// Sends a statement with its values; the answer comes in binary form.
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

  /// Runs a prepared statement with a query's values; the answer comes in binary form.
  func sendPrepared(_ name: String, _ parameters: PostgresParameters) -> Bool {
    parameters.withUnsafeValues { count, values in
      PQsendQueryPrepared(handle, name, count, values, parameters.lengths, parameters.formats, 1)
    } == 1
  }

  func finish() { PQfinish(handle) }
}

/// What is needed to ask the server to stop what a connection is doing.
///
/// @unchecked, because the compiler cannot know what libpq documents: a `PGcancel` may be used from any
/// thread, also while its connection is in use or gone. It is used once.
struct CancelRequest: @unchecked Sendable {
  private let request: OpaquePointer

  init?(_ session: LibpqSession) {
    guard let request = PQgetCancel(session.handle) else { return nil }
    self.request = request
  }

  /// Connects to the server and asks. Blocks, and consumes the request.
  func send() {
    withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { error in
      _ = PQcancel(request, error.baseAddress, Int32(error.count))
    }
    PQfreeCancel(request)
  }

  /// Frees the request without asking.
  func discard() { PQfreeCancel(request) }
}
