public import HTTPTypes
public import JSON

/// One answer, whole.
///
/// `Content-Length`, `Date`, `Connection`, `Transfer-Encoding` and `X-Request-ID` belong to the server:
/// it writes them itself and ignores what stands in ``headers`` under these names.
public struct Response: Sendable, Hashable {
  /// The status.
  public var status: HTTPResponse.Status
  /// The header section, without what the server writes itself.
  public var headers: HTTPFields
  /// The body. For `HEAD` only its length is sent.
  public var body: [UInt8]

  /// An answer with the given parts.
  public init(status: HTTPResponse.Status = .ok, headers: HTTPFields = HTTPFields(), body: [UInt8] = []) {
    self.status = status
    self.headers = headers
    self.body = body
  }

  /// An answer without a body.
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
  /// - Throws: what the value's `encode(to:)` throws; a handler that lets it pass answers 500.
  public static func json(_ value: some Encodable) throws -> Response { try .json(.ok, value) }

  /// A value as JSON, by ``JSONCoding``: times in RFC 3339, slashes not escaped.
  ///
  /// - Parameter precision: how exact times are.
  /// - Throws: what the value's `encode(to:)` throws; a handler that lets it pass answers 500.
  public static func json(
    _ status: HTTPResponse.Status, _ value: some Encodable, times precision: RFC3339.Precision = .seconds
  ) throws -> Response {
    Response(status: status, headers: json, body: try JSONCoding.encode(value, times: precision))
  }

  /// A value as JSON, with 200.
  public static func json(_ value: some JSONWritable) -> Response { .json(.ok, value) }

  /// A value as JSON.
  public static func json(_ status: HTTPResponse.Status, _ value: some JSONWritable) -> Response {
    Response(status: status, headers: json, body: JSONWriter.bytes(of: value))
  }

  // Made once: to put fields together takes longer than to look for the route.
  private static let plainText: HTTPFields = [.contentType: "text/plain; charset=utf-8"]
  private static let json: HTTPFields = [.contentType: "application/json"]
}
