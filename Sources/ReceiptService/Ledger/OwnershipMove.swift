import Subscriptions

/// A purchase that changed hands, or that another device has too from now on.
struct OwnershipMove: Sendable {
  var subscription: Subscription
  /// Whose it was; `nil` for nobody's. Of a purchase that is shared: the owner, who has it still.
  var previous: Customer?
  /// Whose it is.
  var customer: Customer
  var cause: Cause

  enum Cause: Sendable {
    /// A person moved it.
    case support(SupportAuthor)
    /// The App Store signed another `appAccountToken`.
    case token
    /// Another customer proved it.
    case policy
    /// Another device proved it, and there was room for one more.
    case room
  }

  /// What an entry changed, one for each customer who lost it and one for who got it from nobody.
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
      // Done again, it is nobody's gain, but whoever came to share it meanwhile loses it.
      return (owner == before?.owner ? [] : [move(before?.owner?.customer, owner.customer, cause)])
        + losers.sorted { $0.id < $1.id }.map { move($0, owner.customer, cause) }
    }
    switch claim {
    case .settled, .refused: return []
    case .moved(let owner, let previous):
      let isToken = if case .appAccountToken = owner.reason { true } else { false }
      return [move(previous, owner.customer, isToken ? .token : .policy)]
    case .shared(let owner, let customer, let loser):
      return [move(loser ?? owner.customer, customer, loser == nil ? .room : .policy)]
    }
  }
}
