import Foundation

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
  /// The later fact counts, except for the account token. The App Store signs the same transaction with and without a token,
  /// so the latest signed token is kept.
  func merged(with other: TransactionFact) -> TransactionFact {
    var merged = supersedes(other) ? self : other
    let named = hasLaterToken(than: other) ? self : other
    merged.appAccountToken = named.appAccountToken
    merged.tokenSignedAt = named.tokenSignedAt
    return merged
  }

  private func hasLaterToken(than other: TransactionFact) -> Bool {
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
