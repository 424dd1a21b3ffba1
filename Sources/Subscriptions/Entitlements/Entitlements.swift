import Foundation

/// The entitlements of a customer of one app at one instant.
public struct Entitlements: Sendable, Hashable {
  /// The tier; nil without access.
  public var tier: String?
  /// The value of `status` in responses.
  public var status: Status
  /// Whether the customer has more than the free features.
  public var isAccessGranted: Bool
  /// The features, under the app's own names.
  public var features: Features
  /// The next change without new facts; nil for none.
  public var validUntil: Date?
  /// Until when a client without network keeps its access; nil without access. ``endless`` for access that never ends
  /// where the app's ``OfflineRule`` is `paidTime`.
  public var offlineGraceUntil: Date?
  /// Whether the customer has or had a purchase, a trial or a grant: a former customer, and no new one.
  public var everHadAccess: Bool
  /// The source that decided; nil if the customer never had one.
  public var source: Source?
  fileprivate var strength = EntitlementCandidate.Strength()

  /// Whether a purchase or a grant gives full access.
  public var isPaidOrGranted: Bool {
    switch source {
    case .subscription, .grant: strength.access == .full
    case .trial, .freeAccess, nil: false
    }
  }

  /// Whether another customer's entitlements open more, or as much for longer.
  public func isWeaker(than other: Entitlements) -> Bool {
    if strength != other.strength { return strength < other.strength }
    return strength.access > .none && (validUntil ?? .distantFuture) < (other.validUntil ?? .distantFuture)
  }

  /// The last second of the year 9999: later than every date that clients can read.
  public static let endless = Date(timeIntervalSince1970: 253_402_300_799)

  /// The sources of entitlements.
  public enum Source: Sendable, Hashable {
    /// A purchase, active or ended.
    case subscription(Subscription)
    /// A grant.
    case grant(Grant)
    /// The app's own trial, active or ended.
    case trial(Trial)
    /// Free access for every customer.
    case freeAccess
  }
}

extension App {
  /// Decides the entitlements of a customer.
  ///
  /// - Parameters:
  ///   - customerRecords: the customer's records of this app.
  ///   - customer: decides whether sandbox purchases count.
  ///   - instant: the current time.
  public func entitlements(
    of customerRecords: CustomerRecords, for customer: Customer?, at instant: Date
  ) -> Entitlements {
    // Future changes: a grant that begins later, planned free access, the end of the window for sandbox purchases.
    let grants = customerRecords.grants.filter { counts($0, for: customer, at: instant) }
    let beginnings =
      grants.map(\.startsAt) + [
        customerRecords.freeAccess.nextChange(after: instant),
        customerRecords.isOfSandbox ? sandboxGrants.windowEnd(at: instant) : nil,
      ]
    let nextChange = beginnings.compactMap(\.self).filter { $0 > instant }.min()
    let candidates = candidates(of: customerRecords, for: customer, at: instant)
    let everHadAccess = everHadAccess(customerRecords, customer, at: instant)
    guard let best = candidates.max(by: { $0.isWeaker(than: $1) }) else {
      return Entitlements(
        tier: nil, status: .expired, isAccessGranted: false, features: free, validUntil: nextChange,
        offlineGraceUntil: nil, everHadAccess: everHadAccess, source: nil)
    }
    let isOpen = best.access > .none
    let end = isOpen ? best.changesAt : nil
    var entitlements = Entitlements(
      tier: isOpen ? best.tier : nil,
      status: best.status,
      isAccessGranted: isOpen,
      features: best.features,
      validUntil: [end, nextChange].compactMap(\.self).min(),
      offlineGraceUntil: isOpen ? offlineEnd(of: best, among: candidates, at: instant) : nil,
      everHadAccess: everHadAccess, source: best.source)
    entitlements.strength = best.strength
    return entitlements
  }

  /// The purchase or trial that opens the most for a customer now; nil where none gives access. Grants and free access
  /// are no plans.
  public func openPlan(
    of customerRecords: CustomerRecords, for customer: Customer?, at instant: Date
  ) -> Entitlements.Source? {
    candidates(of: customerRecords, for: customer, at: instant).filter {
      switch $0.source {
      case .subscription, .trial: $0.access > .none
      case .grant, .freeAccess: false
      }
    }.max { $0.isWeaker(than: $1) }?.source
  }

  /// Until when a client that has access now keeps it without network.
  ///
  /// A token has the features of the candidate that decides, so paid time counts where it opens as much. Purchases and
  /// awards of the sandbox cost nothing: they last for the days without network, and not beyond the window of
  /// ``SandboxGrants/everyoneUntil(_:)``.
  private func offlineEnd(
    of best: EntitlementCandidate, among candidates: [EntitlementCandidate], at instant: Date
  ) -> Date {
    let grace = instant.addingTimeInterval(TimeInterval(offlineGraceDays) * 86_400)
    guard best.isOfProduction else {
      return min(grace, sandboxGrants.windowEnd(at: instant) ?? grace)
    }
    guard offline == .paidTime else { return grace }
    let ends = candidates.filter {
      $0.access >= best.access && $0.rank >= best.rank && $0.isConfirmed && $0.isOfProduction
    }.map { $0.weakensAt ?? $0.lasts }
    let last = max(grace, ends.max() ?? grace)
    return last >= .distantFuture ? Entitlements.endless : min(last, Entitlements.endless)
  }

  private func everHadAccess(
    _ customerRecords: CustomerRecords, _ customer: Customer?, at instant: Date
  ) -> Bool {
    customerRecords.hadGrant
      || customerRecords.subscriptions.contains { counts($0, for: customer, at: instant) }
      || customerRecords.grants.contains { $0.startsAt <= instant && counts($0, for: customer, at: instant) }
      || customerRecords.trial.map { counts($0.environment, for: customer, at: instant) } ?? false
  }

  /// Whether a subscription counts at `instant`: its product is in the catalog, and a sandbox purchase belongs to a
  /// tester.
  public func counts(_ subscription: Subscription, for customer: Customer?, at instant: Date) -> Bool {
    guard subscription.tier(at: instant) != nil else { return false }
    return counts(subscription.current.environment, for: customer, at: instant)
  }

  /// Whether a grant counts: its tier is in the catalog, and a grant for a sandbox app transaction belongs to a tester.
  public func counts(_ grant: Grant, for customer: Customer?, at instant: Date) -> Bool {
    tiers[grant.tier] != nil && counts(grant.environment, for: customer, at: instant)
  }

  /// Whether signed data of an environment counts for a customer: sandbox data counts for testers.
  public func counts(_ environment: StoreEnvironment, for customer: Customer?, at instant: Date) -> Bool {
    switch environment {
    case .production: true
    case .sandbox, .xcode: sandboxGrants.include(customer, at: instant)
    }
  }

  /// The trial that decides if a device has one in each environment: one that counts, then the one that ends last.
  public func trial(among trials: [Trial], for customer: Customer?, at instant: Date) -> Trial? {
    let counted = trials.filter { counts($0.environment, for: customer, at: instant) }
    return (counted.isEmpty ? trials : counted).max { $0.endsAt < $1.endsAt }
  }
}

/// The premium columns of a user's profile.
///
/// A `NULL` expiry is free (without a product) or lifetime access. After the end, the last expiry and product stay, so
/// that support sees them; a refund clears expiry, product and transaction.
public struct PremiumStatus: Sendable, Hashable {
  /// Whether the user is premium now.
  public var isPremium: Bool
  /// The end of the paid or granted access, with Apple's billing grace.
  public var expiresAt: Date?
  /// The product; `grant:` and the tier for a grant.
  public var productID: String?
  /// The `originalTransactionId` of the subscription.
  public var originalTransactionID: String?
  /// Whether it is access after the paid time (Apple's grace or the app's own).
  public var isInGracePeriod: Bool
  /// Whether the App Store is expected to charge again.
  public var willRenew: Bool

  /// The status of a user without access.
  public static let free = PremiumStatus()

  private init() {
    isPremium = false
    isInGracePeriod = false
    willRenew = false
  }

  /// The status for entitlements.
  public init(_ entitlements: Entitlements, at instant: Date) {
    isPremium = entitlements.isAccessGranted
    isInGracePeriod = entitlements.status == .grace
    willRenew = false
    switch entitlements.source {
    case .subscription(let subscription) where entitlements.status != .cancelled:
      expiresAt = subscription.storeAccessEnds
      productID = subscription.productID(at: instant)
      originalTransactionID = subscription.current.originalTransactionID
      willRenew = subscription.willRenew(at: instant)
    case .grant(let grant):
      expiresAt = grant.endsAt
      productID = grant.productID
    case .subscription, .trial, .freeAccess, nil: break
    }
  }
}
