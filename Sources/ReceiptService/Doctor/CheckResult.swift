/// The result of one check of ``Doctor``.
public struct CheckResult: Sendable, Hashable {
  /// The checked part, such as `database` or `app com.example.app`.
  public var subject: String
  /// Whether the check passed.
  public var isOK: Bool
  /// Whether the operator should do something although the check passed.
  public var isWarning = false
  /// The result in words.
  public var message: String
  /// The action that repairs a failed check or ends a warning; `nil` if there is none.
  public var remedy: String?

  static func ok(_ subject: String, _ message: String) -> CheckResult {
    CheckResult(subject: subject, isOK: true, message: message)
  }

  static func warn(_ subject: String, _ message: String, _ remedy: String) -> CheckResult {
    CheckResult(subject: subject, isOK: true, isWarning: true, message: message, remedy: remedy)
  }

  static func fail(_ subject: String, _ message: String, _ remedy: String) -> CheckResult {
    CheckResult(subject: subject, isOK: false, message: message, remedy: remedy)
  }

  /// One line.
  public var line: String {
    "\(isOK ? isWarning ? "warn " : "ok   " : "FAIL ") \(subject): \(message)\(remedy.map { "; \($0)" } ?? "")"
      // A library's error message may have several lines.
      .split(whereSeparator: \.isNewline).joined(separator: " ")
  }
}
