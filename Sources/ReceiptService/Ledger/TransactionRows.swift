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

  /// Writes the latest word on each.
  ///
  /// A row that is new and a change of one that is there are two statements. `ON CONFLICT DO UPDATE` would be one, but
  /// needs a unique index of the whole table, and a table that is divided into months has one for each month only.
  /// Together they write as many rows as there are records, unless another one wrote or deleted one of them meanwhile.
  /// - Parameter kept: the transactions that have a row.
  static func write(_ records: [TransactionRecord], kept: Set<String>, at instant: Date) -> [Query] {
    let known = records.filter { kept.contains($0.fact.transactionID) }
    let unknown = records.filter { !kept.contains($0.fact.transactionID) }
    return (known.isEmpty ? [] : [update(known, at: instant)])
      + (unknown.isEmpty ? [] : [insert(unknown, at: instant)])
  }

  private static func insert(_ records: [TransactionRecord], at instant: Date) -> Query {
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
      ON CONFLICT DO NOTHING
      """
  }

  /// The ledger has decided that it is the latest; that the
  /// clause at the end says so too guards the table against any other writer.
  ///
  /// The ids stand in it twice, so that every plan finds the rows by them: one that was made while the table was empty
  /// might else read all of an index, and be kept.
  private static func update(_ records: [TransactionRecord], at instant: Date) -> Query {
    let facts = records.map(\.fact)
    return """
      UPDATE transactions SET
        bundle_id = new.bundle_id, environment = new.environment, product_id = new.product_id,
        kind = new.kind, ownership = new.ownership, purchase_date = new.purchase_date,
        original_purchase_date = new.original_purchase_date, expiry_date = new.expiry_date,
        revoked_at = new.revoked_at, is_upgraded = new.is_upgraded,
        app_account_token = new.app_account_token, app_transaction_id = new.app_transaction_id,
        price_milliunits = new.price_milliunits, currency = new.currency, signed_at = new.signed_at,
        other_claims = new.other_claims, updated_at = \(instant)::timestamptz
      FROM unnest(
        \(facts.map(\.transactionID))::text[], \(facts.map(\.bundleID))::text[],
        \(facts.map(\.environment.rawValue))::text[], \(facts.map(\.productID))::text[],
        \(facts.map(\.kind.rawValue))::text[], \(facts.map(\.ownership))::text[],
        \(facts.map(\.purchaseDate))::timestamptz[], \(facts.map(\.originalPurchaseDate))::timestamptz[],
        \(facts.map(\.expiresDate))::timestamptz[], \(facts.map(\.revocationDate))::timestamptz[],
        \(facts.map(\.isUpgraded))::boolean[], \(facts.map(\.appAccountToken))::uuid[],
        \(facts.map(\.appTransactionID))::text[], \(facts.map(\.priceMilliunits))::bigint[],
        \(facts.map(\.currency))::text[], \(facts.map(\.signedAt))::timestamptz[],
        \(records.map(\.otherClaims))::jsonb[])
      AS new (transaction_id, bundle_id, environment, product_id, kind, ownership, purchase_date,
        original_purchase_date, expiry_date, revoked_at, is_upgraded, app_account_token, app_transaction_id,
        price_milliunits, currency, signed_at, other_claims)
      WHERE transactions.transaction_id = ANY(\(facts.map(\.transactionID)))
        AND transactions.transaction_id = new.transaction_id AND transactions.signed_at <= new.signed_at
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
