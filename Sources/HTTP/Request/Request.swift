public import HTTPTypes
public import Sockets

/// One request, whole: its body has arrived and is within the route's limit.
public struct Request: Sendable {
  private let parsed: RequestHead
  /// The decoded query.
  public let query: Query
  /// What stood in the path where the route's pattern has `{name}`.
  public let parameters: PathParameters
  /// The body, with any transfer coding removed.
  public let body: [UInt8]
  /// The other end of the connection.
  ///
  /// Behind a proxy it is the proxy's; see ``clientAddress``.
  public internal(set) var remoteAddress: SocketAddress
  /// Who asks: the other end of the connection, or whom a trusted proxy there names. This is the one place that a rate
  /// limiter or a log asks.
  public let clientAddress: IPAddress
  /// The pattern of the route that matched, such as `/api/v1/profiles/{userID}/premium`.
  public let routePattern: String
  /// What names this request in logs and answers; see ``id``.
  let requestID: RequestID

  /// The method, as sent.
  public var method: HTTPRequest.Method { parsed.method }

  /// The path of the target as sent: not percent-decoded, without the query.
  public var path: String { parsed.path }

  /// The host that the client asked for, from the target (absolute form) or `Host`; nil only in HTTP/1.0.
  public var authority: String? { parsed.authority }

  /// The header section in the order in which it was sent. It is made when it is first asked for.
  public var headers: HTTPFields { parsed.fields }

  /// Whether `Content-Type` says that the body is JSON.
  var announcesJSON: Bool { parsed.announcesJSON }

  /// What names this request in logs and in the answer's `X-Request-ID`: the client's own
  /// `X-Request-ID` if it is 1 to 128 characters of `[A-Za-z0-9._-]`, else 32 random hex digits.
  public var id: String { requestID.description }

  /// The request's head as an ``HTTPTypes/HTTPRequest``, for code that speaks that type.
  ///
  /// It is put together on each call.
  public var head: HTTPRequest {
    HTTPRequest(
      method: method, scheme: "http", authority: authority,
      path: query.raw.isEmpty ? path : "\(path)?\(query.raw)", headerFields: headers)
  }

  /// A request made by hand, for tests of handlers and for calls within the process.
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
      requestID: .given(id))
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
