import Foundation

/// Folds signed facts into a subscription: the only code that decides a subscription's status.
///
/// `CurrentPurchase.swift` picks the purchase that counts, `phases` gives the status at each instant.
///
/// Validation, notifications, profile sync, reconciliation, replay and the expiry sweep call it. It uses no clock and
/// no database, and the order of arrival does not matter.
extension SubscriptionFacts {
  /// Apple's billing retry lasts at most this long after the paid time.
  static let billingRetryLimit: TimeInterval = 60 * 86_400

  /// Apple charges at most a day before a period begins; doubled for clock differences.
  public static let chargedAhead: TimeInterval = 2 * 86_400

  /// Dates that are closer than this have no reliable order, because clocks differ.
  package static let clockDifference: TimeInterval = 60

  /// The subscription under an app's catalog.
  ///
  /// - Parameter freeAccess: the app's periods of free access, which pause its own grace period.
  /// - Returns: nil without a transaction, because a renewal info alone has no period.
  public func subscription(under app: App?, freeAccess: FreeAccess = .never) -> Subscription? {
    guard let current else { return nil }
    let renewal = renewalOfCurrentPeriod(current)
    let product = app?.product(named: current.productID)
    let paidUntil = current.expiresDate ?? product?.accessEnds(purchasedAt: dateOfPurchase(current))
    let failure = failedCharge(renewal, at: paidUntil)
    let graceEnds = billingGraceEnd(current, failure, paidUntil)

    let isRevoked = current.revocationDate != nil
    let renews =
      current.kind == .autoRenewable && !isRevoked && (renewal?.willAutoRenew ?? true)

    var resolved = current
    resolved.expiresDate = paidUntil
    resolved.latestRevocation = current.revocationDate
    return Subscription(
      current: resolved,
      productID: product?.id ?? current.productID,
      tier: product?.tier,
      preceding: preceding(current, under: app),
      customerToken: customerToken,
      autoRenewEnabled: renews,
      renewsAs: renews
        ? app?.canonicalProductID(renewal?.renewsAs ?? current.productID)
          ?? renewal?.renewsAs ?? current.productID : nil,
      graceExpiresDate: graceEnds,
      phases: phases(
        revoked: isRevoked, paidUntil: paidUntil, graceEnds: graceEnds,
        isInBillingRetry: failure?.isInBillingRetry ?? false,
        ownGraceEnds: paidUntil.map {
          freeAccess.end(of: app?.grace?.duration ?? 0, from: $0) ?? .distantFuture
        }),
      signedAt: latestSignature(of: current))
  }

  /// The time from which the days of a non-renewing subscription count. A copy may have the date of its restore.
  /// What is bought after a refund is a new purchase.
  private func dateOfPurchase(_ current: TransactionFact) -> Date {
    guard current.kind == .nonRenewing else { return current.purchaseDate }
    let refunded = transactions.values.lazy.compactMap(\.revocationDate).filter { $0 <= current.purchaseDate }
      .max()
    let first = transactions.values.lazy.map(\.purchaseDate).filter { $0 >= refunded ?? .distantPast }.min()
    let original = refunded == nil ? current.originalPurchaseDate : nil
    return [original, first].compactMap(\.self).min() ?? current.purchaseDate
  }

  /// The renewal info, if it belongs to the current period.
  ///
  /// A renewal info from before a recovery still has 'billing retry', which must not affect the next period. It belongs
  /// to the current period if it was signed in it. It also does if it was signed shortly before and has the period's
  /// end: a renewal is charged up to a day ahead.
  private func renewalOfCurrentPeriod(_ current: TransactionFact) -> RenewalFact? {
    guard let renewal else { return nil }
    if renewal.signedAt >= current.purchaseDate { return renewal }
    let isSignedAhead = renewal.signedAt >= current.purchaseDate - Self.chargedAhead
    if let renewalDate = renewal.renewalDate, renewalDate == current.expiresDate, isSignedAhead {
      return renewal
    }
    return nil
  }

  /// The renewal info, if it may report a failed charge at `paidUntil`.
  ///
  /// A period that is recovered in billing grace begins before the failure was signed. If only the transaction of the
  /// recovery has arrived, the renewal info has an earlier end and is ignored.
  private func failedCharge(_ renewal: RenewalFact?, at paidUntil: Date?) -> RenewalFact? {
    if let end = renewal?.renewalDate, let paidUntil, end < paidUntil { return nil }
    return renewal
  }

  /// The paid product until the current period begins, if it is another one.
  private func preceding(_ current: TransactionFact, under app: App?) -> Preceding? {
    guard current.kind == .autoRenewable, let before = paidUntilStart(of: current) else { return nil }
    let product = app?.product(named: before.productID)
    let productID = product?.id ?? before.productID
    guard productID != app?.canonicalProductID(current.productID) ?? current.productID else { return nil }
    return Preceding(productID: productID, tier: product?.tier)
  }

  private func billingGraceEnd(
    _ current: TransactionFact, _ renewal: RenewalFact?, _ paidUntil: Date?
  ) -> Date? {
    guard current.revocationDate == nil, let paidUntil, let end = renewal?.graceExpiresDate,
      end > paidUntil
    else { return nil }
    return end
  }

  private func latestSignature(of current: TransactionFact) -> Date {
    max(current.signedAt, renewal?.signedAt ?? current.signedAt)
  }
}

/// The phases of a subscription in order of time: paid time, Apple's billing grace, the app's own grace, the end.
///
/// - Parameters:
///   - revoked: whether the current purchase was refunded or revoked.
///   - paidUntil: the end of the paid time; nil for a purchase for life.
///   - graceEnds: the end of Apple's billing grace; nil without one.
///   - isInBillingRetry: whether Apple tries to charge again.
///   - ownGraceEnds: the end of the app's own grace; `.distantFuture` during free access, whose end recomputes it.
func phases(
  revoked: Bool, paidUntil: Date?, graceEnds: Date?, isInBillingRetry: Bool, ownGraceEnds: Date?
) -> [Phase] {
  if revoked { return [Phase(startsAt: nil, status: .cancelled, storeStatus: .revoked)] }
  var phases = [Phase(startsAt: nil, status: .active, storeStatus: .active)]
  guard let paidUntil else { return phases }

  if graceEnds != nil {
    phases.append(Phase(startsAt: paidUntil, status: .grace, storeStatus: .billingGrace))
  }
  // Two periods start at the end of the paid time: the app's own grace decides `status`, and Apple's billing retry
  // decides `storeStatus`.
  let accessEnds = graceEnds ?? paidUntil
  let ownGraceEnds = ownGraceEnds ?? paidUntil
  let retryEnds = paidUntil.addingTimeInterval(SubscriptionFacts.billingRetryLimit)
  let starts =
    [accessEnds] + [ownGraceEnds, retryEnds].filter { $0 > accessEnds && $0 < .distantFuture }.sorted()
  for start in starts {
    let phase = Phase(
      startsAt: start,
      status: start < ownGraceEnds ? .grace : .expired,
      storeStatus: isInBillingRetry && start < retryEnds ? .billingRetry : .expired)
    if let last = phases.last, last.status == phase.status, last.storeStatus == phase.storeStatus {
      continue
    }
    phases.append(phase)
  }
  return phases
}
