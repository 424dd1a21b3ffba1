import AppStore
import Customers
import FoundationEssentials
import Postgres
import Subscriptions
import Text

/// A signed transaction as the ledger stores it: the claims that the rules need in columns, the others as JSON.
package struct TransactionRecord: Sendable {
  package var fact: TransactionFact
  /// Whether it is an automatic renewal (Apple's `transactionReason`) and not a purchase.
  package var isRenewal: Bool
  /// The reason and extent of a refund.
  package var revocation: Revocation
  /// The claims without a column, as a JSON object; `nil` if there are none.
  package var otherClaims: JSONText?
  /// Whether the row keeps its other claims: this signature is older than the row's and adds its token alone.
  var keepsOtherClaims = false

  /// - Throws: ``UnsupportedEnvironment/environment`` for an environment that the rules do not know.
  package init(_ signed: Signed<TransactionInfo>) throws(UnsupportedEnvironment) {
    fact = try TransactionFact(signed.payload)
    isRenewal = signed.payload.transactionReason == .renewal
    revocation = Revocation(signed.payload)
    otherClaims = Self.claimsWithColumns.remainder(of: signed.payloadBytes)
  }

  private static let claimsWithColumns: ColumnNames = [
    "transactionId", "originalTransactionId", "bundleId", "environment", "productId", "type",
    "inAppOwnershipType", "purchaseDate", "originalPurchaseDate", "expiresDate", "revocationDate",
    "isUpgraded", "appAccountToken", "appTransactionId", "price", "currency", "signedDate",
  ]
}

/// The reason and extent of a refund or revocation.
package struct Revocation: Sendable {
  /// Apple's `revocationReason`: 1 for an issue in the app, 0 for another reason.
  package var reason: Int?
  /// Apple's `revocationType`.
  package var type: String?
  /// Apple's `revocationPercentage`: the refunded share in thousandths of a percent.
  package var percentage: Int?

  init(_ info: TransactionInfo) {
    reason = info.revocationReason.map { Int($0.rawValue) }
    type = info.revocationType?.rawValue.storable
    percentage = info.revocationPercentage.map(Int.init)
  }
}

/// A signed renewal info as the ledger stores it.
package struct RenewalRecord: Sendable {
  package var fact: RenewalFact
  /// The price of the next period, Apple's `renewalPrice` in thousandths of the currency's unit.
  package var price: Int64?
  /// The currency of ``price`` (ISO 4217).
  package var currency: String?
  /// The claims without a column, as a JSON object; `nil` if there are none.
  package var otherClaims: JSONText?

  /// - Throws: ``UnsupportedEnvironment/environment`` for an environment that the rules do not know.
  package init(_ signed: Signed<RenewalInfo>) throws(UnsupportedEnvironment) {
    fact = try RenewalFact(signed.payload)
    price = signed.payload.renewalPrice
    currency = signed.payload.currency?.storable
    otherClaims = Self.claimsWithColumns.remainder(of: signed.payloadBytes)
  }

  private static let claimsWithColumns: ColumnNames = [
    "originalTransactionId", "environment", "productId", "autoRenewProductId", "autoRenewStatus",
    "isInBillingRetryPeriod", "gracePeriodExpiresDate", "expirationIntent", "renewalDate",
    "signedDate",
  ]
}

extension TransactionFact {
  /// The facts of a signed transaction.
  init(_ info: TransactionInfo) throws(UnsupportedEnvironment) {
    guard let environment = StoreEnvironment(rawValue: info.environment.rawValue) else {
      throw .environment
    }
    self.init(
      transactionID: info.transactionId.storable,
      originalTransactionID: info.originalTransactionId.storable, bundleID: info.bundleId.storable,
      environment: environment, productID: info.productId.storable,
      kind: PurchaseKind(rawValue: info.type?.rawValue.storable ?? ""),
      ownership: info.inAppOwnershipType?.rawValue.storable ?? "PURCHASED",
      purchaseDate: info.purchaseDate,
      originalPurchaseDate: info.originalPurchaseDate, expiresDate: info.expiresDate,
      revocationDate: info.revocationDate, isUpgraded: info.isUpgraded ?? false,
      appAccountToken: info.customerToken, appTransactionID: info.appTransactionId?.storable,
      priceMilliunits: info.price, currency: info.currency?.storable,
      isFreeOffer: info.offerDiscountType == .freeTrial, signedAt: info.signedDate)
  }
}

extension RenewalFact {
  /// The facts of a signed renewal info.
  init(_ info: RenewalInfo) throws(UnsupportedEnvironment) {
    guard let environment = StoreEnvironment(rawValue: info.environment.rawValue) else {
      throw .environment
    }
    self.init(
      originalTransactionID: info.originalTransactionId.storable, environment: environment,
      productID: info.productId?.storable ?? "", renewsAs: info.autoRenewProductId?.storable,
      willAutoRenew: info.autoRenewStatus.map { $0 == .on },
      isInBillingRetry: info.isInBillingRetryPeriod ?? false,
      graceExpiresDate: info.gracePeriodExpiresDate,
      expirationIntent: info.expirationIntent.map { Int($0.rawValue) },
      renewalDate: info.renewalDate, signedAt: info.signedDate)
  }
}

/// A signed payload of an environment other than Production and Sandbox.
package enum UnsupportedEnvironment: Error {
  case environment
}

/// The table `transactions`.
package enum TransactionRows {
  /// All transactions of these purchases, and those with these ids that belong to other purchases.
  package static func select(_ originalTransactionIDs: [String], or transactionIDs: [String]) -> Query {
    """
    SELECT \(unescaped: columns), \(PaidTransaction.isFreeOffer) AS is_free_offer FROM transactions t
    WHERE original_transaction_id = ANY(\(originalTransactionIDs))
    UNION ALL
    SELECT \(unescaped: columns), \(PaidTransaction.isFreeOffer) FROM transactions t
    WHERE transaction_id = ANY(\(transactionIDs))
      AND original_transaction_id <> ALL(\(originalTransactionIDs))
    """
  }

  /// Whether a transaction or a purchase with this id is stored: one row with a boolean.
  package static func isKnown(_ id: String) -> Query {
    """
    SELECT EXISTS (SELECT FROM transactions WHERE transaction_id = \(id))
      OR EXISTS (SELECT FROM subscriptions WHERE original_transaction_id = \(id)) AS is_known
    """
  }

  private static let columns: StaticString = """
    transaction_id, original_transaction_id, bundle_id, environment, product_id, kind, ownership,
    purchase_date, original_purchase_date, expiry_date, revoked_at, is_upgraded, app_account_token,
    app_transaction_id, price_milliunits, currency, signed_at, app_account_token_signed_at, latest_revocation,
    app_account_token_changed
    """

  package static func decode(_ row: Row) throws -> TransactionFact {
    TransactionFact(
      transactionID: try row.decode("transaction_id"),
      originalTransactionID: try row.decode("original_transaction_id"),
      bundleID: try row.decode("bundle_id"),
      environment: try StoreEnvironment(stored: row.decode("environment")),
      productID: try row.decode("product_id"), kind: PurchaseKind(rawValue: try row.decode("kind")),
      ownership: try row.decode("ownership"), purchaseDate: try row.decode("purchase_date"),
      originalPurchaseDate: try row.decode("original_purchase_date"),
      expiresDate: try row.decode("expiry_date"),
      revocationDate: try row.decode("revoked_at"), isUpgraded: try row.decode("is_upgraded"),
      appAccountToken: try row.decode("app_account_token"),
      appTransactionID: try row.decode("app_transaction_id"),
      priceMilliunits: try row.decode("price_milliunits"), currency: try row.decode("currency"),
      isFreeOffer: try row.decode("is_free_offer"), signedAt: try row.decode("signed_at"),
      tokenSignedAt: try row.decode("app_account_token_signed_at"),
      latestRevocation: try row.decode("latest_revocation"),
      isTokenChanged: try row.decode("app_account_token_changed"))
  }

  /// Inserts transactions that had no row when the ledger read them.
  ///
  /// - Throws: a unique violation (23505) where another server has written one of them since.
  static func insert(_ records: [TransactionRecord], at instant: Date) -> Query {
    let facts = records.map(\.fact)
    return """
      INSERT INTO transactions (transaction_id, original_transaction_id, bundle_id, environment,
        product_id, kind, ownership, purchase_date, original_purchase_date, expiry_date, revoked_at,
        is_upgraded, app_account_token, app_transaction_id, price_milliunits, currency, signed_at,
        app_account_token_signed_at, latest_revocation, app_account_token_changed, other_claims, first_seen_at, updated_at)
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
        \(each: facts.map { $0.latestRevocation }), \(each: facts.map { $0.isTokenChanged }),
        \(each: records.map { $0.otherClaims }))) AS new
      """
  }

  /// Updates stored transactions. The ledger has chosen the newer signature; the condition on `signed_at` guards
  /// against other writers. Fewer updated rows than records mean that a row was changed or deleted since.
  ///
  /// `= ANY(ids)` repeats the join's ids so that every generic plan starts from them, also one made on an empty table.
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
        app_account_token_signed_at = new.app_account_token_signed_at, latest_revocation = new.latest_revocation,
        app_account_token_changed = new.app_account_token_changed,
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
        \(each: facts.map { $0.earlierTokenSignedAt }), \(each: facts.map { $0.latestRevocation }),
        \(each: facts.map { $0.isTokenChanged }),
        \(each: records.map { $0.otherClaims }),
        \(each: records.map { $0.keepsOtherClaims })))
      AS new (transaction_id, bundle_id, environment, product_id, kind, ownership, purchase_date,
        original_purchase_date, expiry_date, revoked_at, is_upgraded, app_account_token, app_transaction_id,
        price_milliunits, currency, signed_at, app_account_token_signed_at, latest_revocation,
        app_account_token_changed, other_claims,
        keeps_other_claims)
      WHERE transactions.transaction_id = ANY(\(facts.map { $0.transactionID }))
        AND transactions.transaction_id = new.transaction_id AND transactions.signed_at <= new.signed_at
      """
  }
}

extension TransactionFact {
  /// The column `app_account_token_signed_at`: NULL where the latest signature carries the token itself.
  fileprivate var earlierTokenSignedAt: Date? { tokenSignedAt == signedAt ? nil : tokenSignedAt }
}

/// The table `renewals`.
package enum RenewalRows {
  /// The renewal infos of these purchases.
  package static func select(_ originalTransactionIDs: [String]) -> Query {
    """
    SELECT original_transaction_id, environment, product_id, renews_as, will_auto_renew,
      is_in_billing_retry, grace_expires_at, expiration_intent, renewal_date, signed_at
    FROM renewals
    WHERE original_transaction_id = ANY(\(originalTransactionIDs))
    """
  }

  package static func decode(_ row: Row) throws -> RenewalFact {
    RenewalFact(
      originalTransactionID: try row.decode("original_transaction_id"),
      environment: try StoreEnvironment(stored: row.decode("environment")),
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
