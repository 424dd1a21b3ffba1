import FoundationEssentials

/// What the facts about one `originalTransactionID` mean, for every instant: the value behind a row.
///
/// Time passes without notifications, so it holds no status but the phases, from which a status is
/// read for an instant. The database keeps them too; its views read the same phases with `now()`.
public struct Subscription: Sendable, Hashable {
  /// The current transaction (the latest purchase).
  @Boxed public var current: TransactionFact
  /// The catalog's name of the current product (aliases resolved), or Apple's where it is unknown.
  public var productID: String
  /// The tier that the product belongs to; `nil` where the catalog does not know the product.
  public var tier: String?
  /// What is open until the current transaction begins, where that was charged ahead and is of another
  /// product.
  public var preceding: Preceding?
  /// Whom the app named at the purchase: the latest `appAccountToken` among its transactions.
  public var customerToken: UUID?
  /// Whether the App Store intends to charge again.
  public var autoRenewEnabled: Bool
  /// The catalog's name of the product of the next period; `nil` if none will follow.
  public var renewsAs: String?
  /// The end of Apple's billing grace, where there is one for the current period.
  public var graceExpiresDate: Date?
  /// In order of time, never empty.
  public var phases: [Phase]
  /// The latest `signedDate` of any fact in it.
  public var signedAt: Date

  /// Creates a subscription from its parts; the fold does, and a store that reads rows back.
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

  /// The phase in which `instant` lies. A phase owns its first instant, not its last.
  public func phase(at instant: Date) -> Phase {
    var found = phases[0]
    for phase in phases.dropFirst() {
      guard let start = phase.startsAt, start <= instant else { break }
      found = phase
    }
    return found
  }

  /// The next instant after `instant` at which a status or the product that is open changes by itself.
  public func nextChange(after instant: Date) -> Date? {
    let phaseChange = phases.lazy.compactMap(\.startsAt).first { $0 > instant }
    guard preceding(at: instant) != nil else { return phaseChange }
    return min(current.purchaseDate, phaseChange ?? .distantFuture)
  }

  /// The last instant, not after `instant`, at which a status or the product that is open changed by itself.
  public func lastChange(until instant: Date) -> Date? {
    let phaseChange = phase(at: instant).startsAt
    guard preceding != nil, current.purchaseDate <= instant else { return phaseChange }
    return max(current.purchaseDate, phaseChange ?? .distantPast)
  }

  /// The catalog's name of the product that is open at `instant`, or was last.
  public func productID(at instant: Date) -> String { preceding(at: instant)?.productID ?? productID }

  /// The tier of the product that is open at `instant`, or was last.
  public func tier(at instant: Date) -> String? {
    if let preceding = preceding(at: instant) { preceding.tier } else { tier }
  }

  /// What is open at `instant` in place of the current transaction's product.
  public func preceding(at instant: Date) -> Preceding? {
    instant < current.purchaseDate ? preceding : nil
  }

  /// The end of the access that the store speaks for (paid time and billing grace, not the app's own
  /// grace): `nil` where it has no end.
  public var storeAccessEnds: Date? {
    guard let expires = current.expiresDate else { return nil }
    return max(expires, graceExpiresDate ?? expires)
  }

  /// Whether the App Store will charge again, as far as is known at `instant`.
  public func willRenew(at instant: Date) -> Bool {
    guard autoRenewEnabled else { return false }
    switch phase(at: instant).storeStatus {
    case .active, .billingGrace, .billingRetry: return true
    case .expired, .revoked: return false
    }
  }
}

/// The period before one that was charged ahead.
///
/// The App Store charges a renewal up to a day before it begins. Where the customer has moved down, the higher
/// tier is paid for until then.
public struct Preceding: Sendable, Hashable {
  /// The catalog's name of its product (aliases resolved), or Apple's where it is unknown.
  public var productID: String
  /// The tier that the product belongs to; `nil` where the catalog does not know the product.
  public var tier: String?

  /// Creates a period.
  public init(productID: String, tier: String?) {
    self.productID = productID
    self.tier = tier
  }
}
