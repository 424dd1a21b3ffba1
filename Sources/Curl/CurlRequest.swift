public import HTTPTypes

/// An HTTP request.
public struct CurlRequest: Sendable {
  /// The method.
  public var method: HTTPRequest.Method
  /// An absolute `http` or `https` URL.
  public var url: String
  /// The header fields, without those that libcurl writes (`Host`, `Content-Length`).
  public var headers: HTTPFields
  /// The body; nil for none.
  public var body: [UInt8]?
  /// The timeout from queueing to the last byte of the response.
  public var timeout: Duration
  /// The timeout for name resolution, connecting and the TLS handshake.
  public var connectTimeout: Duration
  /// The limit of the response body in bytes; a longer body is an error.
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

/// A complete HTTP response.
public struct CurlResponse: Sendable {
  /// The versions of HTTP.
  public enum Version: Sendable {
    /// HTTP/1.0
    case http10
    /// HTTP/1.1
    case http11
    /// HTTP/2
    case http2
    /// A version that libcurl may add.
    case other
  }

  /// The status code.
  public let status: Int
  /// The header fields of the final response, without those of interim responses and trailers.
  public let headers: HTTPFields
  /// The body without its transfer coding.
  public let body: [UInt8]
  /// The version of HTTP of the response.
  public let httpVersion: Version
}
