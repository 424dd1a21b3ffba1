import Foundation
import Postgres

/// The queries on `kpi_daily_figures` and `kpi_daily_money`. The comments of the view `kpi_daily` explain each number.
///
/// The queries read only facts that do not change with time (transactions, notifications, trials). So counting a day again
/// gives the same numbers, except for facts that arrived later.
enum KPIRows {
  static func delete(_ day: Day) -> [Query] {
    [
      "DELETE FROM kpi_daily_figures WHERE day = \(day.description)::text::date",
      "DELETE FROM kpi_daily_money WHERE day = \(day.description)::text::date",
    ]
  }

  /// Counts a day as of an instant in it, or as of its end. It is one statement, so that all numbers have one snapshot.
  static func count(_ day: Day, asOf: Date, _ prices: PriceList) -> Query {
    """
    WITH products AS MATERIALIZED (
      SELECT * FROM unnest(\(prices.products.map(\.bundleID))::text[], \(prices.products.map(\.name))::text[],
        \(prices.products.map(\.tier))::text[], \(prices.products.map(\.accessDays))::integer[])
        AS p (bundle_id, product_id, tier, access_days)
    ), prices AS MATERIALIZED (
      SELECT * FROM unnest(\(prices.prices.map(\.bundleID))::text[], \(prices.prices.map(\.name))::text[],
        \(prices.prices.map(\.currency))::text[], \(prices.prices.map(\.milliunits))::bigint[],
        \(prices.prices.map(\.isDefault))::boolean[])
        AS p (bundle_id, product_id, currency, milliunits, is_default)
    ),
    -- Production purchases by the purchaser; family members' transactions do not count.
    taken AS NOT MATERIALIZED (
      SELECT t.*, t.kind = 'Auto-Renewable Subscription' AS renews,
        \(PaidTransaction.isRestored) AS is_restored, \(PaidTransaction.condition) AS is_paid
      FROM transactions t
      WHERE t.environment = 'Production' AND t.ownership = 'PURCHASED'
    ),
    sold AS NOT MATERIALIZED (
      SELECT t.transaction_id, t.original_transaction_id, t.bundle_id, t.app_transaction_id, t.kind, t.renews,
        t.is_restored, t.is_paid, t.is_upgraded, t.purchase_date, t.expiry_date, t.revoked_at, t.other_claims,
        coalesce(p.tier, '') AS tier, t.purchase_date + p.access_days * interval '24 hours' AS access_ends_at,
        coalesce(c.currency, t.currency) AS currency,
        coalesce(c.milliunits, t.price_milliunits) / 1000.0 AS price
      FROM taken t
      LEFT JOIN products p ON p.bundle_id = t.bundle_id AND p.product_id = t.product_id
      -- The configured price, for transactions without a price of Apple's.
      LEFT JOIN prices c ON c.bundle_id = t.bundle_id AND c.product_id = t.product_id
        AND (t.price_milliunits IS NULL OR t.currency IS NULL)
        AND CASE WHEN t.currency IS NULL THEN c.is_default ELSE c.currency = t.currency END
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
      SELECT * FROM sold s WHERE s.revoked_at >= \(day.start) AND s.revoked_at < \(asOf)
        AND NOT (s.is_restored AND EXISTS (
          SELECT FROM taken o WHERE o.transaction_id = s.original_transaction_id AND o.revoked_at IS NOT NULL))
    ),
    -- As of the last instant: a purchase that ends with the day is active, one that begins with the next day is not.
    active AS MATERIALIZED (
      SELECT DISTINCT ON (s.original_transaction_id) s.original_transaction_id, s.bundle_id, s.tier, s.renews,
        s.is_paid, s.currency, s.price,
        round(extract(epoch FROM s.expiry_date - s.purchase_date) / 86400 / 30.4375) AS months,
        extract(epoch FROM s.expiry_date - s.purchase_date) / 86400 AS days
      FROM sold s
      WHERE s.purchase_date < \(asOf)
        AND (s.expiry_date >= \(asOf) OR s.expiry_date IS NULL)
        AND (s.expiry_date IS NOT NULL OR s.access_ends_at IS NULL OR s.access_ends_at >= \(asOf))
        AND (s.revoked_at IS NULL OR s.revoked_at >= \(asOf))
        AND s.kind <> 'Consumable'
        -- A purchase that an upgrade replaced does not become active again when the upgrade is refunded.
        AND CASE WHEN s.is_upgraded THEN NOT EXISTS (
          SELECT FROM taken n
          WHERE n.original_transaction_id = s.original_transaction_id
            AND n.purchase_date > s.purchase_date AND n.purchase_date < \(asOf)) ELSE true END
      ORDER BY s.original_transaction_id, s.purchase_date DESC, s.transaction_id DESC
    ),
    cohorts AS MATERIALIZED (
      SELECT f.bundle_id, f.tier, ago.months, a.original_transaction_id IS NULL AS is_lost
      FROM sold f
      JOIN unnest(ARRAY[1, 3, 6]) AS ago (months)
        ON ((f.purchase_date AT TIME ZONE 'UTC')::date + ago.months * interval '1 month')::date
          = \(day.description)::text::date
      LEFT JOIN active a ON a.original_transaction_id = f.original_transaction_id
      WHERE f.renews AND f.is_paid
        -- Several days may have the same day one month later: the last day of a shorter month.
        AND (
          f.purchase_date >= (\(day.description)::text::date - interval '1 months') AT TIME ZONE 'UTC'
            AND f.purchase_date < (\(day.description)::text::date - interval '1 months') AT TIME ZONE 'UTC' + interval '96 hours'
          OR f.purchase_date >= (\(day.description)::text::date - interval '3 months') AT TIME ZONE 'UTC'
            AND f.purchase_date < (\(day.description)::text::date - interval '3 months') AT TIME ZONE 'UTC' + interval '96 hours'
          OR f.purchase_date >= (\(day.description)::text::date - interval '6 months') AT TIME ZONE 'UTC'
            AND f.purchase_date < (\(day.description)::text::date - interval '6 months') AT TIME ZONE 'UTC' + interval '96 hours')
        AND NOT EXISTS (
          SELECT FROM taken e
          WHERE e.original_transaction_id = f.original_transaction_id AND e.is_paid
            AND (e.purchase_date, e.transaction_id) < (f.purchase_date, f.transaction_id))
    ),
    counted AS (
      SELECT 'trials_started' AS what, bundle_id, '' AS tier, count(*) AS n FROM trials
      WHERE continues IS NULL AND environment = 'Production'
        AND started_at >= \(day.start) AND started_at < \(asOf)
      GROUP BY 2
      UNION ALL
      SELECT 'trials_started', bundle_id, tier, count(*) FROM bought
      WHERE renews AND NOT is_paid AND transaction_id = original_transaction_id GROUP BY 2, 3
      UNION ALL
      SELECT 'converted', b.bundle_id, b.tier, count(*) FROM bought b
      CROSS JOIN LATERAL (
        SELECT (
          SELECT device_id FROM subscriptions WHERE original_transaction_id = b.original_transaction_id
        ) AS device_id
      ) AS s
      WHERE b.is_first_paid AND (
        EXISTS (
          SELECT FROM taken e
          WHERE e.original_transaction_id = b.original_transaction_id AND NOT e.is_paid AND e.renews
            AND e.purchase_date < b.purchase_date)
        OR (
          EXISTS (
            SELECT FROM trials r
            WHERE r.bundle_id = b.bundle_id AND r.started_at <= b.purchase_date AND r.environment = 'Production'
              AND (r.app_transaction_id = b.app_transaction_id OR r.device_id = s.device_id))
          AND NOT EXISTS (
            SELECT FROM subscriptions o JOIN taken e USING (original_transaction_id)
            WHERE o.bundle_id = b.bundle_id
              AND (o.app_transaction_id = b.app_transaction_id OR o.device_id = s.device_id)
              AND e.is_paid AND (e.purchase_date, e.transaction_id) < (b.purchase_date, b.transaction_id))))
      GROUP BY 2, 3
      UNION ALL
      SELECT 'active', bundle_id, tier, count(*) FROM active GROUP BY 2, 3
      UNION ALL
      SELECT CASE WHEN renews AND transaction_id <> original_transaction_id THEN 'renewed' ELSE 'new' END,
        bundle_id, tier, count(*)
      FROM bought GROUP BY 1, 2, 3
      UNION ALL
      SELECT 'cancelled', latest.bundle_id, latest.tier, count(*)
      FROM (
        SELECT DISTINCT ON (original_transaction_id) original_transaction_id, subtype, signed_at FROM notifications
        WHERE type = 'DID_CHANGE_RENEWAL_STATUS' AND environment = 'Production'
          AND signed_at >= \(day.start) AND signed_at < \(asOf)
        ORDER BY original_transaction_id, signed_at DESC, notification_uuid
      ) AS change
      CROSS JOIN LATERAL (
        SELECT s.bundle_id, s.tier FROM sold s
        WHERE s.original_transaction_id = change.original_transaction_id AND s.purchase_date <= change.signed_at
        ORDER BY s.purchase_date DESC, s.transaction_id DESC LIMIT 1
      ) AS latest
      WHERE change.subtype = 'AUTO_RENEW_DISABLED'
      GROUP BY 2, 3
      UNION ALL
      SELECT 'expired', bundle_id, tier, count(*) FROM sold s
      WHERE renews AND expiry_date >= \(day.start) AND expiry_date < \(asOf)
        AND (revoked_at IS NULL OR revoked_at >= expiry_date)
        AND NOT EXISTS (
          SELECT FROM taken n
          WHERE n.original_transaction_id = s.original_transaction_id
            AND n.purchase_date > s.purchase_date AND n.purchase_date < \(asOf))
      GROUP BY 2, 3
      UNION ALL
      SELECT 'refunded', bundle_id, tier, count(*) FROM refunded GROUP BY 2, 3
      UNION ALL
      SELECT 'cohort' || months, bundle_id, tier, count(*) FROM cohorts GROUP BY 1, 2, 3
      UNION ALL
      SELECT 'lost' || months, bundle_id, tier, count(*) FROM cohorts WHERE is_lost GROUP BY 1, 2, 3
    ),
    amounts AS (
      SELECT bundle_id, tier, currency, price AS revenue, 0 AS refunds, 0 AS mrr, 0 AS paying FROM bought
      WHERE is_paid AND price IS NOT NULL AND currency IS NOT NULL
      UNION ALL
      SELECT bundle_id, tier, currency, 0, price * CASE
        WHEN jsonb_typeof(other_claims -> 'revocationPercentage') = 'number'
          -- The percentage is in thousandths of a percent.
          THEN least(greatest((other_claims ->> 'revocationPercentage')::numeric, 0), 100000) / 100000 ELSE 1 END, 0, 0
      FROM refunded
      WHERE is_paid AND price IS NOT NULL AND currency IS NOT NULL
      UNION ALL
      SELECT bundle_id, tier, currency, 0, 0,
        CASE WHEN months >= 1 THEN price / months ELSE price * 30.4375 / greatest(days, 1) END, 1
      FROM active
      WHERE is_paid AND renews AND price IS NOT NULL AND currency IS NOT NULL
    ),
    money AS (
      INSERT INTO kpi_daily_money (day, bundle_id, tier, currency, revenue, refunds, mrr, paying)
      SELECT \(day.description)::text::date, bundle_id, tier, currency, trim_scale(round(sum(revenue), 3)),
        trim_scale(round(sum(refunds), 3)), trim_scale(round(sum(mrr), 3)), sum(paying)
      FROM amounts
      GROUP BY bundle_id, tier, currency
    )
    INSERT INTO kpi_daily_figures (day, bundle_id, tier, trials_started, converted, active, new, renewed, cancelled,
      expired, refunded, month_1_cohort, month_1_lost, month_3_cohort, month_3_lost, month_6_cohort, month_6_lost)
    SELECT \(day.description)::text::date, bundle_id, tier,
      coalesce(sum(n) FILTER (WHERE what = 'trials_started'), 0),
      coalesce(sum(n) FILTER (WHERE what = 'converted'), 0),
      coalesce(sum(n) FILTER (WHERE what = 'active'), 0),
      coalesce(sum(n) FILTER (WHERE what = 'new'), 0),
      coalesce(sum(n) FILTER (WHERE what = 'renewed'), 0),
      coalesce(sum(n) FILTER (WHERE what = 'cancelled'), 0),
      coalesce(sum(n) FILTER (WHERE what = 'expired'), 0),
      coalesce(sum(n) FILTER (WHERE what = 'refunded'), 0),
      coalesce(sum(n) FILTER (WHERE what = 'cohort1'), 0), coalesce(sum(n) FILTER (WHERE what = 'lost1'), 0),
      coalesce(sum(n) FILTER (WHERE what = 'cohort3'), 0), coalesce(sum(n) FILTER (WHERE what = 'lost3'), 0),
      coalesce(sum(n) FILTER (WHERE what = 'cohort6'), 0), coalesce(sum(n) FILTER (WHERE what = 'lost6'), 0)
    FROM counted
    GROUP BY bundle_id, tier
    """
  }
}
