import Customers
import FoundationEssentials
import Postgres
import Subscriptions

/// The definition of a paid transaction, for `kpi_daily` and the metrics: a free introductory period does not count.
///
/// SQL counts rows, and the ledger counts facts as they are committed: each condition has a twin below, and a test
/// compares them.
package enum PaidTransaction {
  /// Whether a row of `transactions` under the alias `t` is a free period of an offer
  /// (``TransactionFact/isFreeOffer``). It may have no price.
  static let isFreeOffer: Query = "coalesce(t.other_claims ->> 'offerDiscountType' = 'FREE_TRIAL', false)"

  /// Whether a row of `transactions` under the alias `t` was paid for.
  package static let condition: Query = """
    NOT (coalesce(t.price_milliunits = 0, false) OR \(isFreeOffer))
    """

  /// Whether a row of `transactions` under the alias `t` restores a purchase, which cost nothing.
  ///
  /// A restored non-consumable has a transaction of its own, with the day of the restore and the price. The first
  /// transaction after a refund is a sale. A restored period of a subscription has another transaction with the dates
  /// and the price of the first one (``TransactionFact/isOfSamePeriod(as:)``). `support_transactions` has the same
  /// condition.
  package static let isRestored: Query = """
    CASE WHEN t.kind = 'Non-Consumable' AND t.transaction_id <> t.original_transaction_id THEN NOT EXISTS (
      SELECT FROM transactions r
      WHERE r.original_transaction_id = t.original_transaction_id AND r.revoked_at <= t.purchase_date
        AND NOT EXISTS (
          SELECT FROM transactions again
          WHERE again.original_transaction_id = t.original_transaction_id
            AND again.purchase_date >= r.revoked_at
            AND (again.purchase_date, again.transaction_id) < (t.purchase_date, t.transaction_id)))
      WHEN t.kind = 'Auto-Renewable Subscription' THEN EXISTS (
        SELECT FROM transactions copy
        WHERE copy.original_transaction_id = t.original_transaction_id AND copy.purchase_date = t.purchase_date
          AND copy.product_id = t.product_id AND copy.ownership = t.ownership AND copy.kind = t.kind
          AND copy.transaction_id < t.transaction_id)
      ELSE false END
    """

  /// When the customer of a row of `trials` under the alias `r`, its Apple Account or its device, first paid for
  /// anything; NULL if it has not. The trial is converted if that is after its start.
  package static let firstOfTrial: Query = """
    (
      SELECT min(t.purchase_date) FROM subscriptions s JOIN transactions t USING (original_transaction_id)
      WHERE s.bundle_id = r.bundle_id
        AND (s.device_id = r.device_id OR s.app_transaction_id = r.app_transaction_id OR s.erased_as = r.device_id)
        AND t.environment = 'Production' AND t.ownership = 'PURCHASED' AND \(condition) AND NOT (\(isRestored)))
    """
}

extension TransactionFact {
  /// Whether the purchaser paid for it: ``PaidTransaction/condition``. A family member pays nothing.
  package var isPaid: Bool { ownership == "PURCHASED" && priceMilliunits != 0 && !isFreeOffer }
}

extension SubscriptionFacts {
  /// The first payment; `nil` where only free periods are known.
  var firstPaidAt: Date? {
    // A restored period has the date of the period.
    transactions.values.lazy.filter { $0.isPaid && ($0.kind == .autoRenewable || !isRestored($0)) }
      .map(\.purchaseDate).min()
  }

  /// Whether one of these transactions restores a purchase: ``PaidTransaction/isRestored``.
  package func isRestored(_ fact: TransactionFact) -> Bool {
    if fact.kind == .autoRenewable {
      return copies(of: fact).contains { $0.transactionID < fact.transactionID }
    }
    guard fact.kind == .nonConsumable, fact.transactionID != fact.originalTransactionID else { return false }
    return !transactions.values.contains { refunded in
      guard let date = refunded.revocationDate, date <= fact.purchaseDate else { return false }
      return !transactions.values.contains {
        $0.purchaseDate >= date
          && ($0.purchaseDate, $0.transactionID) < (fact.purchaseDate, fact.transactionID)
      }
    }
  }

  /// The other transactions of a subscription's period, which its restores made.
  func copies(of fact: TransactionFact) -> [TransactionFact] {
    transactions.values.filter { $0.transactionID != fact.transactionID && $0.isOfSamePeriod(as: fact) }
  }

  /// Whether earlier periods are known, all of them free.
  func followsFreePeriods(_ fact: TransactionFact) -> Bool {
    let earlier = transactions.values.lazy.filter { $0.purchaseDate < fact.purchaseDate }
    return earlier.contains { !$0.isPaid } && !earlier.contains(where: \.isPaid)
  }
}
