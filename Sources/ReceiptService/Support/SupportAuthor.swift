/// The author of a support action, and the reason. Both are recorded permanently.
public struct SupportAuthor: Sendable, Hashable {
  /// The person, machine or operator, or the rule of receiptd.
  public let actor: SupportActor
  /// The reason in the actor's words.
  public let reason: String

  /// The actor's name.
  public var by: String { actor.name }

  /// - Throws: if the reason, or a name that the caller chose, is empty, too long for a log line, or has control or invisible characters; for
  ///   an operator with the name of a rule.
  public init(by actor: SupportActor, reason: String) throws(SupportRefusal) {
    switch actor {
    case .machine(let name?): try Self.check(name, named: "by", maximum: 200)
    case .operatorNamed(let name):
      try Self.check(name, named: "by", maximum: 200)
      guard !PersonName.isReserved(name) else {
        throw .invalid(
          "'\(name)' is the name of a part of receiptd in the record; give another one with --by.")
      }
    case .person, .machine(nil), .rule: break
    }
    try Self.check(reason, named: "reason", maximum: 1_000)
    self.actor = actor
    self.reason = reason
  }

  /// The author of an automatic action.
  private init(rule: String, reason: String) {
    actor = .rule(rule)
    self.reason = reason
  }

  /// The author of what a look-up at the App Store repaired. The reason has no id: an order leads to its customer.
  static func lookup(by actor: SupportActor) -> SupportAuthor {
    let reason = "asked the App Store about an order id"
    // An operator's name may not be fit for the record.
    return (try? SupportAuthor(by: actor, reason: reason)) ?? SupportAuthor(rule: "receiptd", reason: reason)
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
    guard text.utf8.count <= maximum, !text.hasControlCharacters else {
      throw .invalid("'\(name)' must be at most \(maximum) bytes without control or invisible characters.")
    }
  }
}
