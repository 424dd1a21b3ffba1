import FoundationEssentials

/// Which of two facts about the same thing is the later word.
///
/// `signedDate` decides. Two different facts can carry the same `signedDate` to the millisecond; then
/// the order must still not depend on which came first, so the rest is compared field by field. What
/// takes access away goes first in that comparison: of two words spoken at once, a refund is believed.
extension TransactionFact {
  /// Whether this fact replaces `other`, which has the same `transactionID`.
  public func supersedes(_ other: TransactionFact) -> Bool {
    if signedAt != other.signedAt { return signedAt > other.signedAt }
    if (revocationDate == nil) != (other.revocationDate == nil) { return revocationDate != nil }
    if isUpgraded != other.isUpgraded { return isUpgraded }
    return tieBreaker.lexicographicallyPrecedes(other.tieBreaker)
  }

  /// What is known from this fact and `other`, which has the same `transactionID`.
  ///
  /// The later word counts, except for the account token: the App Store signs the same transaction with a token and
  /// without one. A missing token denies nothing, so the latest token that was signed is kept.
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

  /// Without the account token, which has a rule of its own.
  private var tieBreaker: [String] {
    [
      // The shorter time first; no end is the longest.
      expiresDate == nil ? "~" : milliseconds(expiresDate), milliseconds(revocationDate),
      milliseconds(purchaseDate),
      milliseconds(originalPurchaseDate), originalTransactionID, bundleID, environment.rawValue,
      productID, kind.rawValue, ownership, appTransactionID ?? "",
      priceMilliunits.map { "\($0)" } ?? "", currency ?? "",
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
