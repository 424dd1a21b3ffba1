import FoundationEssentials

/// Whom a subscription belongs to, and why.
public struct Ownership: Sendable, Hashable {
  /// The owner.
  public var customer: Customer
  /// What decided it.
  public var reason: Reason

  /// Creates an ownership.
  public init(customer: Customer, reason: Reason) {
    self.customer = customer
    self.reason = reason
  }

  /// What decided an ownership; kept in the row for support.
  public enum Reason: Sendable, Hashable {
    /// The signed `appAccountToken` names the customer.
    case appAccountToken(UUID)
    /// The first who proved the purchase.
    case firstClaim
    /// The app's policy moved it, away from whoever had it before.
    case transfer
    /// A support person moved it, away from this customer if it had one: whose proof does not move it back.
    case support(takenFrom: Customer?)
  }
}

/// What comes of somebody's proof of a purchase.
public enum ClaimOutcome: Sendable, Hashable {
  /// It belongs to this customer, as before or from now on. `nil`: to nobody yet.
  case settled(Ownership?)
  /// It changes hands.
  case moved(Ownership, from: Customer)
  /// It stays with its owner, and another device has it too from now on; where there was no room, instead of one
  /// that had it.
  case shared(Ownership, with: Customer, insteadOf: Customer?)
  /// It stays with its owner; the one who asked is refused.
  case refused(owner: Ownership)
}

/// The rule: a signed `appAccountToken` decides, else the first who proves it; what happens when
/// another asks is the app's policy. What support moved away from somebody does not go back by that
/// customer's proof, whatever the policy: only support, or a newly signed token, moves it back.
///
/// - Parameters:
///   - claimant: who proves the purchase now; `nil` for the App Store itself.
///   - owner: whose it is so far.
///   - token: the `appAccountToken` that the facts carry (``SubscriptionFacts/customerToken``): no order in which
///     signatures arrive changes it, and no signature without a token takes it away. It can change (a crossgrade,
///     or the app setting it afterwards), and only such a change moves a purchase that has an owner: the same token
///     again, from a late or repeated fact, moves nothing back.
///   - decidedToken: the token that decided the last time.
///   - kind: what a customer of the app is. A token names a user; where customers are devices it decides nothing.
///   - policy: what happens when another asks.
///   - isActive: whether the purchase opens anything now.
public func settle(
  claimant: Customer?, owner: Ownership?, token: UUID?, decidedToken: UUID?, kind: CustomerKind,
  policy: TransferPolicy, isActive: Bool
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
    return .settled(Ownership(customer: claimant, reason: .firstClaim))
  }
  if settled.customer == claimant { return outcome(settled, movedFrom: previous) }
  // The former owner's app goes on proving it at every start; that must not undo what a person decided.
  if settled.reason == .support(takenFrom: claimant) { return .refused(owner: settled) }
  guard policy.moves(whileActive: isActive) else { return .refused(owner: settled) }
  return .moved(Ownership(customer: claimant, reason: .transfer), from: previous ?? settled.customer)
}

extension TransferPolicy {
  /// Whether a purchase goes to another who proves it.
  /// - Parameter isActive: whether it opens anything now.
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
