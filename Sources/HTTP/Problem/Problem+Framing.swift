import HTTPTypes

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
