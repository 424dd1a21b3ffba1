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
    /// Support moved the purchase, from this customer if it had an owner. A proof of that customer does not move it
    /// back.
    case support(takenFrom: Customer?)
  }
}

/// The outcome of a customer's proof of a purchase.
public enum ClaimOutcome: Sendable, Hashable {
  /// The purchase has this owner, as before or from now on; nil for no owner yet.
  case settled(Ownership?)
  /// The purchase moved to a new owner.
  case moved(Ownership, from: Customer)
  /// The purchase keeps its owner, and another device shares it from now on, beyond the limit instead of an earlier
  /// device.
  case shared(Ownership, with: Customer, insteadOf: Customer?)
  /// The purchase keeps its owner, or has none; the claim is refused.
  case refused(owner: Ownership?)
  /// The purchase keeps its owner and its devices, because it moved as often as it may within 24 hours. A later proof
  /// may move it.
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

/// Decides the owner of a purchase that has one: of a user, or of a device where an app shares none. Devices that share
/// purchases are ``DeviceSharing``.
///
/// A signed `appAccountToken` decides, otherwise the first customer who proves the purchase. The app's policy decides
/// about the proof of another customer. A purchase that support took from a customer does not move back by that
/// customer's proof: only support or a newly signed token moves it back.
///
/// - Parameters:
///   - claimant: the customer who proves the purchase; nil for a notification of the App Store.
///   - owner: the current owner.
///   - token: ``SubscriptionFacts/customerToken``. It can change by a crossgrade or a call of the app. Only a change moves a
///     purchase with an owner; the same token in a late or repeated fact does not.
///   - decidedToken: the token of the last decision; nil where the token of a new period decides again.
///   - kind: the kind of the app's customers. A token identifies a user, so it does not count for devices.
///   - policy: the rule for a proof of another customer.
///   - isActive: whether the purchase gives access now.
///   - isProven: whether the claimant shows possession. A bare transaction id does not.
///   - mayDisplace: whether the policy may move the purchase once more now; see ``MoveCount``.
public func decideOwner(
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
  // Other people may know a transaction's id. So a claimant with the id alone replaces only an owner who had the id
  // alone.
  guard isProven || settled.reason == .unprovenClaim, policy.moves(whileActive: isActive) else {
    return .refused(owner: settled)
  }
  guard mayDisplace else { return .postponed(owner: settled) }
  let joined = Ownership(joining: claimant, isProven: isProven)
  // The new token names another user, but the former owner sent the proof, and the policy lets the former owner keep
  // the purchase.
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
