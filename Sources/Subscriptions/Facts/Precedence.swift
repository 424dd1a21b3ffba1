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

  private var tieBreaker: [String] {
    [
      // The shorter time first; no end is the longest.
      expiresDate == nil ? "~" : milliseconds(expiresDate), milliseconds(revocationDate),
      milliseconds(purchaseDate),
      milliseconds(originalPurchaseDate), originalTransactionID, bundleID, environment.rawValue,
      productID, kind.rawValue, ownership, appAccountToken?.uuidString ?? "", appTransactionID ?? "",
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
