import FoundationEssentials
import Postgres
import Subscriptions

/// The table `renewals`.
enum RenewalRows {
  /// The renewal infos of these purchases.
  static func select(_ originalTransactionIDs: [String]) -> Query {
    """
    SELECT original_transaction_id, environment, product_id, renews_as, will_auto_renew,
      is_in_billing_retry, grace_expires_at, expiration_intent, renewal_date, signed_at
    FROM renewals
    WHERE original_transaction_id = ANY(\(originalTransactionIDs))
    """
  }

  static func decode(_ row: Row) throws -> RenewalFact {
    RenewalFact(
      originalTransactionID: try row.decode("original_transaction_id"),
      environment: try environment(row.decode("environment")),
      productID: try row.decode("product_id"), renewsAs: try row.decode("renews_as"),
      willAutoRenew: try row.decode("will_auto_renew"),
      isInBillingRetry: try row.decode("is_in_billing_retry"),
      graceExpiresDate: try row.decode("grace_expires_at"),
      expirationIntent: try row.decode("expiration_intent"), renewalDate: try row.decode("renewal_date"),
      signedAt: try row.decode("signed_at"))
  }

  /// Writes the latest renewal info of each purchase.
  static func upsert(_ records: [RenewalRecord], at instant: Date) -> Query {
    let facts = records.map(\.fact)
    return """
      INSERT INTO renewals (original_transaction_id, environment, product_id, renews_as,
        will_auto_renew, is_in_billing_retry, grace_expires_at, expiration_intent, renewal_date,
        signed_at, other_claims, updated_at)
      SELECT new.*, \(instant)::timestamptz FROM \(rows: records.count)
        \(each: facts.map { $0.originalTransactionID }), \(each: facts.map { $0.environment.rawValue }),
        \(each: facts.map { $0.productID }), \(each: facts.map { $0.renewsAs }),
        \(each: facts.map { $0.willAutoRenew }), \(each: facts.map { $0.isInBillingRetry }),
        \(each: facts.map { $0.graceExpiresDate }), \(each: facts.map { $0.expirationIntent }),
        \(each: facts.map { $0.renewalDate }), \(each: facts.map { $0.signedAt }),
        \(each: records.map { $0.otherClaims }))) AS new
      ON CONFLICT (original_transaction_id) DO UPDATE SET
        environment = excluded.environment, product_id = excluded.product_id,
        renews_as = excluded.renews_as, will_auto_renew = excluded.will_auto_renew,
        is_in_billing_retry = excluded.is_in_billing_retry,
        grace_expires_at = excluded.grace_expires_at,
        expiration_intent = excluded.expiration_intent, renewal_date = excluded.renewal_date,
        signed_at = excluded.signed_at, other_claims = excluded.other_claims,
        updated_at = excluded.updated_at
      WHERE renewals.signed_at <= excluded.signed_at
      """
  }
}
