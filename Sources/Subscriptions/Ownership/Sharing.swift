import Foundation

/// A device that shares a purchase, or did until support removed it.
public struct Holder: Sendable, Hashable {
  /// The id that the device generated.
  public var deviceID: String
  /// When the device got the purchase.
  public var since: Date
  /// When it last proved the purchase. An app proves it at every start, so the oldest proof is of an unused device.
  public var provedAt: Date
  /// Whether support removed the device: its proof does not add it again.
  public var isBarred: Bool
  /// Whether it ever proved the purchase. A device that only named the transaction's id displaces no device that did.
  public var isProven: Bool

  /// Creates a holder that proved the purchase at this instant.
  public init(_ deviceID: String, at instant: Date, isBarred: Bool = false, isProven: Bool = true) {
    self.deviceID = deviceID
    since = instant
    provedAt = instant
    self.isBarred = isBarred
    self.isProven = isProven
  }

  /// Creates a holder from a stored one.
  public init(_ deviceID: String, since: Date, provedAt: Date, isBarred: Bool, isProven: Bool) {
    self.deviceID = deviceID
    self.since = since
    self.provedAt = provedAt
    self.isBarred = isBarred
    self.isProven = isProven
  }
}

/// The outcome of a device's proof of a shared purchase, with the devices that have it then.
public struct SharedClaim: Sendable, Hashable {
  /// The outcome.
  public var outcome: ClaimOutcome
  /// The owner, the other devices and the barred ones, in no order.
  public var holders: [Holder]

  /// Creates a claim's outcome.
  public init(outcome: ClaimOutcome, holders: [Holder]) {
    self.outcome = outcome
    self.holders = holders
  }
}

/// Decides which devices share a purchase: each device that proves it, up to a limit.
///
/// A signed transaction comes only from a device of the purchase's Apple Account. So beyond the limit a new device
/// replaces the device with the oldest proof, and a reinstall is never refused. If that device is the owner, the new
/// device becomes the owner. A device that only names the transaction's id proves nothing: it replaces only such devices.
///
/// The transaction also fits any device id that a client invents. So only a limited number of devices with a proof are
/// replaced within 24 hours; the next claim is postponed. After the first few of them the device that joined last gives way, so
/// that invented devices replace each other. A device without a proof always gives way to one with a proof. The device to which
/// support gave the purchase gives way to none, unless it is the only one that may have it.
///
/// - Parameters:
///   - claimant: the device that proves the purchase; nil for a notification of the App Store, which changes nothing.
///   - owner: the owner.
///   - holders: the devices that have it, without the owner if it got the purchase before sharing was allowed.
///   - limit: the number of devices. A reduced limit removes no device.
///   - mayJoin: whether the claimant may join a purchase of another device.
///   - isProven: whether the claimant shows possession. A bare transaction id does not.
///   - moves: the recent moves of the purchase.
///   - mostMoves: how many of them there may be within 24 hours.
///   - instant: the current time.
public func share(
  claimant: Customer?, owner: Ownership?, holders: [Holder], limit: Int, mayJoin: Bool,
  isProven: Bool = true, moves: MoveCount? = nil, mostMoves: Int = .max, at instant: Date
) -> SharedClaim {
  guard let claimant, case .device(let device) = claimant else {
    return SharedClaim(outcome: .settled(owner), holders: holders)
  }
  guard let owner, case .device(let first) = owner.customer else {
    return SharedClaim(
      outcome: .settled(Ownership(firstClaimant: claimant, isProven: isProven)),
      holders: [Holder(device, at: instant, isProven: isProven)])
  }
  var holders = holders
  if !holders.contains(where: { $0.deviceID == first }) {
    // The time of its proof is unknown, so it counts as the oldest.
    holders.append(
      Holder(first, at: Date(timeIntervalSince1970: 0), isProven: owner.reason != .unprovenClaim))
  }
  // Support took it before sharing was allowed: keep that when the owner changes.
  if case .support(takenFrom: .device(let former)) = owner.reason,
    !holders.contains(where: { $0.deviceID == former })
  {
    holders.append(Holder(former, at: instant, isBarred: true))
  }
  if let place = holders.firstIndex(where: { $0.deviceID == device }) {
    if holders[place].isBarred { return SharedClaim(outcome: .refused(owner: owner), holders: holders) }
    holders[place].provedAt = max(holders[place].provedAt, instant)
    let isFirstProof = isProven && owner.reason == .unprovenClaim && device == first
    if isProven { holders[place].isProven = true }
    return SharedClaim(
      outcome: .settled(isFirstProof ? Ownership(firstClaimant: claimant, isProven: true) : owner),
      holders: holders)
  }
  guard mayJoin else { return SharedClaim(outcome: .refused(owner: owner), holders: holders) }
  let having = holders.filter { !$0.isBarred }
  guard having.count >= limit else {
    return SharedClaim(
      outcome: .shared(owner, with: claimant, insteadOf: nil),
      holders: holders + [Holder(device, at: instant, isProven: isProven)])
  }
  let keepsOwner = if case .support = owner.reason { limit > 1 } else { false }
  let displaceable = having.filter { (isProven || !$0.isProven) && !(keepsOwner && $0.deviceID == first) }
  guard
    let last = displaceable.min(by: moves.areMany(at: instant) ? joinedLater : provedEarlier)
  else {
    return SharedClaim(outcome: .refused(owner: owner), holders: holders)
  }
  guard moves.allowsMove(limit: mostMoves, at: instant) || isProven && !last.isProven else {
    return SharedClaim(outcome: .postponed(owner: owner), holders: holders)
  }
  holders.removeAll { $0.deviceID == last.deviceID }
  holders.append(Holder(device, at: instant, isProven: isProven))
  let loser = Customer.device(last.deviceID)
  return SharedClaim(
    outcome: loser == owner.customer
      ? .moved(Ownership(joining: claimant, isProven: isProven), from: loser)
      : .shared(owner, with: claimant, insteadOf: loser),
    holders: holders)
}

/// Devices without a proof first, then the ones with the oldest proof.
private func provedEarlier(_ a: Holder, _ b: Holder) -> Bool {
  if a.isProven != b.isProven { return b.isProven }
  return (a.provedAt, a.since, a.deviceID) < (b.provedAt, b.since, b.deviceID)
}

/// Devices without a proof first, then the ones that joined last.
private func joinedLater(_ a: Holder, _ b: Holder) -> Bool {
  if a.isProven != b.isProven { return b.isProven }
  return (a.since, a.deviceID) > (b.since, b.deviceID)
}

extension [Holder] {
  /// The holders after support gave the purchase to one device: all others are barred.
  ///
  /// - Parameter previous: the former owner, if it is not among the holders.
  public func given(to device: String, from previous: Customer?, at instant: Date) -> [Holder] {
    var names = Set(map(\.deviceID))
    if case .device(let name) = previous { names.insert(name) }
    names.insert(device)
    return names.sorted().map { name in
      var holder = first { $0.deviceID == name } ?? Holder(name, at: instant)
      // A barred device gets the purchase anew.
      if name == device, holder.isBarred { holder = Holder(name, at: instant) }
      holder.isBarred = name != device
      return holder
    }
  }
}
