import Foundation

/// The signed facts about one `originalTransactionID`: the only input of the fold.
///
/// Adding facts is commutative and idempotent: any order and any repetition give the same value.
public struct SubscriptionFacts: Sendable, Hashable {
  /// The latest fact of each transaction by `transactionID`, with the latest account token.
  public private(set) var transactions: [String: TransactionFact]
  /// The latest renewal info.
  public private(set) var renewal: RenewalFact?

  /// Facts from stored ones.
  public init(transactions: [TransactionFact] = [], renewal: RenewalFact? = nil) {
    self.transactions = [:]
    for transaction in transactions { add(transaction) }
    self.renewal = renewal
  }

  /// Adds a signed transaction.
  ///
  /// - Returns: whether it changed the facts. An older fact does if its account token is newer.
  @discardableResult
  public mutating func add(_ fact: TransactionFact) -> Bool {
    guard let known = transactions[fact.transactionID] else {
      transactions[fact.transactionID] = fact
      return true
    }
    let merged = fact.merged(with: known)
    if merged == known { return false }
    transactions[fact.transactionID] = merged
    return true
  }

  /// Adds a signed renewal info.
  ///
  /// - Returns: whether it changed the facts; an older or repeated one does not.
  @discardableResult
  public mutating func add(_ fact: RenewalFact) -> Bool {
    if let known = renewal, !fact.supersedes(known) { return false }
    renewal = fact
    return true
  }
}

/// The fields of a signed renewal info (Apple's `JWSRenewalInfoDecodedPayload`) that the rules need.
///
/// A subscription has one: a later `signedAt` replaces it.
public struct RenewalFact: Sendable, Hashable {
  /// Apple's `originalTransactionId`.
  public var originalTransactionID: String
  /// Apple's `environment`.
  public var environment: StoreEnvironment
  /// Apple's `productId`: the product of the current period.
  public var productID: String
  /// Apple's `autoRenewProductId`: the product of the next period.
  public var renewsAs: String?
  /// Apple's `autoRenewStatus`: 1 is on.
  public var willAutoRenew: Bool?
  /// Apple's `isInBillingRetryPeriod`.
  public var isInBillingRetry: Bool
  /// Apple's `gracePeriodExpiresDate`: the end of billing grace.
  public var graceExpiresDate: Date?
  /// Apple's `expirationIntent`: the reason of the end.
  public var expirationIntent: Int?
  /// Apple's `renewalDate`: the end of the current period.
  public var renewalDate: Date?
  /// Apple's `signedDate`.
  public var signedAt: Date

  /// Creates a fact; every parameter is described at its property.
  public init(
    originalTransactionID: String, environment: StoreEnvironment, productID: String,
    renewsAs: String? = nil, willAutoRenew: Bool? = nil, isInBillingRetry: Bool = false,
    graceExpiresDate: Date? = nil, expirationIntent: Int? = nil, renewalDate: Date? = nil,
    signedAt: Date
  ) {
    self.originalTransactionID = originalTransactionID
    self.environment = environment
    self.productID = productID
    self.renewsAs = renewsAs
    self.willAutoRenew = willAutoRenew
    self.isInBillingRetry = isInBillingRetry
    self.graceExpiresDate = graceExpiresDate
    self.expirationIntent = expirationIntent
    self.renewalDate = renewalDate
    self.signedAt = signedAt
  }
}

/// The order of two facts about the same transaction or subscription.
///
/// `signedDate` decides. Two different facts can have the same `signedDate`. Their order must not depend on the order of
/// arrival, so the other fields are compared. A fact that revokes access supersedes one that does not.
extension TransactionFact {
  /// Whether this fact replaces `other`, which has the same `transactionID`.
  public func supersedes(_ other: TransactionFact) -> Bool {
    if signedAt != other.signedAt { return signedAt > other.signedAt }
    if (revocationDate == nil) != (other.revocationDate == nil) { return revocationDate != nil }
    if isUpgraded != other.isUpgraded { return isUpgraded }
    return tieBreaker.lexicographicallyPrecedes(other.tieBreaker)
  }

  /// Merges this fact with `other`, which has the same `transactionID`.
  ///
  /// The later fact counts, except for the account token: the App Store signs the same transaction with and without a
  /// token, so the latest signed token is kept. So is the latest revocation.
  func merged(with other: TransactionFact) -> TransactionFact {
    var merged = supersedes(other) ? self : other
    let named = hasLaterToken(than: other) ? self : other
    merged.appAccountToken = named.appAccountToken
    merged.tokenSignedAt = named.tokenSignedAt
    let isAnother =
      appAccountToken != nil && other.appAccountToken != nil && appAccountToken != other.appAccountToken
    merged.isTokenChanged = isTokenChanged || other.isTokenChanged || isAnother
    merged.latestRevocation = [latestRevocation, other.latestRevocation].compactMap(\.self).max()
    return merged
  }

  func hasLaterToken(than other: TransactionFact) -> Bool {
    guard let token = appAccountToken, let signed = tokenSignedAt else { return false }
    guard let otherToken = other.appAccountToken, let otherSigned = other.tokenSignedAt else { return true }
    return signed != otherSigned ? signed > otherSigned : token.uuidString < otherToken.uuidString
  }

  /// The fields in the order of comparison, without the account token, which is merged separately.
  private var tieBreaker: [String] {
    [
      // An earlier end first; no end is last.
      expiresDate == nil ? "~" : milliseconds(expiresDate), milliseconds(revocationDate),
      milliseconds(purchaseDate),
      milliseconds(originalPurchaseDate), originalTransactionID, bundleID, environment.rawValue,
      productID, kind.rawValue, ownership, appTransactionID ?? "",
      priceMilliunits.map { "\($0)" } ?? "", currency ?? "", isFreeOffer ? "1" : "0",
    ]
  }
}

extension RenewalFact {
  /// Whether this fact replaces `other`, which has the same `originalTransactionID`.
  public func supersedes(_ other: RenewalFact) -> Bool {
    if signedAt != other.signedAt { return signedAt > other.signedAt }
    return tieBreaker.lexicographicallyPrecedes(other.tieBreaker)
  }

  private var tieBreaker: [String] {
    [
      milliseconds(graceExpiresDate), isInBillingRetry ? "1" : "0",
      willAutoRenew.map { $0 ? "1" : "0" } ?? "", renewsAs ?? "", productID, environment.rawValue,
      expirationIntent.map { "\($0)" } ?? "", milliseconds(renewalDate),
    ]
  }
}

private func milliseconds(_ date: Date?) -> String {
  date.map { "\(Int64(($0.timeIntervalSince1970 * 1000).rounded()))" } ?? ""
}
