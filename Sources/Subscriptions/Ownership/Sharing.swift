import FoundationEssentials

/// A device that has a purchase together with others, or had it until support took it away.
public struct Holder: Sendable, Hashable {
  /// The name that the device gives itself.
  public var deviceID: String
  /// Since when it has the purchase.
  public var since: Date
  /// When it last proved the purchase. Whoever uses an app proves it at every start, so the one that is longest ago
  /// belongs to a device that was sold, lost or put away.
  public var provedAt: Date
  /// Whether support took the purchase away from it: its proof does not bring it back.
  public var isBarred: Bool

  /// Creates a holder that proved the purchase at this instant.
  public init(_ deviceID: String, at instant: Date, isBarred: Bool = false) {
    self.deviceID = deviceID
    since = instant
    provedAt = instant
    self.isBarred = isBarred
  }

  /// Creates a holder as it was kept.
  public init(_ deviceID: String, since: Date, provedAt: Date, isBarred: Bool) {
    self.deviceID = deviceID
    self.since = since
    self.provedAt = provedAt
    self.isBarred = isBarred
  }
}

/// What comes of a device's proof of a purchase that several devices may have at once, and who has it then.
public struct SharedClaim: Sendable, Hashable {
  /// What comes of it.
  public var outcome: ClaimOutcome
  /// The owner and the others, and who may not have it any more; in no order that means anything.
  public var holders: [Holder]

  /// Creates a claim's outcome.
  public init(outcome: ClaimOutcome, holders: [Holder]) {
    self.outcome = outcome
    self.holders = holders
  }
}

/// The rule for an app with a number of devices for each purchase: whoever proves it has it, as long as there is room.
///
/// Beyond the number the app's policy decides, as it does for one customer: the newcomer is refused, or takes the place
/// of the device that proved it longest ago. If that is the owner, the newcomer owns it. With a number of one this is
/// ``settle(claimant:owner:token:decidedToken:kind:policy:isActive:)`` for devices.
///
/// - Parameters:
///   - claimant: who proves the purchase now; `nil` for the App Store itself, which changes nothing here.
///   - owner: whose it was first.
///   - holders: who has it; the owner may be missing, if it had the purchase before sharing was allowed.
///   - limit: how many devices may have it at once. A lower number than before takes it from nobody.
///   - policy: what happens when there is no room.
///   - isActive: whether the purchase opens anything now.
///   - instant: now.
public func share(
  claimant: Customer?, owner: Ownership?, holders: [Holder], limit: Int, policy: TransferPolicy,
  isActive: Bool, at instant: Date
) -> SharedClaim {
  guard let claimant, case .device(let device) = claimant else {
    return SharedClaim(outcome: .settled(owner), holders: holders)
  }
  guard let owner, case .device(let first) = owner.customer else {
    return SharedClaim(
      outcome: .settled(Ownership(customer: claimant, reason: .firstClaim)),
      holders: [Holder(device, at: instant)])
  }
  var holders = holders
  if !holders.contains(where: { $0.deviceID == first }) {
    // Nobody wrote down when it proved the purchase: longer ago than whoever comes now.
    holders.append(Holder(first, at: Date(timeIntervalSince1970: 0)))
  }
  if let place = holders.firstIndex(where: { $0.deviceID == device }) {
    if holders[place].isBarred { return SharedClaim(outcome: .refused(owner: owner), holders: holders) }
    holders[place].provedAt = max(holders[place].provedAt, instant)
    return SharedClaim(outcome: .settled(owner), holders: holders)
  }
  if owner.reason == .support(takenFrom: claimant) {
    return SharedClaim(outcome: .refused(owner: owner), holders: holders)
  }
  let having = holders.filter { !$0.isBarred }
  guard having.count >= limit, let last = having.min(by: provedEarlier) else {
    return SharedClaim(
      outcome: .shared(owner, with: claimant, insteadOf: nil),
      holders: holders + [Holder(device, at: instant)])
  }
  guard policy.moves(whileActive: isActive) else {
    return SharedClaim(outcome: .refused(owner: owner), holders: holders)
  }
  holders.removeAll { $0.deviceID == last.deviceID }
  holders.append(Holder(device, at: instant))
  let loser = Customer.device(last.deviceID)
  return SharedClaim(
    outcome: loser == owner.customer
      ? .moved(Ownership(customer: claimant, reason: .transfer), from: loser)
      : .shared(owner, with: claimant, insteadOf: loser),
    holders: holders)
}

private func provedEarlier(_ a: Holder, _ b: Holder) -> Bool {
  (a.provedAt, a.since, a.deviceID) < (b.provedAt, b.since, b.deviceID)
}

extension [Holder] {
  /// After support gave the purchase to one device: nobody else has it, nor gets it back by proving it.
  /// - Parameter previous: whose it was, if it is not among these.
  public func given(to device: String, from previous: Customer?, at instant: Date) -> [Holder] {
    var names = Set(map(\.deviceID))
    if case .device(let name) = previous { names.insert(name) }
    names.insert(device)
    return names.sorted().map { name in
      var holder = first { $0.deviceID == name } ?? Holder(name, at: instant)
      // One that was barred and has it again has it from now on.
      if name == device, holder.isBarred { holder = Holder(name, at: instant) }
      holder.isBarred = name != device
      return holder
    }
  }
}
