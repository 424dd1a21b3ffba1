import Crypto
import Customers
import Foundation
import Postgres
import Subscriptions

/// The statements that reduce the kept facts of purchases to what tells nothing of the customer.
///
/// The ledger runs them in the transaction that stores a later fact of such a purchase, so no commit has a raw payload.
/// Once the purchase has an owner again, what the App Store signs is of a new customer, and stays.
package enum ImpersonalFacts {
  /// - Parameter includesWaiting: whether notifications that wait for a replay are reduced too, which ends their wait.
  package static func reduce(_ purchases: [String], includesWaiting: Bool, at instant: Date) -> [Query] {
    [
      transactions(purchases), renewals(purchases), notifications(purchases, includesWaiting, at: instant),
      forwards(purchases),
    ]
  }

  package static func transactions(_ purchases: [String]) -> Query {
    """
    UPDATE transactions t SET other_claims = receiptd_impersonal_claims(t.other_claims::text),
      app_transaction_id = CASE
        WHEN s.erased_as IS NULL OR receiptd_has_account(t.bundle_id, t.app_transaction_id) THEN t.app_transaction_id
        ELSE receiptd_erased_account(t.app_transaction_id) END
    FROM subscriptions s
    WHERE t.original_transaction_id = ANY(\(purchases)) AND s.original_transaction_id = t.original_transaction_id
    """
  }

  package static func renewals(_ purchases: [String]) -> Query {
    """
    UPDATE renewals SET other_claims = receiptd_impersonal_claims(other_claims::text)
    WHERE original_transaction_id = ANY(\(purchases))
    """
  }

  /// Removes the tokens of erased customers from the renewal infos of purchases that have an owner again. (Transactions
  /// have the token in a column: see ``PurchaseErasure/stripped(_:)``.)
  package static func renewalsWithoutTokens(_ purchases: [String]) -> Query {
    """
    UPDATE renewals r SET other_claims = r.other_claims - 'appAccountToken'
    FROM subscriptions s
    WHERE r.original_transaction_id = ANY(\(purchases)) AND s.original_transaction_id = r.original_transaction_id
      AND encode(sha256(convert_to(lower(r.other_claims ->> 'appAccountToken'), 'UTF8')), 'hex') = ANY(s.erased_tokens)
    """
  }

  package static func notifications(_ purchases: [String], _ includesWaiting: Bool, at instant: Date) -> Query
  {
    """
    \(reduceNotifications(at: instant))
    WHERE original_transaction_id = ANY(\(purchases)) AND envelope_claims <> '{}'
      AND (processed_at IS NOT NULL OR \(includesWaiting))
    """
  }

  /// Notifications that waited and will not be processed any more.
  package static func waitingNotifications(_ uuids: [UUID], at instant: Date) -> Query {
    """
    \(reduceNotifications(at: instant))
    WHERE notification_uuid = ANY(\(uuids)) AND processed_at IS NULL
    """
  }

  /// The rows that would forward reduced notifications, which have no signature.
  package static func forwards(_ purchases: [String], or uuids: [UUID] = []) -> Query {
    """
    DELETE FROM outbox WHERE id = ANY(ARRAY(
      SELECT id FROM outbox WHERE destination = 'notification' AND key = ANY(ARRAY(
        SELECT notification_uuid::text FROM notifications
        WHERE (original_transaction_id = ANY(\(purchases)) OR notification_uuid = ANY(\(uuids)))
          AND envelope_claims = '{}'))
      ORDER BY destination, key, bundle_id, endpoint FOR UPDATE))
    """
  }

  private static func reduceNotifications(at instant: Date) -> Query {
    """
    UPDATE notifications SET
      outcome = CASE WHEN processed_at IS NULL THEN 'erased' ELSE outcome END,
      processed_at = coalesce(processed_at, \(instant)), failure = NULL, failure_detail = NULL,
      envelope_claims = '{}', envelope_signature = '',
      transaction_header = NULL, transaction_signature = NULL,
      transaction_claims = receiptd_impersonal_claims(transaction_claims)::text,
      renewal_header = NULL, renewal_signature = NULL,
      renewal_claims = receiptd_impersonal_claims(renewal_claims)::text
    """
  }

  /// The subscription's own copy of the account.
  package static func subscriptions(_ purchases: [String]) -> Query {
    """
    UPDATE subscriptions SET app_transaction_id = receiptd_erased_account(app_transaction_id)
    WHERE original_transaction_id = ANY(\(purchases)) AND erased_as IS NOT NULL
      AND NOT receiptd_has_account(bundle_id, app_transaction_id)
    """
  }

  /// Replaces the Apple Accounts of erased customers by their digests, where no customer has them any more.
  package static func accounts(_ accounts: [String]) -> [Query] {
    [
      """
      UPDATE trials SET app_transaction_id = receiptd_erased_account(app_transaction_id)
      WHERE app_transaction_id = ANY(\(accounts)) AND NOT receiptd_has_account(bundle_id, app_transaction_id)
      """,
      """
      UPDATE transactions SET app_transaction_id = receiptd_erased_account(app_transaction_id)
      WHERE original_transaction_id IN (
          SELECT original_transaction_id FROM subscriptions
          WHERE app_transaction_id = ANY(\(accounts)) AND erased_as IS NOT NULL)
        AND NOT receiptd_has_account(bundle_id, app_transaction_id)
      """,
      """
      UPDATE subscriptions SET app_transaction_id = receiptd_erased_account(app_transaction_id)
      WHERE app_transaction_id = ANY(\(accounts)) AND erased_as IS NOT NULL
        AND NOT receiptd_has_account(bundle_id, app_transaction_id)
      """,
    ]
  }
}

extension PurchaseErasure {
  /// A signed transaction without its token, if the token must not decide about the owner: if it is of an erased user, if
  /// it was signed before the owner was erased, or if it was stored then and the transaction is older than the erasure.
  func stripped(_ record: TransactionRecord) -> TransactionRecord {
    guard let token = record.fact.appAccountToken else { return record }
    let digest = Self.digest(of: token)
    let isFormer = tokenDigests.contains(Self.beforeErasure + digest)
    let erasedAt = ownerErasedAt ?? .distantPast
    let isBefore = record.fact.signedAt <= erasedAt || isFormer && record.fact.purchaseDate <= erasedAt
    guard tokenDigests.contains(digest) || isBefore else { return record }
    var record = record
    record.fact.appAccountToken = nil
    record.fact.tokenSignedAt = nil
    return record
  }
}
