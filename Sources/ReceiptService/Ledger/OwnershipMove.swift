import Subscriptions

/// A change of a purchase's owner, or a further device that shares it.
struct OwnershipMove: Sendable {
  var subscription: Subscription
  /// The customer who had it; `nil` for none. Of a shared purchase: the owner, who keeps it.
  var previous: Customer?
  /// The customer that has the purchase now.
  var customer: Customer
  var cause: Cause

  enum Cause: Sendable {
    /// Support transferred it.
    case support(SupportAuthor)
    /// The App Store signed another `appAccountToken`.
    case token
    /// Another customer proved it; or another device, beyond the limit of devices.
    case policy
    /// Another device proved it, within the limit of devices.
    case room
  }

  /// The moves that an entry made: one for each customer who lost the purchase, or one for its first owner.
  static func moves(
    to now: StoredSubscription, from before: StoredSubscription?, by entry: LedgerEntry, _ claim: ClaimOutcome
  ) -> [OwnershipMove] {
    func move(_ previous: Customer?, _ customer: Customer, _ cause: Cause) -> OwnershipMove {
      OwnershipMove(subscription: now.subscription, previous: previous, customer: customer, cause: cause)
    }
    if let transfer = entry.transfer {
      guard let owner = now.owner else { return [] }
      let losers = (before?.customers ?? []).subtracting(now.customers).subtracting(
        [before?.owner?.customer].compactMap(\.self))
      let cause = Cause.support(transfer.author)
      // Repeating a transfer changes no owner, but takes the purchase from devices that joined since.
      return (owner == before?.owner ? [] : [move(before?.owner?.customer, owner.customer, cause)])
        + losers.sorted { $0.id < $1.id }.map { move($0, owner.customer, cause) }
    }
    switch claim {
    case .settled, .refused, .postponed: return []
    case .moved(let owner, let previous):
      let isToken = if case .appAccountToken = owner.reason { true } else { false }
      return [move(previous, owner.customer, isToken ? .token : .policy)]
    case .shared(let owner, let customer, let loser):
      return [move(loser ?? owner.customer, customer, loser == nil ? .room : .policy)]
    }
  }
}
