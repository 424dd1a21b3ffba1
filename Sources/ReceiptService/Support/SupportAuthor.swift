/// Who does something in support's name, and why: both are written down for good.
public struct SupportAuthor: Sendable, Hashable {
  /// The person.
  public let by: String
  /// Why, in that person's words.
  public let reason: String

  /// - Throws: where either is empty, too long for a line of a log, or has control characters.
  public init(by author: String, reason: String) throws(SupportRefusal) {
    try Self.check(author, named: "by", maximum: 200)
    try Self.check(reason, named: "reason", maximum: 1_000)
    by = author
    self.reason = reason
  }

  /// What the program does in its own name.
  private init(rule: String, reason: String) {
    by = rule
    self.reason = reason
  }

  /// A secret that a device replaced by itself.
  static let accountProof = SupportAuthor(
    rule: "policy", reason: "a signed proof of the device's Apple Account came with another secret")

  /// The award to owners from before a date.
  static func grandfather(before date: String) -> SupportAuthor {
    SupportAuthor(rule: GrantRows.grandfather, reason: "had the app before \(date)")
  }

  private static func check(
    _ text: String, named name: String, maximum: Int
  ) throws(SupportRefusal) {
    guard text.utf8.contains(where: { $0 != UInt8(ascii: " ") }) else {
      throw .invalid("'\(name)' is needed: it is written down with what is done.")
    }
    guard text.utf8.count <= maximum, text.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }) else {
      throw .invalid("'\(name)' must be at most \(maximum) bytes without control characters.")
    }
  }
}
