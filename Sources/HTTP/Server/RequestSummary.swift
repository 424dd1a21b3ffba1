import HTTPTypes
public import Sockets

/// What a log line or a metric wants to know of an answer that was given.
public struct RequestSummary: Sendable {
  /// The method if it is one of RFC 9110's or `PATCH`, else `OTHER`: a client must not be able to make up
  /// labels.
  public let method: String
  /// The pattern of the route, or `unmatched`: never the path, which a client makes up.
  public let route: String
  /// The status of the answer.
  public let status: Int
  /// From the first byte of the request to the answer's hand-over to the socket.
  public let duration: Duration
  /// The bytes of the answer, its head included.
  public let bytesSent: Int
  /// What `X-Request-ID` said.
  public let requestID: String
  /// The other end of the connection.
  public let remoteAddress: SocketAddress
  /// Who asked; see ``Request/clientAddress``.
  public let clientAddress: IPAddress
}

extension RequestSummary {
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
