import FoundationEssentials
import Postgres
import Subscriptions

/// The table `transactions`.
enum TransactionRows {
  /// All transactions of these purchases, and those of these ids that are known as part of others.
  static func select(_ originalTransactionIDs: [String], or transactionIDs: [String]) -> Query {
    """
    SELECT \(unescaped: columns) FROM transactions
    WHERE original_transaction_id = ANY(\(originalTransactionIDs))
    UNION ALL
    SELECT \(unescaped: columns) FROM transactions
    WHERE transaction_id = ANY(\(transactionIDs))
      AND original_transaction_id <> ALL(\(originalTransactionIDs))
    """
  }

  /// Whether a transaction or an original transaction with this id was ever taken in: one row with a boolean.
  static func isKnown(_ id: String) -> Query {
    """
    SELECT EXISTS (SELECT FROM transactions WHERE transaction_id = \(id))
      OR EXISTS (SELECT FROM subscriptions WHERE original_transaction_id = \(id))
    """
  }

  private static let columns: StaticString = """
    transaction_id, original_transaction_id, bundle_id, environment, product_id, kind, ownership,
    purchase_date, original_purchase_date, expiry_date, revoked_at, is_upgraded, app_account_token,
    app_transaction_id, price_milliunits, currency, signed_at, app_account_token_signed_at
    """

  static func decode(_ row: Row) throws -> TransactionFact {
    TransactionFact(
      transactionID: try row.decode(0), originalTransactionID: try row.decode(1),
      bundleID: try row.decode(2), environment: try environment(row.decode(3)),
      productID: try row.decode(4), kind: PurchaseKind(rawValue: try row.decode(5)),
      ownership: try row.decode(6), purchaseDate: try row.decode(7),
      originalPurchaseDate: try row.decode(8), expiresDate: try row.decode(9),
      revocationDate: try row.decode(10), isUpgraded: try row.decode(11),
      appAccountToken: try row.decode(12), appTransactionID: try row.decode(13),
      priceMilliunits: try row.decode(14), currency: try row.decode(15), signedAt: try row.decode(16),
      tokenSignedAt: try row.decode(17))
  }

  /// Writes the latest word on each.
  ///
  /// A row that is new and a change of one that is there are two statements. `ON CONFLICT DO UPDATE` would be one, but
  /// needs a unique index of the whole table, and a table that is divided into months has one for each month only.
  /// - Throws: what comes of it: a unique violation (23505), where another one wrote one of them meanwhile.
  static func insert(_ records: [TransactionRecord], at instant: Date) -> Query {
    let facts = records.map(\.fact)
    return """
      INSERT INTO transactions (transaction_id, original_transaction_id, bundle_id, environment,
        product_id, kind, ownership, purchase_date, original_purchase_date, expiry_date, revoked_at,
        is_upgraded, app_account_token, app_transaction_id, price_milliunits, currency, signed_at,
        app_account_token_signed_at, other_claims, first_seen_at, updated_at)
      SELECT new.*, \(instant)::timestamptz, \(instant)::timestamptz FROM \(rows: records.count)
        \(each: facts.map { $0.transactionID }), \(each: facts.map { $0.originalTransactionID }),
        \(each: facts.map { $0.bundleID }), \(each: facts.map { $0.environment.rawValue }),
        \(each: facts.map { $0.productID }), \(each: facts.map { $0.kind.rawValue }),
        \(each: facts.map { $0.ownership }), \(each: facts.map { $0.purchaseDate }),
        \(each: facts.map { $0.originalPurchaseDate }), \(each: facts.map { $0.expiresDate }),
        \(each: facts.map { $0.revocationDate }), \(each: facts.map { $0.isUpgraded }),
        \(each: facts.map { $0.appAccountToken }), \(each: facts.map { $0.appTransactionID }),
        \(each: facts.map { $0.priceMilliunits }), \(each: facts.map { $0.currency }),
        \(each: facts.map { $0.signedAt }), \(each: facts.map { $0.earlierTokenSignedAt }),
        \(each: records.map { $0.otherClaims }))) AS new
      """
  }

  /// The ledger has decided that it is the latest; that the
  /// clause at the end says so too guards the table against any other writer: then it changes fewer rows than there are
  /// records, as it does where a row was deleted meanwhile.
  ///
  /// The ids stand in it twice, so that every plan finds the rows by them: one that was made while the table was empty
  /// might else read all of an index, and be kept.
  static func update(_ records: [TransactionRecord], at instant: Date) -> Query {
    let facts = records.map(\.fact)
    return """
      UPDATE transactions SET
        bundle_id = new.bundle_id, environment = new.environment, product_id = new.product_id,
        kind = new.kind, ownership = new.ownership, purchase_date = new.purchase_date,
        original_purchase_date = new.original_purchase_date, expiry_date = new.expiry_date,
        revoked_at = new.revoked_at, is_upgraded = new.is_upgraded,
        app_account_token = new.app_account_token, app_transaction_id = new.app_transaction_id,
        price_milliunits = new.price_milliunits, currency = new.currency, signed_at = new.signed_at,
        app_account_token_signed_at = new.app_account_token_signed_at,
        other_claims = CASE WHEN new.keeps_other_claims THEN transactions.other_claims ELSE new.other_claims END,
        updated_at = \(instant)::timestamptz
      FROM \(rows: records.count)
        \(each: facts.map { $0.transactionID }), \(each: facts.map { $0.bundleID }),
        \(each: facts.map { $0.environment.rawValue }), \(each: facts.map { $0.productID }),
        \(each: facts.map { $0.kind.rawValue }), \(each: facts.map { $0.ownership }),
        \(each: facts.map { $0.purchaseDate }), \(each: facts.map { $0.originalPurchaseDate }),
        \(each: facts.map { $0.expiresDate }), \(each: facts.map { $0.revocationDate }),
        \(each: facts.map { $0.isUpgraded }), \(each: facts.map { $0.appAccountToken }),
        \(each: facts.map { $0.appTransactionID }), \(each: facts.map { $0.priceMilliunits }),
        \(each: facts.map { $0.currency }), \(each: facts.map { $0.signedAt }),
        \(each: facts.map { $0.earlierTokenSignedAt }), \(each: records.map { $0.otherClaims }),
        \(each: records.map { $0.keepsOtherClaims })))
      AS new (transaction_id, bundle_id, environment, product_id, kind, ownership, purchase_date,
        original_purchase_date, expiry_date, revoked_at, is_upgraded, app_account_token, app_transaction_id,
        price_milliunits, currency, signed_at, app_account_token_signed_at, other_claims, keeps_other_claims)
      WHERE transactions.transaction_id = ANY(\(facts.map { $0.transactionID }))
        AND transactions.transaction_id = new.transaction_id AND transactions.signed_at <= new.signed_at
      """
  }
}

extension TransactionFact {
  /// The column `app_account_token_signed_at`: NULL where the latest signature carries the token itself.
  fileprivate var earlierTokenSignedAt: Date? { tokenSignedAt == signedAt ? nil : tokenSignedAt }
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
