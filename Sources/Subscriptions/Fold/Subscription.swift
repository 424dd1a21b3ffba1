import Foundation

/// The state of one `originalTransactionID` for every instant: the value of a row.
///
/// A status changes with time, so a subscription has phases instead of a status. The database stores them too, and its
/// views select the phase of `now()`.
public struct Subscription: Sendable, Hashable {
  /// The current transaction (the latest purchase).
  public var current: TransactionFact
  /// The catalog's name of the current product (aliases resolved), or Apple's name if it is not in the catalog.
  public var productID: String
  /// The tier of the product; nil if the product is not in the catalog.
  public var tier: String?
  /// The product until the current transaction begins, if that was charged ahead for another product.
  public var preceding: Preceding?
  /// The latest `appAccountToken` of its transactions.
  public var customerToken: UUID?
  /// Whether the App Store intends to charge again.
  public var autoRenewEnabled: Bool
  /// The catalog's name of the product of the next period; nil if there is none.
  public var renewsAs: String?
  /// The end of Apple's billing grace for the current period.
  public var graceExpiresDate: Date?
  /// The phases in order of time, never empty.
  public var phases: [Phase]
  /// The latest `signedDate` of its facts.
  public var signedAt: Date
  /// Whether it is known by an old proof alone, about which the App Store has not answered, so that a refund may be
  /// unknown; or whether the customer only named its id. The fold does not know it; the records of a customer do.
  public var isUnconfirmed = false

  /// Creates a subscription from its parts, for the fold and for stored rows.
  public init(
    current: TransactionFact, productID: String, tier: String?, preceding: Preceding? = nil,
    customerToken: UUID?, autoRenewEnabled: Bool, renewsAs: String?, graceExpiresDate: Date?,
    phases: [Phase], signedAt: Date
  ) {
    self.current = current
    self.productID = productID
    self.tier = tier
    self.preceding = preceding
    self.customerToken = customerToken
    self.autoRenewEnabled = autoRenewEnabled
    self.renewsAs = renewsAs
    self.graceExpiresDate = graceExpiresDate
    self.phases = phases
    self.signedAt = signedAt
  }

  /// The phase at `instant`. A phase includes its start and excludes its end.
  public func phase(at instant: Date) -> Phase {
    var found = phases[0]
    for phase in phases.dropFirst() {
      guard let start = phase.startsAt, start <= instant else { break }
      found = phase
    }
    return found
  }

  /// The next instant after `instant` at which a status or the active product changes.
  public func nextChange(after instant: Date) -> Date? {
    let phaseChange = phases.lazy.compactMap(\.startsAt).first { $0 > instant }
    guard preceding(at: instant) != nil else { return phaseChange }
    return min(current.purchaseDate, phaseChange ?? .distantFuture)
  }

  /// The last instant until `instant` at which a status or the active product changed.
  public func lastChange(until instant: Date) -> Date? {
    let phaseChange = phase(at: instant).startsAt
    guard preceding != nil, current.purchaseDate <= instant else { return phaseChange }
    return max(current.purchaseDate, phaseChange ?? .distantPast)
  }

  /// The catalog's name of the product that is active at `instant`, or was last.
  public func productID(at instant: Date) -> String { preceding(at: instant)?.productID ?? productID }

  /// The tier of the product that is active at `instant`, or was last.
  public func tier(at instant: Date) -> String? {
    if let preceding = preceding(at: instant) { preceding.tier } else { tier }
  }

  /// The preceding product, if it is active at `instant`.
  public func preceding(at instant: Date) -> Preceding? {
    instant < current.purchaseDate ? preceding : nil
  }

  /// The end of the paid time and billing grace, without the app's own grace period; nil if there is no end.
  public var storeAccessEnds: Date? {
    guard let expires = current.expiresDate else { return nil }
    return max(expires, graceExpiresDate ?? expires)
  }

  /// When the App Store gives up to charge after a failed charge; nil if it is not trying at `instant`.
  ///
  /// It charges before the paid time ends, so it may be trying while the subscription is active.
  public func chargeRetriesEnd(at instant: Date) -> Date? {
    let isTrying =
      switch phase(at: instant).storeStatus {
      case .billingGrace, .billingRetry: true
      case .active: phases.contains { $0.storeStatus == .billingGrace || $0.storeStatus == .billingRetry }
      case .expired, .revoked: false
      }
    return isTrying ? current.expiresDate?.addingTimeInterval(SubscriptionFacts.billingRetryLimit) : nil
  }

  /// Whether the App Store is expected at `instant` to charge again.
  public func willRenew(at instant: Date) -> Bool {
    guard autoRenewEnabled else { return false }
    switch phase(at: instant).storeStatus {
    case .active, .billingGrace, .billingRetry: return true
    case .expired, .revoked: return false
    }
  }
}

/// The product before a period that was charged ahead.
///
/// The App Store charges a renewal up to a day before it begins. After a downgrade, the higher tier is active until
/// then.
public struct Preceding: Sendable, Hashable {
  /// The catalog's name of its product (aliases resolved), or Apple's name if it is not in the catalog.
  public var productID: String
  /// The tier of the product; nil if the product is not in the catalog.
  public var tier: String?

  /// Creates a period.
  public init(productID: String, tier: String?) {
    self.productID = productID
    self.tier = tier
  }
}

/// The value of `subscription.status` in responses. `Fold.swift` decides it for subscriptions,
/// `EntitlementCandidate.swift` for trials, grants and free access.
public enum Status: String, Sendable, Hashable, CaseIterable {
  /// The app's own trial; only for customers without a subscription.
  case trial
  /// Paid, or bought for lifetime.
  case active
  /// The paid time has ended, and access continues for a limited time.
  case grace
  /// Ended.
  case expired
  /// Refunded or revoked.
  case cancelled

  /// Whether the status gives access.
  public var grantsAccess: Bool { self == .trial || self == .active || self == .grace }
}

/// The value of `storeStatus` in responses. Apple's numbers 1 to 5.
public enum StoreStatus: String, Sendable, Hashable, CaseIterable {
  /// 1: paid.
  case active
  /// 2: ended, without billing retry.
  case expired
  /// 3: ended, with billing retry.
  case billingRetry
  /// 4: ended, with billing retry and billing grace.
  case billingGrace
  /// 5: refunded, or revoked from Family Sharing.
  case revoked
}

/// A period of a subscription with constant status.
public struct Phase: Sendable, Hashable {
  /// The first instant; nil for the first phase.
  public var startsAt: Date?
  /// The status for clients.
  public var status: Status
  /// The status of the App Store.
  public var storeStatus: StoreStatus

  /// Creates a phase.
  public init(startsAt: Date?, status: Status, storeStatus: StoreStatus) {
    self.startsAt = startsAt
    self.status = status
    self.storeStatus = storeStatus
  }
}
