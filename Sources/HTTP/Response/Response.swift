public import HTTPTypes
public import JSON

/// A complete response.
///
/// The server writes `Content-Length`, `Date`, `Connection`, `Transfer-Encoding` and `X-Request-ID` itself, and ignores
/// fields of these names in ``headers``.
public struct Response: Sendable, Hashable {
  /// The status.
  public var status: HTTPResponse.Status
  /// The header fields, without those that the server writes.
  public var headers: HTTPFields
  /// The body. For `HEAD` only its length is sent.
  public var body: [UInt8]

  /// A response from its parts.
  public init(status: HTTPResponse.Status = .ok, headers: HTTPFields = HTTPFields(), body: [UInt8] = []) {
    self.status = status
    self.headers = headers
    self.body = body
  }

  /// A response without a body.
  public static func empty(_ status: HTTPResponse.Status) -> Response { Response(status: status) }

  /// Plain text in UTF-8, with 200.
  public static func text(_ text: String) -> Response { .text(.ok, text) }

  /// Plain text in UTF-8.
  public static func text(_ status: HTTPResponse.Status, _ text: String) -> Response {
    Response(status: status, headers: plainText, body: Array(text.utf8))
  }

  /// Text in UTF-8.
  public static func text(
    _ status: HTTPResponse.Status, _ text: String, contentType: String
  ) -> Response {
    Response(status: status, headers: [.contentType: contentType], body: Array(text.utf8))
  }

  /// A value as JSON, by ``JSONCoding``, with 200.
  ///
  /// - Throws: the error of the value's `encode(to:)`.
  public static func json(_ value: some Encodable) throws -> Response { try .json(.ok, value) }

  /// A value as JSON, by ``JSONCoding``: times in RFC 3339, slashes not escaped.
  ///
  /// - Parameter precision: the precision of times.
  /// - Throws: the error of the value's `encode(to:)`.
  public static func json(
    _ status: HTTPResponse.Status, _ value: some Encodable, times precision: RFC3339.Precision = .seconds
  ) throws -> Response {
    Response(status: status, headers: json, body: try JSONCoding.encode(value, times: precision))
  }

  /// A value as JSON.
  public static func json(_ status: HTTPResponse.Status, _ value: some JSONWritable) -> Response {
    Response(status: status, headers: json, body: JSONWriter.bytes(of: value))
  }

  // Constants, because to make header fields takes longer than routing.
  private static let plainText: HTTPFields = [.contentType: "text/plain; charset=utf-8"]
  private static let json: HTTPFields = [.contentType: "application/json"]
}

/// An error with which a handler closes the connection without a response, as status 444 does in nginx.
///
/// The simulated App Store uses it for faults.
public struct ConnectionAbort: Error, Sendable {
  /// The bytes that are sent first: none, or the beginning of a response.
  public let sending: [UInt8]

  /// Closes after sending these bytes, as far as the socket accepts them at once.
  public init(sending: [UInt8] = []) {
    self.sending = sending
  }
}
