public import HTTPTypes
import JSON

/// An error response in the form of RFC 9457 (problem details).
///
/// A handler throws a problem to send an error to the client. Any other error becomes ``internalError``, and its text
/// is only logged: clients never see SQL, paths, or another customer's identifiers.
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
  /// The HTML page that a browser gets in place of the document.
  public var page: [UInt8]?

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

extension Problem {
  /// The body is not JSON in UTF-8: 400 `invalid_json`.
  public static func invalidJSON(_ detail: String) -> Problem {
    Problem(status: .badRequest, code: .invalidJSON, detail: detail, message: "The body is not valid JSON.")
  }

  /// A parameter or the body has the wrong shape: 400 `invalid_request`.
  public static func invalidRequest(_ detail: String) -> Problem {
    Problem(
      status: .badRequest, code: .invalidRequest, detail: detail, message: "The request is not valid.")
  }

  /// The path does not exist: 404 `not_found`.
  public static func notFound(_ detail: String = "There is nothing at this path.") -> Problem {
    Problem(status: .notFound, code: .notFound, detail: detail, message: "Not found.")
  }

  /// The path exists, but not with this method: 405 `method_not_allowed`.
  ///
  /// - Parameter allow: the value of the `Allow` field, which RFC 9110 §15.5.6 requires.
  public static func methodNotAllowed(allow: String) -> Problem {
    Problem(
      status: .methodNotAllowed, code: .methodNotAllowed, detail: "Allowed are: \(allow).",
      message: "This method is not allowed here.", headers: [.allow: allow])
  }

  /// The client took too long to send its request: 408 `request_timeout`.
  public static func requestTimeout(_ detail: String) -> Problem {
    Problem(
      status: .requestTimeout, code: .requestTimeout, detail: detail,
      message: "The request took too long to arrive.")
  }

  /// The body is longer than the route's limit: 413 `payload_too_large`.
  public static func payloadTooLarge(maximum: Int) -> Problem {
    Problem(
      status: .contentTooLarge, code: .payloadTooLarge, detail: "At most \(maximum) bytes are accepted here.",
      message: "The body is too large.")
  }

  /// The route expects another media type: 415 `unsupported_media_type`.
  public static func unsupportedMediaType(_ detail: String) -> Problem {
    Problem(
      status: .unsupportedMediaType, code: .unsupportedMediaType,
      detail: detail, message: "The body has an unsupported media type.")
  }

  /// The server failed: 500 `internal`. It has no cause, because the cause belongs in the log.
  public static let internalError = Problem(
    status: .internalServerError, code: .internalError,
    detail: "The request could not be completed. Its requestID names it in our log.",
    message: "Something went wrong on our side.")

  /// The response was not ready within its deadline, or too many connections are open: 503 `overloaded`.
  public static func overloaded(_ detail: String) -> Problem {
    Problem(
      status: .serviceUnavailable, code: .overloaded, detail: detail,
      message: "The server is too busy. Please try again.", headers: [.retryAfter: "1"])
  }
}

// The problems of decoding. After each of them the connection is closed, because the start of the next request is
// unknown.
extension Problem {
  static func headersTooLarge(_ detail: String) -> Problem {
    Problem(
      status: .requestHeaderFieldsTooLarge, code: .headersTooLarge, detail: detail,
      message: "The headers are too large.")
  }

  static func uriTooLong(maximum: Int) -> Problem {
    Problem(
      status: .uriTooLong, code: .uriTooLong, detail: "A request line may have at most \(maximum) bytes.",
      message: "The address is too long.")
  }

  static func notImplemented(_ detail: String) -> Problem {
    Problem(
      status: .notImplemented, code: .notImplemented, detail: detail,
      message: "The server does not know how to do that.")
  }

  static let versionNotSupported = Problem(
    status: .httpVersionNotSupported, code: .httpVersionNotSupported,
    detail: "Use HTTP/1.1.", message: "This version of HTTP is not supported.")

  static let expectationFailed = Problem(
    status: .expectationFailed, code: .expectationFailed,
    detail: "The only expectation that is known is 100-continue.", message: "The expectation cannot be met.")
}

extension Response {
  /// A problem as `application/problem+json`.
  init(_ problem: Problem, requestID: RequestID) {
    if let page = problem.page {
      var headers = problem.headers
      headers[.contentType] = "text/html; charset=utf-8"
      self.init(status: problem.status, headers: headers, body: page)
      return
    }
    let document = ProblemDocument(
      title: problem.title, status: problem.status.code, detail: problem.detail,
      code: problem.code.rawValue, error: problem.message, requestID: requestID.description)
    var headers = problem.headers
    headers[.contentType] = "application/problem+json"
    self.init(status: problem.status, headers: headers, body: JSONWriter.bytes(of: document))
  }
}

/// The members of RFC 9457 and this service's own.
private struct ProblemDocument: JSONWritable {
  let title: String
  let status: Int
  let detail: String
  let code: String
  let error: String
  let requestID: String

  func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("code", code)
      json.member("detail", detail)
      json.member("error", error)
      json.member("requestID", requestID)
      json.member("status", status)
      json.member("success", false)
      json.member("title", title)
      json.member("type", "about:blank")
    }
  }
}
