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
  /// The devices that lost its place by the app's rules and may have it back, at most two. The first one lost it first.
  public var displaced: [Displaced] = []

  /// Creates a holder that proved the purchase at this instant.
  public init(_ deviceID: String, at instant: Date, isBarred: Bool = false, isProven: Bool = true) {
    self.deviceID = deviceID
    since = instant
    provedAt = instant
    self.isBarred = isBarred
    self.isProven = isProven
  }

  /// Creates a holder from a stored one.
  public init(
    _ deviceID: String, since: Date, provedAt: Date, isBarred: Bool, isProven: Bool,
    displaced: [Displaced] = []
  ) {
    self.deviceID = deviceID
    self.since = since
    self.provedAt = provedAt
    self.isBarred = isBarred
    self.isProven = isProven
    self.displaced = displaced
  }
}

/// A device that lost its place to another one by the app's rules.
///
/// It stands at the device that has the place. Where another device takes the place, it stands there from then on. Each
/// place has the first two such devices: after a reinstall the first one is the old installation, and the second one
/// the new one.
public struct Displaced: Sendable, Hashable {
  /// The id that the device generated.
  public var deviceID: String
  /// When it lost its place.
  public var at: Date

  /// For how long it may have the place back.
  static let lifetime: TimeInterval = 30 * 86_400

  /// How many devices of one place may have it back.
  static let mostOfPlace = 2

  /// Creates a device that lost its place at this instant.
  public init(_ deviceID: String, at instant: Date) {
    self.deviceID = deviceID
    at = instant
  }
}

/// The outcome of a device's proof of a shared purchase, with the devices that have it then.
public struct SharedClaim: Sendable, Hashable {
  /// The outcome.
  public var outcome: ClaimOutcome
  /// The owner, the other devices and the barred ones, in no order.
  public var holders: [Holder]
  /// Whether the claimant has the place back that another device took from it.
  public var isReturn: Bool

  /// Creates a claim's outcome.
  public init(outcome: ClaimOutcome, holders: [Holder], isReturn: Bool = false) {
    self.outcome = outcome
    self.holders = holders
    self.isReturn = isReturn
  }

  /// Whether ``MoveCount`` counts it. A return follows a move that was counted, so there are no more returns than such
  /// moves.
  public var isCounted: Bool { outcome.isDisplacement && !isReturn }
}

/// Decides which devices share a purchase: each device that proves it, up to a limit.
///
/// A signed transaction comes only from a device of the purchase's Apple Account. So beyond the limit a new device
/// replaces the device with the oldest proof, and a reinstall is never refused. If that device is the owner, the new
/// device becomes the owner. A device that only names the transaction's id proves nothing: it replaces only such
/// devices.
///
/// The transaction also fits any device id that a client invents. So only a limited number of devices with a proof are
/// replaced within 24 hours; the next claim is postponed. After the first few of them the device that joined last gives
/// way, so that invented devices replace each other. From then on a device that lost its place has it back by its next
/// proof: the device that has the place gives way, and the move is not counted. A place goes back to the first two
/// devices that lost it, within ``Displaced/lifetime``. Invented device ids therefore cannot displace the account's
/// real devices for good.
///
/// A device without a proof always gives way to one with a proof. The device to which support gave the purchase gives
/// way to none, unless it is the only one that may have it.
public struct DeviceSharing: Sendable {
  /// The number of devices that may have the purchase. A reduced limit removes no device.
  public var limit: Int
  /// Whether the claimant may join a purchase of another device.
  public var mayJoin: Bool
  /// Whether the claimant shows possession. A bare transaction id does not.
  public var isProven: Bool
  /// Whether an owner who only named the transaction's id keeps a place beside a device with a proof: old builds are in
  /// use. Otherwise the first proof takes the purchase.
  public var keepsNamed: Bool
  /// The recent moves of the purchase.
  public var moves: MoveCount?
  /// How many of them there may be within 24 hours.
  public var mostMoves: Int
  /// The current time.
  public var instant: Date

  /// Creates the circumstances of a claim; without a count of moves there may be any number.
  public init(
    limit: Int, mayJoin: Bool, isProven: Bool = true, keepsNamed: Bool = true, moves: MoveCount? = nil,
    mostMoves: Int = .max, at instant: Date
  ) {
    self.limit = limit
    self.mayJoin = mayJoin
    self.isProven = isProven
    self.keepsNamed = keepsNamed
    self.moves = moves
    self.mostMoves = mostMoves
    self.instant = instant
  }

  /// The outcome of a claim.
  ///
  /// - Parameters:
  ///   - claimant: the device that proves the purchase; nil for a notification of the App Store, which changes nothing.
  ///   - holders: the devices that have it, without the owner if it got the purchase before sharing was allowed.
  public func claim(by claimant: Customer?, owner: Ownership?, holders: [Holder]) -> SharedClaim {
    guard let claimant, case .device(let device) = claimant else {
      return SharedClaim(outcome: .settled(owner), holders: holders)
    }
    guard let owner, case .device(let first) = owner.customer else { return firstClaim(by: device, holders) }
    var holders = complete(holders, of: owner, first)
    let place = holders.firstIndex { $0.deviceID == device }
    if let place, holders[place].isBarred {
      return SharedClaim(outcome: .refused(owner: owner), holders: holders)
    }
    if isProven, !keepsNamed, owner.reason == .unprovenClaim, device != first {
      holders.removeAll { $0.deviceID == first || $0.deviceID == device }
      return SharedClaim(
        outcome: .moved(Ownership(firstClaimant: claimant, isProven: true), from: owner.customer),
        holders: holders + [Holder(device, at: instant)])
    }
    if let place {
      holders[place].provedAt = max(holders[place].provedAt, instant)
      let isFirstProof = isProven && owner.reason == .unprovenClaim && device == first
      if isProven { holders[place].isProven = true }
      return SharedClaim(
        outcome: .settled(isFirstProof ? Ownership(firstClaimant: claimant, isProven: true) : owner),
        holders: holders)
    }
    guard mayJoin else { return SharedClaim(outcome: .refused(owner: owner), holders: holders) }
    guard holders.count(where: { !$0.isBarred }) >= limit else {
      for index in holders.indices { holders[index].displaced.removeAll { $0.deviceID == device } }
      return SharedClaim(
        outcome: .shared(owner, with: claimant, insteadOf: nil),
        holders: holders + [Holder(device, at: instant, isProven: isProven)])
    }
    return displacement(by: device, owner, first, holders)
  }

  /// A device claims a purchase without an owner. After the erasure of an owner, other devices may have the purchase:
  /// they keep it, support's decisions stay, and only a device that proved the purchase becomes the owner.
  private func firstClaim(by device: String, _ former: [Holder]) -> SharedClaim {
    var own = Holder(device, at: instant, isProven: isProven)
    if let known = former.first(where: { $0.deviceID == device }) {
      guard !known.isBarred else { return SharedClaim(outcome: .refused(owner: nil), holders: former) }
      own.since = known.since
      own.provedAt = max(known.provedAt, instant)
      own.isProven = known.isProven || isProven
    }
    guard own.isProven || former.isEmpty else {
      return SharedClaim(outcome: .settled(nil), holders: former.map { $0.deviceID == device ? own : $0 })
    }
    return SharedClaim(
      outcome: .settled(Ownership(firstClaimant: .device(device), isProven: own.isProven)),
      holders: former.filter { $0.deviceID != device } + [own])
  }

  /// The holders with the owner, and with the device from which support took the purchase; without those that may have
  /// no place back any more.
  private func complete(_ holders: [Holder], of owner: Ownership, _ first: String) -> [Holder] {
    var holders = holders
    for index in holders.indices {
      holders[index].displaced.removeAll { instant >= $0.at + Displaced.lifetime }
    }
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
    return holders
  }

  /// A device takes the place of another one, unless none may give way now.
  private func displacement(
    by device: String, _ owner: Ownership, _ first: String, _ former: [Holder]
  ) -> SharedClaim {
    guard let last = givingWay(to: device, owner, first, former) else {
      return SharedClaim(outcome: .refused(owner: owner), holders: former)
    }
    let isReturn = isProven && last.owes(device)
    guard isReturn || moves.allowsMove(limit: mostMoves, at: instant) || isProven && !last.isProven else {
      return SharedClaim(outcome: .postponed(owner: owner), holders: former)
    }
    var holders = former
    var joining = Holder(device, at: instant, isProven: isProven)
    if isReturn {
      // The devices that lost the place before this one may still have it back.
      joining.displaced = Array(last.displaced.prefix { $0.deviceID != device })
    } else {
      let lost = last.isProven ? last.displaced + [Displaced(last.deviceID, at: instant)] : []
      joining.displaced = Array(lost.prefix(Displaced.mostOfPlace))
      exchangePlaces(of: &joining, with: &holders)
    }
    holders.removeAll { $0.deviceID == last.deviceID }
    holders.append(joining)
    let loser = Customer.device(last.deviceID)
    return SharedClaim(
      outcome: loser == owner.customer
        ? .moved(Ownership(joining: .device(device), isProven: isProven), from: loser)
        : .shared(owner, with: .device(device), insteadOf: loser),
      holders: holders, isReturn: isReturn)
  }

  /// The device that gives way; `nil` if none does.
  private func givingWay(
    to device: String, _ owner: Ownership, _ first: String, _ holders: [Holder]
  ) -> Holder? {
    let keepsOwner = if case .support = owner.reason { limit > 1 } else { false }
    let displaceable = holders.filter {
      !$0.isBarred && (isProven || !$0.isProven) && !(keepsOwner && $0.deviceID == first)
    }
    let areMany = moves.areMany(at: instant)
    if isProven, let taker = displaceable.first(where: { $0.owes(device) }) {
      // The second device of a place has that one back at any time: with another one, it would leave two devices this
      // place.
      let isSecond = taker.displaced.first?.deviceID != device
      if areMany || isSecond || !moves.allowsMove(limit: mostMoves, at: instant) { return taker }
    }
    return displaceable.min(by: areMany ? Holder.joinedLater : Holder.provedEarlier)
  }

  /// A claimant that may have another place back, and takes this one, leaves the other one: its device gives way to the
  /// devices that lost this place, if the claimant was the first to lose it.
  private func exchangePlaces(of joining: inout Holder, with holders: inout [Holder]) {
    let device = joining.deviceID
    guard let other = holders.firstIndex(where: { $0.owes(device) }) else { return }
    if isProven, holders[other].displaced.first?.deviceID == device {
      holders[other].displaced = joining.displaced
      joining.displaced = []
    } else {
      holders[other].displaced.removeAll { $0.deviceID == device }
    }
  }
}

extension Holder {
  /// Whether another device may have its place back.
  fileprivate func owes(_ device: String) -> Bool { displaced.contains { $0.deviceID == device } }

  /// Devices without a proof first, then the ones with the oldest proof.
  fileprivate static func provedEarlier(_ a: Holder, _ b: Holder) -> Bool {
    if a.isProven != b.isProven { return b.isProven }
    return (a.provedAt, a.since, a.deviceID) < (b.provedAt, b.since, b.deviceID)
  }

  /// Devices without a proof first, then the ones in another device's place, and of these and of the others the ones
  /// that joined last.
  fileprivate static func joinedLater(_ a: Holder, _ b: Holder) -> Bool {
    if a.isProven != b.isProven { return b.isProven }
    if a.displaced.isEmpty != b.displaced.isEmpty { return b.displaced.isEmpty }
    return (a.since, a.deviceID) > (b.since, b.deviceID)
  }
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
      holder.displaced = []
      holder.isBarred = name != device
      return holder
    }
  }
}
