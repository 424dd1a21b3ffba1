import Foundation
import HTTPTypes
import Logging
import Platform
public import Sockets

/// The state that the connections of one server share on one event loop. Only code on that loop uses it.
final class ServerLoop {
  let core: ServerCore
  /// The router for requests whose head arrives from now on.
  var router: Router
  /// The buffer in which responses are encoded. It is empty between events, so all connections share it.
  var output: [UInt8] = []
  /// The memory of the loop's connections for incomplete and waiting requests and for unread responses.
  var bufferedBytes = 0
  private var connections: [ObjectIdentifier: HTTPConnection] = [:]
  private var isDraining = false
  private var dateField = DateField(secondsSinceEpoch: 0)
  /// Identifiers have to differ, not to be secret.
  private var generator = SplitMix64(state: .random(in: .min ... .max))

  init(core: ServerCore, router: Router) {
    self.core = core
    self.router = router
    output.reserveCapacity(4096)
  }

  func add(_ connection: Connection) {
    let served = HTTPConnection(connection, on: self)
    connections[ObjectIdentifier(connection)] = served
    connection.start(handler: served)
    if isDraining { served.drain() }
  }

  func remove(_ connection: Connection) {
    connections[ObjectIdentifier(connection)] = nil
  }

  /// Closes idle connections at once and the others after their current request.
  func drain() {
    isDraining = true
    for connection in connections.values { connection.drain() }
  }

  /// Closes all connections at once.
  func closeAll() {
    for connection in connections.values { connection.close() }
  }

  /// Sheds load when the buffered bytes exceed the limit, from the connections with most of them first.
  ///
  /// So clients with small requests that read their responses are served under overload. An eighth of the memory is
  /// freed at once, because sorting thousands of connections is expensive.
  func enforceBufferLimit() {
    guard bufferedBytes > core.bufferedBytes else { return }
    // The client may have read some of its responses since the last count.
    for connection in connections.values { connection.updateBufferedBytes() }
    for connection in connections.values.sorted(by: { $0.bufferedBytes > $1.bufferedBytes }) {
      if bufferedBytes <= core.bufferedBytes / 8 * 7 { break }
      connection.shedLoad()
    }
  }

  func makeRequestID() -> RequestID { .generate(using: &generator) }

  /// The trace of the client's request, or a new one.
  func makeTrace(for head: RequestHead?) -> TraceContext {
    head?.trace(using: &generator) ?? .new(using: &generator)
  }

  /// The current `Date` field.
  func currentDateField() -> [UInt8] {
    let now = Int64(time(nil))
    if now != dateField.second { dateField = DateField(secondsSinceEpoch: now) }
    return dateField.line
  }
}

/// The constants that all connections of a server share.
struct ServerCore: Sendable {
  let limits: HTTPLimits
  /// An event loop's part of ``HTTPLimits/bufferedBytes``.
  let bufferedBytes: Int
  let timeouts: ConnectionState.Timeouts
  let trustedProxies: TrustedProxies
  let logger: Logger
  let onResponse: (@Sendable (RequestSummary) -> Void)?
}

/// A completed request, for the request log and the metrics.
public struct RequestSummary: Sendable {
  /// A method of RFC 9110 or `PATCH`, else `OTHER`: a client must not be able to create labels.
  public let method: String
  /// The pattern of the route, or `unmatched`: never the path, which the client chooses.
  public let route: String
  /// The index of the route in ``Router/routes``; nil if none matched.
  public let routeIndex: Int?
  /// Whether the route's handler got the request: its head, its query and its body could be read.
  public let reachedHandler: Bool
  /// The status of the response.
  public let status: Int
  /// The error that was answered; nil for a response that a handler made.
  public let problem: Problem?
  /// ``duration`` in nanoseconds, for metrics: an integer is cheaper.
  public let nanoseconds: UInt64
  /// The length of the response with its head.
  public let bytesSent: Int
  /// The client's trace, or a new one.
  public let trace: TraceContext
  let id: RequestID
  /// The other end of the connection.
  public let remoteAddress: SocketAddress
  /// The client's address; see ``Request/clientAddress``.
  public let clientAddress: IPAddress
}

extension RequestSummary {
  /// The time from the first byte of the request until the response was encoded.
  public var duration: Duration { .nanoseconds(nanoseconds) }

  /// The `X-Request-ID` of the response; the text is made at each call.
  public var requestID: String { id.description }

  static func boundedName(of method: HTTPRequest.Method?) -> String {
    switch method {
    case .get: "GET"
    case .head: "HEAD"
    case .post: "POST"
    case .put: "PUT"
    case .patch: "PATCH"
    case .delete: "DELETE"
    case .options: "OPTIONS"
    case .trace: "TRACE"
    default: "OTHER"
    }
  }
}
