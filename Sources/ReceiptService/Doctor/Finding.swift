/// One thing that was looked at.
public struct Finding: Sendable, Hashable {
  /// What was looked at: `database`, `app com.example.app`.
  public var subject: String
  /// Whether it is as it must be.
  public var isWell: Bool
  /// What was found.
  public var finding: String
  /// What to do; `nil` where nothing is to be done.
  public var remedy: String?

  static func ok(_ subject: String, _ finding: String) -> Finding {
    Finding(subject: subject, isWell: true, finding: finding)
  }

  static func fail(_ subject: String, _ finding: String, _ remedy: String) -> Finding {
    Finding(subject: subject, isWell: false, finding: finding, remedy: remedy)
  }

  /// One line.
  public var line: String {
    "\(isWell ? "ok   " : "FAIL ") \(subject): \(finding)\(remedy.map { "; \($0)" } ?? "")"
      // What a library says may have several lines.
      .split(whereSeparator: \.isNewline).joined(separator: " ")
  }
}
