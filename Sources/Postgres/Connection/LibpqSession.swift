import CLibpq
import Foundation

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

  /// Whether no transaction is open.
  var isIdle: Bool { PQtransactionStatus(handle) == PQTRANS_IDLE }

  /// Whether a statement of the open transaction has failed.
  var isInFailedTransaction: Bool { PQtransactionStatus(handle) == PQTRANS_INERROR }

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
/// @unchecked, because libpq documents that any thread may use a `PGcancel`, also while its connection is in use or closed.
/// It is used once.
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
