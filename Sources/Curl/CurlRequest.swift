public import HTTPTypes

/// A request to send.
public struct CurlRequest: Sendable {
  /// The method.
  public var method: HTTPRequest.Method
  /// An absolute `http` or `https` URL.
  public var url: String
  /// Fields to send besides those that libcurl writes (`Host`, `Content-Length`).
  public var headers: HTTPFields
  /// The body; nil for none.
  public var body: [UInt8]?
  /// From queueing to the last byte of the answer.
  public var timeout: Duration
  /// To resolve, connect and agree on TLS.
  public var connectTimeout: Duration
  /// The longest body to accept, in bytes; more is an error, noticed while receiving.
  public var maximumResponseLength: Int

  /// A request with these parts.
  public init(
    method: HTTPRequest.Method = .get, url: String, headers: HTTPFields = [:], body: [UInt8]? = nil,
    timeout: Duration = .seconds(10), connectTimeout: Duration = .seconds(3),
    maximumResponseLength: Int = 4 << 20
  ) {
    self.method = method
    self.url = url
    self.headers = headers
    self.body = body
    self.timeout = timeout
    self.connectTimeout = connectTimeout
    self.maximumResponseLength = maximumResponseLength
  }
}

/// A whole answer.
public struct CurlResponse: Sendable {
  /// The version of HTTP that was spoken.
  public enum Version: Sendable {
    /// HTTP/1.0
    case http10
    /// HTTP/1.1
    case http11
    /// HTTP/2
    case http2
    /// Something that libcurl may learn.
    case other
  }

  /// The status code.
  public let status: Int
  /// The fields of the final response, interim ones and trailers left out.
  public let headers: HTTPFields
  /// The body, decoded from its transfer coding.
  public let body: [UInt8]
  /// The version of HTTP that was spoken.
  public let httpVersion: Version
}
