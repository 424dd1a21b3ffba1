import HTTPTypes
public import Sockets

/// What a log line or a metric wants to know of an answer that was given.
public struct RequestSummary: Sendable {
  /// The method if it is one of RFC 9110's or `PATCH`, else `OTHER`: a client must not be able to make up
  /// labels.
  public let method: String
  /// The pattern of the route, or `unmatched`: never the path, which a client makes up.
  public let route: String
  /// The place of the route in ``Router/routes``; nil if none matched.
  public let routeIndex: Int?
  /// The status of the answer.
  public let status: Int
  /// ``duration`` in nanoseconds, for metrics: as an integer it is cheaper to make and to take.
  public let nanoseconds: UInt64
  /// The bytes of the answer, its head included.
  public let bytesSent: Int
  /// The trace that the request belongs to: the caller's, or one of its own.
  public let trace: TraceContext
  let id: RequestID
  /// The other end of the connection.
  public let remoteAddress: SocketAddress
  /// Who asked; see ``Request/clientAddress``.
  public let clientAddress: IPAddress
}

extension RequestSummary {
  /// From the first byte of the request to the answer's hand-over to the socket.
  public var duration: Duration { .nanoseconds(nanoseconds) }

  /// What `X-Request-ID` said. Its text is made when it is asked for, which for most requests is never.
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
