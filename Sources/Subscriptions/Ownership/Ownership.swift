import Foundation

/// The owner of a subscription, with the reason.
public struct Ownership: Sendable, Hashable {
  /// The owner.
  public var customer: Customer
  /// The reason.
  public var reason: Reason

  /// Creates an ownership.
  public init(customer: Customer, reason: Reason) {
    self.customer = customer
    self.reason = reason
  }

  /// The ownership of the first customer who claims the purchase.
  init(firstClaimant: Customer, isProven: Bool) {
    self.init(customer: firstClaimant, reason: isProven ? .firstClaim : .unprovenClaim)
  }

  /// The ownership of a customer who replaces another by the app's policy.
  init(joining claimant: Customer, isProven: Bool) {
    self.init(customer: claimant, reason: isProven ? .transfer : .unprovenClaim)
  }

  /// The reasons of an ownership, which the row shows to support.
  public enum Reason: Sendable, Hashable {
    /// The signed `appAccountToken` names the customer.
    case appAccountToken(UUID)
    /// The customer was the first to prove the purchase.
    case firstClaim
    /// The customer named the transaction's id, which proves no possession. The first proof takes the purchase.
    case unprovenClaim
    /// The app's policy moved the purchase from another customer.
    case transfer
    /// Support moved the purchase, from this customer if it had an owner. A proof of that customer does not move it back.
    case support(takenFrom: Customer?)
  }
}

/// The outcome of a customer's proof of a purchase.
public enum ClaimOutcome: Sendable, Hashable {
  /// The purchase has this owner, as before or from now on; nil for no owner yet.
  case settled(Ownership?)
  /// The purchase moved to a new owner.
  case moved(Ownership, from: Customer)
  /// The purchase keeps its owner, and another device shares it from now on, beyond the limit instead of an earlier device.
  case shared(Ownership, with: Customer, insteadOf: Customer?)
  /// The purchase keeps its owner; the claim is refused.
  case refused(owner: Ownership)
  /// The purchase keeps its owner and its devices, because it moved as often as it may within 24 hours. A later proof may
  /// move it.
  case postponed(owner: Ownership)

  /// Whether a claimant took the place of another customer by the app's rules. ``MoveCount`` counts these.
  public var isDisplacement: Bool {
    switch self {
    case .moved(let owner, _): owner.reason == .transfer || owner.reason == .unprovenClaim
    case .shared(_, _, let loser): loser != nil
    case .settled, .refused, .postponed: false
    }
  }
}

/// Decides the owner of a purchase.
///
/// A signed `appAccountToken` decides, otherwise the first customer who proves the purchase. The app's policy decides about
/// the proof of another customer. A purchase that support took from a customer does not move back by that customer's proof:
/// only support or a newly signed token moves it back.
///
/// - Parameters:
///   - claimant: the customer who proves the purchase; nil for a notification of the App Store.
///   - owner: the current owner.
///   - token: ``SubscriptionFacts/customerToken``. It can change by a crossgrade or a call of the app. Only a change moves a
///     purchase with an owner; the same token in a late or repeated fact does not.
///   - decidedToken: the token of the last decision.
///   - kind: the kind of the app's customers. A token identifies a user, so it does not count for devices.
///   - policy: the rule for a proof of another customer.
///   - isActive: whether the purchase gives access now.
///   - isProven: whether the claimant shows possession. A bare transaction id does not.
///   - mayDisplace: whether the policy may move the purchase once more now; see ``MoveCount``.
public func settle(
  claimant: Customer?, owner: Ownership?, token: UUID?, decidedToken: UUID?, kind: CustomerKind,
  policy: TransferPolicy, isActive: Bool, isProven: Bool = true, mayDisplace: Bool = true
) -> ClaimOutcome {
  var owner = owner
  var previous: Customer?
  if kind == .user, let token, token != decidedToken {
    let named = Ownership(customer: .user(token), reason: .appAccountToken(token))
    if let before = owner?.customer, before != named.customer { previous = before }
    owner = named
  }
  guard let claimant else { return outcome(owner, movedFrom: previous) }
  guard let settled = owner else {
    return .settled(Ownership(firstClaimant: claimant, isProven: isProven))
  }
  if settled.reason == .unprovenClaim, isProven {
    let proven = Ownership(customer: claimant, reason: .firstClaim)
    return settled.customer == claimant ? .settled(proven) : .moved(proven, from: settled.customer)
  }
  if settled.customer == claimant { return outcome(settled, movedFrom: previous) }
  // The former owner's app proves the purchase at every start, which must not undo the decision of support.
  if settled.reason == .support(takenFrom: claimant) { return .refused(owner: settled) }
  // Other people may know a transaction's id. So a claimant with the id alone replaces only an owner who had the id alone.
  guard isProven || settled.reason == .unprovenClaim, policy.moves(whileActive: isActive) else {
    return .refused(owner: settled)
  }
  guard mayDisplace else { return .postponed(owner: settled) }
  let joined = Ownership(joining: claimant, isProven: isProven)
  // The new token names another user, but the former owner sent the proof, and the policy lets the former owner keep the purchase.
  if previous == claimant { return .settled(joined) }
  return .moved(joined, from: previous ?? settled.customer)
}

extension TransferPolicy {
  /// Whether a proof of another customer moves a purchase.
  ///
  /// - Parameter isActive: whether the purchase gives access now.
  func moves(whileActive isActive: Bool) -> Bool {
    switch self {
    case .keep: false
    case .transfer: true
    case .transferWhenInactive: !isActive
    }
  }
}

private func outcome(_ owner: Ownership?, movedFrom previous: Customer?) -> ClaimOutcome {
  if let owner, let previous { return .moved(owner, from: previous) }
  return .settled(owner)
}

/// The owner of a purchase: a user or a device of one app.
public enum Customer: Sendable, Hashable {
  /// A user, by the `sub` of a token or Apple's `appAccountToken`.
  case user(UUID)
  /// A device, by the id that it generated.
  case device(String)

  /// The id without the kind; a UUID in lower case, as in PostgreSQL.
  public var id: String {
    switch self {
    case .user(let id): id.uuidString.lowercased()
    case .device(let id): id
    }
  }

  /// The user's id; `nil` for a device.
  package var userID: UUID? {
    if case .user(let id) = self { id } else { nil }
  }

  /// The device's id; `nil` for a user.
  package var deviceID: String? {
    if case .device(let id) = self { id } else { nil }
  }

  /// Whether this is a user or a device.
  package var kind: CustomerKind {
    switch self {
    case .user: .user
    case .device: .device
    }
  }

  /// `user` or `device`, for columns and responses.
  package var kindWord: String { kind.rawValue }

  /// The name of the customer's advisory lock.
  package var lockName: String {
    switch self {
    case .user(let id): id.uuidString
    case .device(let id): id
    }
  }
}

/// How many times a purchase or a trial moved to another customer by the app's rules, within 24 hours.
///
/// A proof fits any device id that a client invents, and each move leaves rows that are never deleted. The count is stored
/// with the purchase or the trial and read under its lock, so that it holds for all servers and over restarts.
public struct MoveCount: Sendable, Hashable {
  /// The first of these moves. 24 hours later a new count begins.
  public let since: Date
  /// The number of moves, at least 1.
  public let moves: Int

  /// Creates a count from a stored one.
  public init(since: Date, moves: Int) {
    self.since = since
    self.moves = moves
  }

  static let length: TimeInterval = 86_400

  fileprivate func isOver(at instant: Date) -> Bool { instant >= since + Self.length }
}

extension MoveCount? {
  /// Whether one more move stays within the limit.
  public func allowsMove(limit: Int, at instant: Date) -> Bool {
    guard let self, !self.isOver(at: instant) else { return true }
    return self.moves < limit
  }

  /// Whether there were more moves within 24 hours than a family's reinstalls explain. From then on the customer that came last
  /// gives way, so invented devices replace each other.
  public func areMany(at instant: Date) -> Bool {
    guard let self, !self.isOver(at: instant) else { return false }
    return self.moves >= 3
  }

  /// The count after one more move.
  public func counting(moveAt instant: Date) -> MoveCount {
    guard let self, !self.isOver(at: instant) else { return MoveCount(since: instant, moves: 1) }
    return MoveCount(since: self.since, moves: self.moves + 1)
  }

  /// The time until a new count begins.
  public func wait(at instant: Date) -> TimeInterval {
    guard let self else { return 0 }
    return max(0, (self.since + MoveCount.length).timeIntervalSince(instant))
  }
}
