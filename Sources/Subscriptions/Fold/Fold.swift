import FoundationEssentials

/// The one place that decides a status.
///
/// Validation, notifications, profile sync, reconciling, replay and the expiry sweep all end here:
/// signed facts in, the subscription for every instant out. No clock, no database, no order of arrival.
extension SubscriptionFacts {
  /// Apple goes on trying to charge for at most this long after the paid time.
  static let billingRetryLimit: TimeInterval = 60 * 86_400

  /// Apple charges at most a day before a period begins; twice that, for its clocks and ours.
  static let chargedAhead: TimeInterval = 2 * 86_400

  /// What is signed or bought so shortly before a `purchaseDate` tells nothing of the order: clocks differ.
  static let clockDifference: TimeInterval = 60

  /// What the facts mean under an app's catalog.
  /// - Parameter freeTime: when the app asked nobody for a subscription; its own grace stands still meanwhile.
  /// - Returns: `nil` while no transaction is known (a renewal info alone says who, not until when).
  public func subscription(under app: App?, freeTime: FreeTime = .never) -> Subscription? {
    guard let current else { return nil }
    let renewal = renewalOfCurrentPeriod(current)
    let product = app?.product(named: current.productID)
    let paidUntil = current.expiresDate ?? product?.accessEnds(purchasedAt: current.purchaseDate)
    let failure = failedCharge(renewal, at: paidUntil)
    let graceEnds = billingGraceEnd(current, failure, paidUntil)

    let isRevoked = current.revocationDate != nil
    let renews =
      current.kind == .autoRenewable && !isRevoked && (renewal?.willAutoRenew ?? true)

    var resolved = current
    resolved.expiresDate = paidUntil
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
          freeTime.end(of: app?.grace?.duration ?? 0, from: $0) ?? .distantFuture
        }),
      signedAt: latestSignature(of: current))
  }

  /// The renewal info, if it speaks of the current period.
  ///
  /// A renewal info from before a recovery still says 'billing retry'; it must not colour the period
  /// that followed. It belongs to the current period if it was signed in it, or shortly before and names its
  /// end: a renewal is charged up to a day early, so both can be signed before the period begins.
  private func renewalOfCurrentPeriod(_ current: TransactionFact) -> RenewalFact? {
    guard let renewal else { return nil }
    if renewal.signedAt >= current.purchaseDate { return renewal }
    let isSignedAhead = renewal.signedAt >= current.purchaseDate - Self.chargedAhead
    if let renewalDate = renewal.renewalDate, renewalDate == current.expiresDate, isSignedAhead {
      return renewal
    }
    return nil
  }

  /// The renewal info, if it may speak of a charge that failed at `paidUntil`.
  ///
  /// What is recovered in billing grace begins before the failure was signed. Where only the transaction of
  /// the recovery has come, the failure is known by the end that it names: one from before.
  private func failedCharge(_ renewal: RenewalFact?, at paidUntil: Date?) -> RenewalFact? {
    if let end = renewal?.renewalDate, let paidUntil, end < paidUntil { return nil }
    return renewal
  }

  /// What is paid for until the current period begins, if it is something else.
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

/// The table of the contract ('what the facts say, now'), laid out in time.
private func phases(
  revoked: Bool, paidUntil: Date?, graceEnds: Date?, isInBillingRetry: Bool, ownGraceEnds: Date?
) -> [Phase] {
  if revoked { return [Phase(startsAt: nil, status: .cancelled, storeStatus: .revoked)] }
  var phases = [Phase(startsAt: nil, status: .active, storeStatus: .active)]
  guard let paidUntil else { return phases }

  if graceEnds != nil {
    phases.append(Phase(startsAt: paidUntil, status: .grace, storeStatus: .billingGrace))
  }
  // After paid time and billing grace two clocks run on, each from the end of the paid time: the
  // app's own grace decides what clients are told, Apple's retries what the store would say.
  let accessEnds = graceEnds ?? paidUntil
  // While free time is on in the middle of it, its end is not known: it is judged again when that is off.
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
