import Foundation
import Postgres

extension KPIRows {
  /// The subscriptions that were cancelled, expired or refunded on the day, with reason, country and offer.
  static func losses(_ day: Day, asOf: Date) -> Query {
    """
    losses AS MATERIALIZED (
      SELECT 'refunded' AS loss, bundle_id, tier, product_id, country, offer,
        CASE other_claims ->> 'revocationReason' WHEN '1' THEN 'issue' WHEN '0' THEN 'other'
          ELSE coalesce(other_claims ->> 'revocationReason', 'unknown') END AS reason
      FROM refunded
      UNION ALL
      SELECT 'cancelled', latest.bundle_id, latest.tier, latest.product_id, latest.country, latest.offer,
        CASE WHEN latest.revoked_at <= change.signed_at THEN 'refund' ELSE 'customer' END
      FROM (
        SELECT DISTINCT ON (original_transaction_id) original_transaction_id, subtype, signed_at FROM notifications
        WHERE type = 'DID_CHANGE_RENEWAL_STATUS' AND environment = 'Production'
          AND signed_at >= \(day.start) AND signed_at < \(asOf)
        ORDER BY original_transaction_id, signed_at DESC, notification_uuid
      ) AS change
      CROSS JOIN LATERAL (
        SELECT s.* FROM sold s
        WHERE s.original_transaction_id = change.original_transaction_id AND s.purchase_date <= change.signed_at
        ORDER BY s.purchase_date DESC, s.transaction_id DESC LIMIT 1
      ) AS latest
      WHERE change.subtype = 'AUTO_RENEW_DISABLED'
      UNION ALL
      SELECT 'expired', s.bundle_id, s.tier, s.product_id, s.country, s.offer, coalesce((
        SELECT CASE WHEN n.type = 'DID_FAIL_TO_RENEW' THEN 'billing' ELSE CASE n.subtype
          WHEN 'VOLUNTARY' THEN 'customer' WHEN 'BILLING_RETRY' THEN 'billing'
          WHEN 'PRICE_INCREASE' THEN 'price_increase' WHEN 'PRODUCT_NOT_FOR_SALE' THEN 'not_for_sale'
          ELSE 'other' END END
        FROM notifications n
        WHERE n.original_transaction_id = s.original_transaction_id
          AND n.signed_at >= s.expiry_date - interval '24 hours' AND n.type IN ('EXPIRED', 'DID_FAIL_TO_RENEW')
        ORDER BY n.signed_at, n.notification_uuid LIMIT 1), 'unknown')
      FROM sold s
      WHERE s.renews AND s.expiry_date >= \(day.start) AND s.expiry_date < \(asOf)
        AND (s.revoked_at IS NULL OR s.revoked_at >= s.expiry_date)
        AND NOT EXISTS (
          SELECT FROM taken n
          WHERE n.original_transaction_id = s.original_transaction_id
            AND n.purchase_date > s.purchase_date AND n.purchase_date < \(asOf))
    ),
    """
  }
}
