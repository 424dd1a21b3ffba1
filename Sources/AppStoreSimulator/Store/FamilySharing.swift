/// Who has what from whom: purchases by their original transaction ids.
struct FamilySharing: Sendable {
  private var members: [String: [String]] = [:]
  private var purchasers: [String: String] = [:]

  /// The members' purchases that follow a purchaser's, in the order in which they were shared.
  func members(of purchase: String) -> [String] { members[purchase] ?? [] }

  /// The purchase that a member's follows; nil if it follows none.
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

  /// Adds the sharing of other families.
  mutating func merge(_ other: FamilySharing) {
    members.merge(other.members) { own, _ in own }
    purchasers.merge(other.purchasers) { own, _ in own }
  }
}
