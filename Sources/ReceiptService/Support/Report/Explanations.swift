import FoundationEssentials
import Subscriptions

extension Entitlements {
  /// Why the answer is what it is, in a sentence for a support person.
  /// - Parameter notes: why something that the customer has opens nothing.
  func explanation(notes: [String], at instant: Date) -> String {
    switch source {
    case .subscription(let subscription):
      return subscription.explanation(isOpen: isAccessGranted, at: instant)
    case .grant(let grant):
      return "it was given: grant \(grant.id.uuidString.lowercased())"
    case .trial(let trial):
      let name = "the trial that began \(trial.startedAt.inWords)"
      guard isAccessGranted else { return "\(name) is over" }
      return status == .grace ? "\(name) is over, but within the app's own grace" : "\(name) runs"
    case .freeTime: return "the app asks nobody for a subscription now (free-access is on)"
    case nil:
      guard let note = notes.first else { return "nothing was bought, given or tried" }
      return "nothing that the customer has counts: \(note)"
    }
  }
}

extension Subscription {
  fileprivate func explanation(isOpen: Bool, at instant: Date) -> String {
    let name = "the purchase \(current.originalTransactionID)"
    let phase = phase(at: instant)
    if let revoked = current.revocationDate { return "\(name) was refunded or revoked at \(revoked.inWords)" }
    switch (phase.status, phase.storeStatus) {
    case (.grace, .billingGrace): return "\(name) could not be charged and is in Apple's billing grace"
    case (.grace, _): return "\(name) is over, but within the app's own grace"
    case (_, .billingRetry): return "\(name) could not be charged; Apple goes on trying"
    case (.active, _) where isOpen: return current.expiresDate == nil ? "\(name) is for good" : "\(name) runs"
    default: return "\(name) ended at \(storeAccessEnds?.inWords ?? "?")"
    }
  }
}

extension PurchaseStory {
  /// - Parameter customer: whose story it is part of; `nil` for nobody's.
  init(_ stored: StoredSubscription, in app: App?, of customer: Customer? = nil, at instant: Date) {
    let subscription = stored.subscription
    let current = subscription.current
    let phase = subscription.phase(at: instant)
    let owner = stored.owner?.customer
    let counts = app.map { $0.counts(subscription, for: customer ?? owner, at: instant) } ?? false
    var takenFrom: Customer?
    if case .support(let previous) = stored.owner?.reason { takenFrom = previous }
    self.init(
      originalTransactionID: current.originalTransactionID, transactionID: current.transactionID,
      bundleID: current.bundleID, productID: subscription.productID(at: instant),
      tier: subscription.tier(at: instant), status: phase.status.rawValue,
      storeStatus: phase.storeStatus.rawValue, purchaseDate: current.purchaseDate,
      expiryDate: current.expiresDate, gracePeriodExpiryDate: subscription.graceExpiresDate,
      revokedAt: current.revocationDate, environment: current.environment.rawValue,
      ownership: current.ownership, willRenew: subscription.willRenew(at: instant),
      renewsAs: subscription.renewsAs, ownedBecause: stored.owner?.reason.word, takenFrom: takenFrom?.id,
      sharedBy: customer.flatMap { $0 == owner ? nil : owner?.id },
      opensSomething: counts && phase.status.grantsAccess,
      note: counts ? nil : Self.note(subscription, in: app))
  }

  /// Why a purchase opens nothing, whatever its status.
  private static func note(_ subscription: Subscription, in app: App?) -> String {
    guard app != nil else { return "no app '\(subscription.current.bundleID)' is configured" }
    if subscription.tier == nil, subscription.preceding?.tier == nil {
      return "the catalog has no product '\(subscription.productID)'"
    }
    return "it is a sandbox purchase, and not of a tester (sandboxGrants)"
  }
}

extension GrantStory {
  init(_ stored: StoredGrant, in app: App, at instant: Date) {
    let isOpen = stored.revokedAt == nil && stored.grant.isOpen(at: instant)
    let counts = app.counts(stored.grant, for: stored.customer)
    let note =
      app.tiers[stored.grant.tier] == nil
      ? "the configuration has no tier '\(stored.grant.tier)'"
      : "it is of the sandbox, and not a tester's (sandboxGrants)"
    self.init(
      grant: stored.grant.id.uuidString.lowercased(), tier: stored.grant.tier,
      startsAt: stored.grant.startsAt, endsAt: stored.grant.endsAt, grantedBy: stored.grantedBy,
      reason: stored.reason, revokedAt: stored.revokedAt, revokedBy: stored.revokedBy,
      isOpen: isOpen && counts, note: isOpen && !counts ? note : nil)
  }
}

extension TrialStory {
  init(
    _ trial: Trial, of customer: Customer, in app: App, honoring freeTime: FreeTime, at instant: Date
  ) {
    let end = trial.end(honoring: freeTime)
    let counts = app.counts(trial.environment, for: customer)
    self.init(
      startedAt: trial.startedAt, endsAt: end, isRunning: counts && end.map { instant < $0 } ?? true,
      note: counts ? nil : "it is of the sandbox, and not a tester's (sandboxGrants)")
  }
}
