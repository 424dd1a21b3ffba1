import Foundation
import Subscriptions

extension Entitlements {
  /// Why access is granted or denied, in a sentence for support.
  /// - Parameters:
  ///   - notes: why some of the customer's records are not counted.
  ///   - past: the purchase or grant that a customer without records had before.
  ///   - plans: of the customer's purchases, by `originalTransactionID`.
  func explanation(
    notes: [String], past: PastAccess?, plans: [String: PurchasePlan], at instant: Date
  ) -> String {
    switch source {
    case .subscription(let subscription):
      let plan = plans[subscription.current.originalTransactionID]
      return subscription.explanation(
        isOpen: isAccessGranted, accessEnds: plan?.accessEndsAt, at: instant)
    case .grant(let grant):
      return "the grant \(grant.id.uuidString.lowercased()) is active"
    case .trial(let trial):
      let name = "the trial from \(trial.startedAt.rfc3339)"
      guard isAccessGranted else { return "\(name) has ended" }
      return status == .grace ? "\(name) has ended; the app's own grace applies" : "\(name) is active"
    case .freeAccess: return "free access is on: the app is open to everyone"
    case nil:
      guard let note = notes.first else {
        return past?.sentence ?? "the customer has no purchase, grant or trial"
      }
      return "a record of the customer is not counted: \(note)"
    }
  }
}

extension Subscription {
  /// - Parameter accessEnds: ``PurchasePlan/accessEndsAt``.
  fileprivate func explanation(isOpen: Bool, accessEnds: Date?, at instant: Date) -> String {
    let name = "the purchase \(current.originalTransactionID)"
    let phase = phase(at: instant)
    if let revoked = current.revocationDate, current.ownership == "FAMILY_SHARED" {
      return "\(name) is no longer shared by the family since \(revoked.rfc3339)"
    }
    if let revoked = current.revocationDate { return "\(name) was refunded or revoked at \(revoked.rfc3339)" }
    switch (phase.status, phase.storeStatus) {
    case (.grace, .billingGrace): return "\(name) could not be charged and is in Apple's billing grace"
    case (.grace, _): return "\(name) has ended; the app's own grace applies"
    case (_, .billingRetry):
      let until = chargeRetriesEnd(at: instant).map { " until \(Day(of: $0))" } ?? ""
      return "\(name) could not be charged; Apple retries\(until)"
    case (.active, _) where isOpen:
      return current.expiresDate == nil ? "\(name) does not expire" : "\(name) is active"
    default:
      let end = storeAccessEnds
      let access = accessEnds.flatMap { $0 == end ? nil : ", and access at \($0.rfc3339)" } ?? ""
      return "\(name) ended at \(end?.rfc3339 ?? "?")\(access)"
    }
  }
}

extension ReportedPurchase {
  /// - Parameter customer: the customer of the report; `nil` for a purchase without an owner.
  init(
    _ stored: StoredSubscription, in app: App?, of customer: Customer? = nil, with details: PurchaseDetails,
    hasStoreKey: Bool, at instant: Date
  ) {
    let subscription = stored.subscription
    let current = subscription.current
    let phase = subscription.phase(at: instant)
    let owner = stored.owner?.customer
    let counts = app.map { $0.counts(subscription, for: customer ?? owner, at: instant) } ?? false
    var takenFrom: Customer?
    if case .support(let previous) = stored.owner?.reason { takenFrom = previous }
    let id = current.originalTransactionID
    self.init(
      originalTransactionID: id, transactionID: current.transactionID,
      bundleID: current.bundleID, productID: subscription.productID(at: instant),
      tier: subscription.tier(at: instant), status: phase.status.rawValue,
      storeStatus: phase.storeStatus.rawValue,
      upcomingProductID: instant < current.purchaseDate ? subscription.productID : nil,
      purchaseDate: current.purchaseDate,
      expiryDate: current.expiresDate, gracePeriodExpiryDate: subscription.graceExpiresDate,
      chargeRetriesUntil: subscription.chargeRetriesEnd(at: instant),
      revokedAt: current.revocationDate, environment: current.environment.rawValue,
      ownership: current.ownership, appleAccount: current.shownAppleAccount,
      // Nothing is certain to follow a period that ended unpaid, also while Apple tries to charge.
      willRenew: subscription.willRenew(at: instant) && phase.storeStatus != .billingRetry,
      renewsAs: subscription.renewsAs, plan: details.plans[id] ?? PurchasePlan(), hasStoreKey: hasStoreKey,
      ownedBecause: stored.owner?.reason.word, takenFrom: takenFrom?.id,
      erasedAt: stored.erasure?.ownerErasedAt, devices: details.holders[id] ?? [],
      refundRequests: details.refundRequests[id] ?? [],
      opensSomething: counts && phase.status.grantsAccess,
      note: counts ? nil : Self.note(subscription, in: app))
  }

  /// Why a purchase is not counted.
  private static func note(_ subscription: Subscription, in app: App?) -> String {
    guard app != nil else { return "no app '\(subscription.current.bundleID)' is configured" }
    if subscription.tier == nil, subscription.preceding?.tier == nil {
      return "the catalog has no product '\(subscription.productID)'"
    }
    return "it is a sandbox purchase, and the customer is not in sandboxGrants"
  }
}

extension ReportedGrant {
  init(_ stored: StoredGrant, in app: App, at instant: Date) {
    let isOpen = stored.revokedAt == nil && stored.grant.isOpen(at: instant)
    let counts = app.counts(stored.grant, for: stored.customer, at: instant)
    let note =
      app.tiers[stored.grant.tier] == nil
      ? "the configuration has no tier '\(stored.grant.tier)'"
      : "it is of the sandbox, and the customer is not in sandboxGrants"
    self.init(
      grant: stored.grant.id.uuidString.lowercased(), tier: stored.grant.tier,
      startsAt: stored.grant.startsAt, endsAt: stored.grant.endsAt, grantedBy: stored.grantedBy,
      reason: stored.reason, revokedAt: stored.revokedAt, revokedBy: stored.revokedBy,
      isOpen: isOpen && counts, note: isOpen && !counts ? note : nil)
  }
}

extension ReportedTrial {
  init(
    _ trial: Trial, of customer: Customer, in app: App, honoring freeAccess: FreeAccess, at instant: Date
  ) {
    let end = trial.end(honoring: freeAccess)
    let counts = app.counts(trial.environment, for: customer, at: instant)
    self.init(
      startedAt: trial.startedAt, endsAt: end, isRunning: counts && end.map { instant < $0 } ?? true,
      note: counts ? nil : "it is of the sandbox, and the customer is not in sandboxGrants")
  }
}
