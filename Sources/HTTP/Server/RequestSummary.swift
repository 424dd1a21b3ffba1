import HTTPTypes
import Platform
public import Sockets

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
