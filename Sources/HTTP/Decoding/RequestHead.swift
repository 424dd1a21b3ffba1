import HTTPTypes

/// A request's line and header section, understood.
struct RequestHead: Equatable {
  var method: HTTPRequest.Method
  var target: RequestTarget
  var version: HTTPVersion
  /// The host and port that the client asked for; nil only in HTTP/1.0.
  var authority: String?
  var fields: HTTPFields
  var framing: BodyFraming
  /// Whether the client holds its body back until it is told to continue.
  var expectsContinue: Bool
  /// Whether the client is ready to send another request after this one.
  var wantsKeepAlive: Bool
  /// The client's own `X-Request-ID`, if it is fit to be used.
  var givenID: String?
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
