import HTTPTypes

/// A request's line and header section, understood.
///
/// An object, since it is handed from the decoder to the connection, the router and the request, and has
/// many parts that each would have to be counted anew.
final class RequestHead: Sendable {
  let method: HTTPRequest.Method
  let target: RequestTarget
  let version: HTTPVersion
  /// The host and port that the client asked for; nil only in HTTP/1.0.
  let authority: String?
  let fields: HTTPFields
  let framing: BodyFraming
  /// Whether the client holds its body back until it is told to continue.
  let expectsContinue: Bool
  /// Whether the client is ready to send another request after this one.
  let wantsKeepAlive: Bool
  /// The client's own `X-Request-ID`, if it is fit to be used.
  let givenID: String?

  init(
    line: RequestLine, authority: String?, fields: HTTPFields, framing: BodyFraming, expectsContinue: Bool,
    wantsKeepAlive: Bool, givenID: String?
  ) {
    method = line.method
    target = line.target
    version = line.version
    self.authority = authority
    self.fields = fields
    self.framing = framing
    self.expectsContinue = expectsContinue
    self.wantsKeepAlive = wantsKeepAlive
    self.givenID = givenID
  }
}

/// The two versions that are spoken.
enum HTTPVersion: Equatable {
  case http10
  case http11
}

/// How the end of a body is found (RFC 9112 §6.3).
enum BodyFraming: Equatable {
  case none
  /// `Content-Length`; never 0, which is ``none``.
  case length(Int)
  /// `Transfer-Encoding: chunked`.
  case chunked
}
