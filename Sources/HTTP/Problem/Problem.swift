public import HTTPTypes

/// An error response in the form of RFC 9457 (problem details).
///
/// A handler throws a problem to send an error to the client. Any other error becomes ``internalError``, and its text is
/// only logged: clients never see SQL, paths, or another customer's identifiers.
public struct Problem: Error, Sendable, Hashable {
  /// The HTTP status, also written as the member `status`.
  public var status: HTTPResponse.Status
  /// The error code for programs; see ``Code``.
  public var code: Code
  /// A summary, the same for every occurrence of the code (RFC 9457 §3.1.3). Problems of the type `about:blank`, as all
  /// of these, use the reason phrase of the status (RFC 9457 §4.2.1).
  public var title: String
  /// The details of this occurrence, for the developer of the client (RFC 9457 §3.1.4).
  public var detail: String
  /// A sentence that an app may show to its user, written as the member `error`.
  public var message: String
  /// Further header fields of the response, such as `Retry-After`, `Allow` or `WWW-Authenticate`.
  public var headers: HTTPFields
  /// What the request log has in place of ``detail``, where that may name a customer.
  public var loggedDetail: String?
  /// Further fields of the request log's line; clients do not get them.
  public var logFields: [String: String] = [:]

  /// A problem from its parts.
  ///
  /// - Parameters:
  ///   - title: defaults to the reason phrase of the status.
  ///   - message: defaults to `detail`.
  public init(
    status: HTTPResponse.Status, code: Code, title: String? = nil, detail: String,
    message: String? = nil, headers: HTTPFields = HTTPFields()
  ) {
    self.status = status
    self.code = code
    self.title = title ?? status.reasonPhrase
    self.detail = detail
    self.message = message ?? detail
    self.headers = headers
  }
}

extension Problem {
  /// The error code that a client's program compares, written as the member `code`.
  public struct Code: RawRepresentable, Hashable, Sendable, ExpressibleByStringLiteral {
    /// The value of the member, in snake case.
    public let rawValue: String

    /// A code from the value of the member.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// A code from a literal.
    public init(stringLiteral value: String) { rawValue = value }

    /// The body is not JSON in UTF-8, or is nested too deep.
    public static let invalidJSON: Code = "invalid_json"
    /// The request breaks HTTP's grammar, or its parameters or body have the wrong shape.
    public static let invalidRequest: Code = "invalid_request"
    /// The path does not exist.
    public static let notFound: Code = "not_found"
    /// The path exists, but not with this method; `Allow` names those that do.
    public static let methodNotAllowed: Code = "method_not_allowed"
    /// The client took too long to send its request.
    public static let requestTimeout: Code = "request_timeout"
    /// The body is longer than the route's limit.
    public static let payloadTooLarge: Code = "payload_too_large"
    /// The request line is longer than the limit.
    public static let uriTooLong: Code = "uri_too_long"
    /// The route expects another media type.
    public static let unsupportedMediaType: Code = "unsupported_media_type"
    /// An `Expect` other than `100-continue`.
    public static let expectationFailed: Code = "expectation_failed"
    /// The header section has too many fields, or is too long.
    public static let headersTooLarge: Code = "headers_too_large"
    /// The server failed.
    public static let internalError: Code = "internal"
    /// The server does not support the transfer coding or the method.
    public static let notImplemented: Code = "not_implemented"
    /// The response was not ready within its deadline, or too many connections are open.
    public static let overloaded: Code = "overloaded"
    /// Neither HTTP/1.0 nor HTTP/1.1.
    public static let httpVersionNotSupported: Code = "http_version_not_supported"
  }
}
