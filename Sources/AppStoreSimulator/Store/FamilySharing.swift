/// The links between purchasers' and family members' purchases, by original transaction id.
struct FamilySharing: Sendable {
  private var members: [String: [String]] = [:]
  private var purchasers: [String: String] = [:]

  /// The members' purchases of a purchaser's purchase, in the order of sharing.
  func members(of purchase: String) -> [String] { members[purchase] ?? [] }

  /// The purchaser's purchase of a member's purchase; nil if it has none.
  func purchaser(of member: String) -> String? { purchasers[member] }

  mutating func begin(_ purchase: String, for member: String) {
    end(for: member)
    members[purchase, default: []].append(member)
    purchasers[member] = purchase
  }

  mutating func end(for member: String) {
    guard let purchase = purchasers.removeValue(forKey: member) else { return }
    members[purchase]?.removeAll { $0 == member }
  }

  /// Adds the links of other families.
  mutating func merge(_ other: FamilySharing) {
    members.merge(other.members) { own, _ in own }
    purchasers.merge(other.purchasers) { own, _ in own }
  }
}
