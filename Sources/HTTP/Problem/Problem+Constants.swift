import HTTPTypes

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
  public static func overloaded(_ detail: String, retryAfterSeconds: Int = 1) -> Problem {
    Problem(
      status: .serviceUnavailable, code: .overloaded, detail: detail,
      message: "The server is too busy. Please try again.", headers: [.retryAfter: "\(retryAfterSeconds)"])
  }
}
