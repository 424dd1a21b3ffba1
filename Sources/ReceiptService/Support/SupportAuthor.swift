/// The author of a support action, and the reason. Both are recorded permanently.
public struct SupportAuthor: Sendable, Hashable {
  /// The person's name.
  public let by: String
  /// The reason in that person's words.
  public let reason: String

  /// - Throws: if either is empty, too long for a log line, or has control characters.
  public init(by author: String, reason: String) throws(SupportRefusal) {
    try Self.check(author, named: "by", maximum: 200)
    try Self.check(reason, named: "reason", maximum: 1_000)
    by = author
    self.reason = reason
  }

  /// The author of an automatic action.
  private init(rule: String, reason: String) {
    by = rule
    self.reason = reason
  }

  /// The author if a device replaces its own secret.
  static let accountProof = SupportAuthor(
    rule: "policy", reason: "a signed proof of the device's Apple Account came with another secret")

  /// The author of grandfather grants.
  static func grandfather(before date: String) -> SupportAuthor {
    SupportAuthor(rule: GrantRows.grandfather, reason: "had the app before \(date)")
  }

  /// The author of awards to customers from before receiptd.
  static func adoption(_ reason: String) -> SupportAuthor { SupportAuthor(rule: "adopt", reason: reason) }

  /// The author of an answer to the App Store about a refund.
  /// - Parameter sentence: what was answered, or why nothing was.
  static func refundPolicy(_ sentence: String) -> SupportAuthor {
    SupportAuthor(rule: "policy", reason: sentence)
  }

  private static func check(
    _ text: String, named name: String, maximum: Int
  ) throws(SupportRefusal) {
    guard text.utf8.contains(where: { $0 != UInt8(ascii: " ") }) else {
      throw .invalid("'\(name)' is needed: it is recorded with the action.")
    }
    guard text.utf8.count <= maximum, text.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }) else {
      throw .invalid("'\(name)' must be at most \(maximum) bytes without control characters.")
    }
  }
}
