import Foundation
import Ledger
import Postgres
import Text

extension KPIRows {
  /// The purchases of the day, those that were active, and the subscriptions first paid for 0 to 12 months before.
  static func purchases(_ day: Day, asOf: Date, _ prices: PriceList) -> Query {
    """
    WITH products AS MATERIALIZED (
      SELECT * FROM unnest(\(prices.products.map(\.bundleID))::text[], \(prices.products.map(\.name))::text[],
        \(prices.products.map(\.productID))::text[], \(prices.products.map(\.tier))::text[],
        \(prices.products.map(\.accessDays))::integer[])
        AS p (bundle_id, name, product_id, tier, access_days)
    ), prices AS MATERIALIZED (
      SELECT * FROM unnest(\(prices.prices.map(\.bundleID))::text[], \(prices.prices.map(\.name))::text[],
        \(prices.prices.map(\.currency))::text[], \(prices.prices.map(\.milliunits))::bigint[],
        \(prices.prices.map(\.isDefault))::boolean[])
        AS p (bundle_id, name, currency, milliunits, is_default)
    ),
    -- Production purchases by the purchaser; family members' transactions do not count.
    taken AS NOT MATERIALIZED (
      SELECT t.*, t.kind = 'Auto-Renewable Subscription' AS renews,
        \(PaidTransaction.isRestored) AS is_restored, \(PaidTransaction.condition) AS is_paid
      FROM transactions t
      WHERE t.environment = 'Production' AND t.ownership = 'PURCHASED'
    ),
    priced AS NOT MATERIALIZED (
      SELECT t.transaction_id, t.original_transaction_id, t.bundle_id, t.app_transaction_id, t.kind, t.renews,
        t.is_restored, t.is_paid, t.is_upgraded, t.purchase_date, t.expiry_date, t.revoked_at, t.other_claims,
        coalesce(p.tier, '') AS tier, coalesce(p.product_id, t.product_id) AS product_id,
        t.product_id AS store_product_id, t.purchase_date + p.access_days * interval '24 hours' AS access_ends_at,
        date_part('epoch', t.expiry_date - t.purchase_date) / 86400 / 30.4375 AS months,
        coalesce(c.currency, t.currency) AS currency,
        round(coalesce(c.milliunits, t.price_milliunits) / 1000.0,
          receiptd_currency_digits(coalesce(c.currency, t.currency))) AS price
      FROM taken t
      LEFT JOIN products p ON p.bundle_id = t.bundle_id AND p.name = t.product_id
      -- The configured price, for transactions without a price of Apple's.
      LEFT JOIN prices c ON c.bundle_id = t.bundle_id AND c.name = t.product_id
        AND (t.price_milliunits IS NULL OR t.currency IS NULL)
        AND CASE WHEN t.currency IS NULL THEN c.is_default ELSE c.currency = t.currency END
    ),
    sold AS NOT MATERIALIZED (
      SELECT s.*,
        -- The price for one month, of a paid subscription that renews.
        CASE WHEN s.renews AND s.is_paid AND s.months IS NOT NULL THEN round(
          CASE WHEN s.months >= 0.5 THEN s.price / greatest(round(s.months), 1)::integer
            ELSE s.price * 30.4375 / greatest(s.months * 30.4375, 1)::numeric END,
          receiptd_currency_digits(s.currency)) END AS monthly,
        coalesce(s.other_claims ->> 'storefront', '') AS country,
        CASE s.other_claims ->> 'offerType' WHEN '1' THEN 'introductory' WHEN '2' THEN 'promotional'
          WHEN '3' THEN 'code' WHEN '4' THEN 'win_back' ELSE coalesce(s.other_claims ->> 'offerType', '') END
          || coalesce(':' || (s.other_claims ->> 'offerIdentifier'), '') AS offer
      FROM priced s
    ),
    bought AS MATERIALIZED (
      SELECT s.*, s.is_paid AND NOT EXISTS (
        SELECT FROM taken e
        WHERE e.original_transaction_id = s.original_transaction_id AND e.is_paid
          AND (e.purchase_date, e.transaction_id) < (s.purchase_date, s.transaction_id)) AS is_first_paid
      FROM sold s
      WHERE s.purchase_date >= \(day.start) AND s.purchase_date < \(asOf) AND NOT s.is_restored
    ),
    refunded AS MATERIALIZED (
      SELECT s.*, round(s.price * CASE
        WHEN jsonb_typeof(s.other_claims -> 'revocationPercentage') = 'number'
          -- The percentage is in thousandths of a percent.
          THEN least(greatest((s.other_claims ->> 'revocationPercentage')::numeric, 0), 100000) / 100000 ELSE 1 END,
        receiptd_currency_digits(s.currency)) AS refund
      FROM sold s WHERE s.revoked_at >= \(day.start) AND s.revoked_at < \(asOf)
        -- Of a restored purchase the App Store may sign the refund on several transactions.
        AND NOT (s.is_restored AND EXISTS (
          SELECT FROM taken o
          WHERE o.original_transaction_id = s.original_transaction_id AND o.revoked_at IS NOT NULL
            AND CASE WHEN s.renews THEN o.purchase_date = s.purchase_date AND o.product_id = s.store_product_id
              AND o.transaction_id < s.transaction_id
              ELSE o.transaction_id = s.original_transaction_id END))
    ),
    -- The active subscriptions by plan.
    standing AS MATERIALIZED (
      SELECT bundle_id, tier, product_id, currency,
        CASE WHEN is_endless THEN 'lifetime' WHEN NOT renews THEN 'non_renewing' WHEN is_paid THEN 'paying'
          ELSE 'in_trial' END AS plan,
        count(*) AS subscriptions, count(monthly) AS priced, sum(monthly) AS mrr
      FROM (
        SELECT DISTINCT ON (s.original_transaction_id) s.bundle_id, s.tier, s.product_id, s.renews, s.is_paid, s.currency,
          s.monthly, s.revoked_at, s.expiry_date IS NULL AND s.access_ends_at IS NULL AS is_endless
        FROM sold s
        WHERE \(isRunning(at: asOf))
        ORDER BY s.original_transaction_id, \(latestFirst)
      ) AS latest
      WHERE revoked_at IS NULL OR revoked_at >= \(asOf)
      GROUP BY 1, 2, 3, 4, 5
    ),
    -- Subscriptions that may differ between the start and the end of the day.
    touched AS MATERIALIZED (
      SELECT original_transaction_id FROM bought WHERE renews
      UNION SELECT original_transaction_id FROM taken
      WHERE renews AND expiry_date >= \(day.start) AND expiry_date < \(asOf)
      UNION SELECT original_transaction_id FROM taken
      WHERE renews AND revoked_at >= \(day.start) AND revoked_at < \(asOf)
    ),
    started AS MATERIALIZED (
      \(paying(at: day.start))
    ),
    ended AS MATERIALIZED (
      \(paying(at: asOf))
    ),
    cohorts AS MATERIALIZED (
      SELECT f.bundle_id, f.tier, f.product_id, ago.months, coalesce((
        SELECT s.revoked_at IS NULL OR s.revoked_at >= \(asOf) FROM sold s
        WHERE s.original_transaction_id = f.original_transaction_id AND \(isRunning(at: asOf))
        ORDER BY \(latestFirst) LIMIT 1), false) AS is_kept
      FROM generate_series(0, 12) AS ago (months)
      CROSS JOIN LATERAL (
        SELECT (\(day.description)::text::date - ago.months * interval '1 month')::date AS day
      ) AS first
      -- Several days may have the same day one month later: the last day of a shorter month.
      JOIN sold f ON f.purchase_date >= first.day::timestamp AT TIME ZONE 'UTC'
        AND f.purchase_date < first.day::timestamp AT TIME ZONE 'UTC' + interval '96 hours'
        AND f.purchase_date < \(asOf)
        AND ((f.purchase_date AT TIME ZONE 'UTC')::date + ago.months * interval '1 month')::date = \(day.description)::text::date
      WHERE f.renews AND f.is_paid AND NOT EXISTS (
        SELECT FROM taken e
        WHERE e.original_transaction_id = f.original_transaction_id AND e.is_paid
          AND (e.purchase_date, e.transaction_id) < (f.purchase_date, f.transaction_id))
    ),
    """
  }

  /// Whether the period of a row of `sold` under the alias `s` ran at an instant. The latest such row of a subscription
  /// counts: if it was refunded, the subscription is not active.
  ///
  /// It is as of the last instant before: a purchase that ends with the day is active, one that begins with the next
  /// day is not.
  private static func isRunning(at instant: Date) -> Query {
    """
    s.purchase_date < \(instant)
        AND (s.expiry_date >= \(instant) OR s.expiry_date IS NULL)
        AND (s.expiry_date IS NOT NULL OR s.access_ends_at IS NULL OR s.access_ends_at >= \(instant))
        AND s.kind <> 'Consumable'
        -- A purchase that an upgrade replaced does not become active again when the upgrade ends.
        AND CASE WHEN s.is_upgraded THEN NOT EXISTS (
          SELECT FROM taken n
          WHERE n.original_transaction_id = s.original_transaction_id
            AND n.purchase_date > s.purchase_date AND n.purchase_date < \(instant)) ELSE true END
    """
  }

  /// The order of the rows of `sold` under the alias `s` of one purchase: the latest first. A refund of a period may be
  /// signed on any of its transactions.
  private static let latestFirst: Query =
    "s.purchase_date DESC, s.is_upgraded, s.revoked_at, s.transaction_id DESC"

  /// The rows of `touched` whose subscription was paying at an instant.
  private static func paying(at instant: Date) -> Query {
    """
    SELECT c.original_transaction_id, p.* FROM touched c CROSS JOIN LATERAL (
        SELECT s.bundle_id, s.tier, s.product_id, s.currency, s.monthly, s.is_paid, s.revoked_at FROM sold s
        WHERE s.original_transaction_id = c.original_transaction_id AND \(isRunning(at: instant))
        ORDER BY \(latestFirst) LIMIT 1) AS p
      WHERE p.is_paid AND (p.revoked_at IS NULL OR p.revoked_at >= \(instant))
    """
  }
}
