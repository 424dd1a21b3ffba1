public import HTTPTypes
import Platform
public import Sockets

/// A complete request, with a body within the route's limit.
public struct Request: Sendable {
  private let parsed: RequestHead
  /// The decoded query.
  public let query: Query
  /// The values of the route pattern's `{name}` segments.
  public let parameters: PathParameters
  /// The body without its transfer coding.
  public let body: [UInt8]
  /// The address of the other end of the connection, which may be a proxy; see ``clientAddress``.
  public internal(set) var remoteAddress: SocketAddress
  /// The client's address: that of the other end of the connection, or the one that a trusted proxy names. Rate limiters
  /// and logs use it.
  public let clientAddress: IPAddress
  /// The pattern of the route that matched, such as `/api/v1/profiles/{userID}/premium`.
  public let routePattern: String
  /// See ``id``.
  let requestID: RequestID

  /// The method, as sent.
  public var method: HTTPRequest.Method { parsed.method }

  /// The path of the target as sent: not percent-decoded, without the query.
  public var path: String { parsed.path }

  /// The requested host, from an absolute-form target or `Host`; nil only in HTTP/1.0.
  public var authority: String? { parsed.authority }

  /// The header fields in their order; made at the first use.
  public var headers: HTTPFields { parsed.fields }

  /// Whether `Content-Type` says that the body is JSON.
  var announcesJSON: Bool { parsed.announcesJSON }

  /// The request's identifier in logs and in the response's `X-Request-ID`: the client's own `X-Request-ID` if it is 1 to
  /// 128 characters of `[A-Za-z0-9._-]`, else 32 random hexadecimal digits.
  public var id: String { requestID.description }

  /// A request that did not come over a connection, for tests and for calls within the process.
  public init(
    method: HTTPRequest.Method, path: String, query: Query = Query(), authority: String? = nil,
    headers: HTTPFields = HTTPFields(), parameters: PathParameters = PathParameters(), body: [UInt8] = [],
    remoteAddress: SocketAddress = SocketAddress(host: "127.0.0.1", port: 0),
    clientAddress: IPAddress? = nil, routePattern: String = "", id: String = "test"
  ) {
    self.init(
      head: RequestHead(
        method: method, path: path, query: query.raw, authority: authority, fields: headers), query: query,
      parameters: parameters, body: body, remoteAddress: remoteAddress,
      clientAddress: clientAddress ?? IPAddress(remoteAddress), routePattern: routePattern,
      requestID: .client(id))
  }

  init(
    head: RequestHead, query: Query, parameters: PathParameters, body: [UInt8],
    remoteAddress: SocketAddress, clientAddress: IPAddress, routePattern: String, requestID: RequestID
  ) {
    parsed = head
    self.query = query
    self.parameters = parameters
    self.body = body
    self.remoteAddress = remoteAddress
    self.clientAddress = clientAddress
    self.routePattern = routePattern
    self.requestID = requestID
  }
}
