import FoundationEssentials
import Postgres
import Subscriptions

/// The table `transactions`.
enum TransactionRows {
  /// All transactions of these purchases.
  static func select(_ originalTransactionIDs: [String]) -> Query {
    """
    SELECT transaction_id, original_transaction_id, bundle_id, environment, product_id, kind, ownership,
      purchase_date, original_purchase_date, expiry_date, revoked_at, is_upgraded, app_account_token,
      app_transaction_id, price_milliunits, currency, signed_at
    FROM transactions
    WHERE original_transaction_id = ANY(\(originalTransactionIDs))
    """
  }

  /// Which purchases these transactions are known as part of.
  static func homes(_ transactionIDs: [String]) -> Query {
    """
    SELECT transaction_id, original_transaction_id FROM transactions
    WHERE transaction_id = ANY(\(transactionIDs))
    """
  }

  static func decode(_ row: Row) throws -> TransactionFact {
    TransactionFact(
      transactionID: try row.decode(0), originalTransactionID: try row.decode(1),
      bundleID: try row.decode(2), environment: try environment(row.decode(3)),
      productID: try row.decode(4), kind: PurchaseKind(rawValue: try row.decode(5)),
      ownership: try row.decode(6), purchaseDate: try row.decode(7),
      originalPurchaseDate: try row.decode(8), expiresDate: try row.decode(9),
      revocationDate: try row.decode(10), isUpgraded: try row.decode(11),
      appAccountToken: try row.decode(12), appTransactionID: try row.decode(13),
      priceMilliunits: try row.decode(14), currency: try row.decode(15), signedAt: try row.decode(16))
  }

  /// Writes the latest word on each. The ledger has decided that it is the latest; that the clause at
  /// the end says so too guards the table against any other writer.
  static func upsert(_ records: [TransactionRecord], at instant: Date) -> Query {
    let facts = records.map(\.fact)
    return """
      INSERT INTO transactions (transaction_id, original_transaction_id, bundle_id, environment,
        product_id, kind, ownership, purchase_date, original_purchase_date, expiry_date, revoked_at,
        is_upgraded, app_account_token, app_transaction_id, price_milliunits, currency, signed_at,
        other_claims, first_seen_at, updated_at)
      SELECT *, \(instant)::timestamptz, \(instant)::timestamptz FROM unnest(
        \(facts.map(\.transactionID))::text[], \(facts.map(\.originalTransactionID))::text[],
        \(facts.map(\.bundleID))::text[], \(facts.map(\.environment.rawValue))::text[],
        \(facts.map(\.productID))::text[], \(facts.map(\.kind.rawValue))::text[],
        \(facts.map(\.ownership))::text[], \(facts.map(\.purchaseDate))::timestamptz[],
        \(facts.map(\.originalPurchaseDate))::timestamptz[], \(facts.map(\.expiresDate))::timestamptz[],
        \(facts.map(\.revocationDate))::timestamptz[], \(facts.map(\.isUpgraded))::boolean[],
        \(facts.map(\.appAccountToken))::uuid[], \(facts.map(\.appTransactionID))::text[],
        \(facts.map(\.priceMilliunits))::bigint[], \(facts.map(\.currency))::text[],
        \(facts.map(\.signedAt))::timestamptz[], \(records.map(\.otherClaims))::jsonb[])
      ON CONFLICT (transaction_id) DO UPDATE SET
        bundle_id = excluded.bundle_id,
        environment = excluded.environment, product_id = excluded.product_id, kind = excluded.kind,
        ownership = excluded.ownership, purchase_date = excluded.purchase_date,
        original_purchase_date = excluded.original_purchase_date, expiry_date = excluded.expiry_date,
        revoked_at = excluded.revoked_at, is_upgraded = excluded.is_upgraded,
        app_account_token = excluded.app_account_token,
        app_transaction_id = excluded.app_transaction_id,
        price_milliunits = excluded.price_milliunits, currency = excluded.currency,
        signed_at = excluded.signed_at, other_claims = excluded.other_claims,
        updated_at = excluded.updated_at
      WHERE transactions.signed_at <= excluded.signed_at
      """
  }
}

/// An environment as a column has it.
/// - Throws: for a word that no code of ours writes there.
func environment(_ word: String) throws -> StoreEnvironment {
  guard let environment = StoreEnvironment(rawValue: word) else {
    throw UnreadableRow(column: "environment")
  }
  return environment
}

/// A row that no code of ours can have written.
struct UnreadableRow: Error {
  var column: String
}
