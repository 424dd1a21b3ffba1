public import HTTPTypes

/// An answer that says what went wrong, in the form of RFC 9457 (problem details).
///
/// A handler throws one to end a request with an error that the client may read. Anything else that
/// a handler throws becomes ``internalError`` and its text stays in the server's log: a client never
/// learns of SQL, paths, or other people's identifiers.
public struct Problem: Error, Sendable, Hashable {
  /// The HTTP status, also written as the member `status`.
  public var status: HTTPResponse.Status
  /// What a program decides on; see ``Code``.
  public var code: Code
  /// A summary that is the same for every occurrence of the code (RFC 9457 §3.1.3). Problems of the type
  /// `about:blank`, as all of these, use the status's own phrase (RFC 9457 §4.2.1).
  public var title: String
  /// What is particular to this occurrence, for the developer of the client (RFC 9457 §3.1.4).
  public var detail: String
  /// A sentence that an app may show to a person, written as the member `error`.
  public var message: String
  /// Further header fields of the answer, such as `Retry-After`, `Allow` or `WWW-Authenticate`.
  public var headers: HTTPFields

  /// A problem with a code of the caller's own.
  ///
  /// - Parameters:
  ///   - title: defaults to the status's own phrase.
  ///   - message: defaults to `detail`, which then should be fit for a person to read.
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
  /// The word that a client's program compares, written as the member `code`.
  public struct Code: RawRepresentable, Hashable, Sendable, ExpressibleByStringLiteral {
    /// The word on the wire, in snake case.
    public let rawValue: String

    /// A code from its word on the wire.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// A code from a literal, so that services can declare their own as constants.
    public init(stringLiteral value: String) { rawValue = value }

    /// The body is not JSON in UTF-8, or is nested too deep.
    public static let invalidJSON: Code = "invalid_json"
    /// The request breaks HTTP's grammar, or its parameters or body have the wrong shape.
    public static let invalidRequest: Code = "invalid_request"
    /// Nothing lives at this path.
    public static let notFound: Code = "not_found"
    /// The path exists, but not with this method; `Allow` names those that do.
    public static let methodNotAllowed: Code = "method_not_allowed"
    /// The client took too long to send its request.
    public static let requestTimeout: Code = "request_timeout"
    /// The body is longer than this route takes.
    public static let payloadTooLarge: Code = "payload_too_large"
    /// The request target is longer than the server reads.
    public static let uriTooLong: Code = "uri_too_long"
    /// The body is not of a media type that this route takes.
    public static let unsupportedMediaType: Code = "unsupported_media_type"
    /// An `Expect` other than `100-continue`.
    public static let expectationFailed: Code = "expectation_failed"
    /// The header section has too many fields, or is too long.
    public static let headersTooLarge: Code = "headers_too_large"
    /// Something failed that is no fault of the client's.
    public static let internalError: Code = "internal"
    /// A transfer coding or method that this server does not know.
    public static let notImplemented: Code = "not_implemented"
    /// Too much to do: the answer was not ready within its deadline, or there are too many connections.
    public static let overloaded: Code = "overloaded"
    /// Neither HTTP/1.0 nor HTTP/1.1.
    public static let httpVersionNotSupported: Code = "http_version_not_supported"
  }
}
