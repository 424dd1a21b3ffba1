import Foundation
import Ledger
import Postgres
import Text

/// The queries on the tables that have the figures of a day. The comments of their columns and of the views, such as
/// `kpi_daily`, explain each number.
///
/// The queries read only facts that do not change with time (transactions, notifications, trials). So counting a day
/// again gives the same numbers, except for facts that arrived later.
enum KPIRows {
  private static let tables: [StaticString] = [
    "kpi_daily_figures", "kpi_daily_money", "kpi_daily_cohorts", "kpi_daily_trials", "kpi_daily_value",
    "kpi_daily_prices", "kpi_losses_daily",
  ]

  /// Deletes what was counted of a day.
  static func delete(_ day: Day) -> [Query] {
    tables.map { "DELETE FROM \(unescaped: $0) WHERE day = \(day.description)::text::date" }
  }

  /// Counts a day as of an instant in it, or as of its end. It is one statement, so that all numbers have one snapshot.
  static func count(_ day: Day, asOf: Date, _ prices: PriceList) -> Query {
    """
    \(purchases(day, asOf: asOf, prices))
    \(trials(day, asOf: asOf))
    \(losses(day, asOf: asOf))
    \(money(day))
    \(figures(day, asOf: asOf))
    """
  }
}

extension KPIRows {
  /// What happened to trials on the day.
  static func trials(_ day: Day, asOf: Date) -> Query {
    """
    -- The App Store's trials: free first periods.
    free_first AS NOT MATERIALIZED (
      SELECT s.* FROM sold s
      WHERE s.renews AND NOT s.is_paid AND s.transaction_id = s.original_transaction_id
    ),
    own_trials AS NOT MATERIALIZED (
      SELECT r.*, \(PaidTransaction.firstOfTrial) AS paid_at FROM trials r
      WHERE r.continues IS NULL AND r.environment = 'Production'
    ),
    -- One row for a trial that became paid on the day. The tier and the product are those of the purchase, and of the trial.
    conversions AS MATERIALIZED (
      SELECT b.bundle_id, b.tier, b.product_id, f.tier AS trial_tier, f.product_id AS trial_product_id,
        f.purchase_date AS started_at, f.expiry_date AS ends_at, b.purchase_date AS paid_at
      FROM bought b JOIN free_first f ON f.transaction_id = b.original_transaction_id
      WHERE b.is_first_paid
      UNION ALL
      SELECT b.bundle_id, b.tier, b.product_id, '', '', r.started_at, r.ends_at, b.purchase_date
      FROM bought b
      CROSS JOIN LATERAL (
        SELECT (
          SELECT coalesce(erased_as, device_id) FROM subscriptions WHERE original_transaction_id = b.original_transaction_id
        ) AS device_id
      ) AS s
      CROSS JOIN LATERAL (
        SELECT id, started_at, ends_at, paid_at FROM own_trials
        WHERE bundle_id = b.bundle_id AND app_transaction_id = b.app_transaction_id
        UNION SELECT id, started_at, ends_at, paid_at FROM own_trials
        WHERE bundle_id = b.bundle_id AND device_id = s.device_id
      ) AS r
      WHERE b.is_first_paid AND r.started_at <= b.purchase_date AND r.paid_at = b.purchase_date
    ),
    trial_flows AS MATERIALIZED (
      SELECT bundle_id, '' AS tier, '' AS product_id, started_at, 1 AS started, 0 AS converted, 0 AS lapsed
      FROM own_trials WHERE started_at >= \(day.start) AND started_at < \(asOf)
      UNION ALL
      SELECT bundle_id, tier, product_id, purchase_date, 1, 0, 0 FROM bought
      WHERE renews AND NOT is_paid AND transaction_id = original_transaction_id
      UNION ALL
      -- A trial that had lapsed and is paid for later has lapsed no longer.
      SELECT bundle_id, trial_tier, trial_product_id, started_at, 0, 1, CASE WHEN paid_at > ends_at THEN -1 ELSE 0 END
      FROM conversions
      UNION ALL
      SELECT bundle_id, '', '', started_at, 0, 0, 1 FROM own_trials
      WHERE ends_at >= \(day.start) AND ends_at < \(asOf)
        AND coalesce(paid_at NOT BETWEEN started_at AND ends_at, true)
      UNION ALL
      SELECT f.bundle_id, f.tier, f.product_id, f.purchase_date, 0, 0, 1 FROM free_first f
      WHERE f.expiry_date >= \(day.start) AND f.expiry_date < \(asOf) AND NOT EXISTS (
        SELECT FROM taken n
        WHERE n.original_transaction_id = f.original_transaction_id AND n.is_paid
          AND n.purchase_date <= f.expiry_date)
    ),
    """
  }
}

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
        ORDER BY n.signed_at, n.notification_uuid LIMIT 1), (
        -- The notification of the end may be missing; that of the cancellation told it before.
        SELECT CASE n.subtype WHEN 'AUTO_RENEW_DISABLED' THEN 'customer' END FROM notifications n
        WHERE n.original_transaction_id = s.original_transaction_id AND n.type = 'DID_CHANGE_RENEWAL_STATUS'
          AND n.signed_at < s.expiry_date
        ORDER BY n.signed_at DESC, n.notification_uuid LIMIT 1), 'unknown')
      FROM sold s
      WHERE s.renews AND s.expiry_date >= \(day.start) AND s.expiry_date < \(asOf)
        AND (s.revoked_at IS NULL OR s.revoked_at >= s.expiry_date)
        AND NOT EXISTS (
          SELECT FROM taken n
          WHERE n.original_transaction_id = s.original_transaction_id
            AND n.purchase_date > s.purchase_date AND n.purchase_date < \(asOf))
        -- Of several transactions of the period the one that ends last counts, unless one of them was refunded.
        AND NOT EXISTS (
          SELECT FROM taken c
          WHERE c.original_transaction_id = s.original_transaction_id AND c.purchase_date = s.purchase_date
            AND c.product_id = s.store_product_id AND c.transaction_id <> s.transaction_id AND (
              c.revoked_at < s.expiry_date OR c.expiry_date > s.expiry_date
              OR c.expiry_date = s.expiry_date AND c.transaction_id < s.transaction_id))
    ),
    """
  }
}

extension KPIRows {
  /// Stores the money of the day, the movement of MRR, the money by month of the first payment, and prices.
  static func money(_ day: Day) -> Query {
    """
    -- Each subscription's part of the movement of MRR.
    moves AS MATERIALIZED (
      SELECT s.bundle_id AS bundle_id, s.tier AS old_tier, s.product_id AS old_product_id, s.currency AS old_currency,
        s.monthly AS old, e.tier AS tier, e.product_id AS product_id, e.currency AS currency, e.monthly AS monthly,
        s.currency = e.currency AS is_change
      FROM (SELECT * FROM started WHERE monthly IS NOT NULL) AS s
      JOIN (SELECT * FROM ended WHERE monthly IS NOT NULL) AS e USING (original_transaction_id)
      UNION ALL
      SELECT coalesce(s.bundle_id, e.bundle_id), s.tier, s.product_id, s.currency, s.monthly,
        e.tier, e.product_id, e.currency, e.monthly, false
      FROM (SELECT * FROM started WHERE monthly IS NOT NULL) AS s
      FULL JOIN (SELECT * FROM ended WHERE monthly IS NOT NULL) AS e USING (original_transaction_id)
      WHERE s.original_transaction_id IS NULL OR e.original_transaction_id IS NULL
    ),
    amounts AS (
      SELECT bundle_id, tier, product_id, currency, 1 AS charges, price AS revenue, 0 AS refunds, 0 AS mrr, 0 AS paying,
        0 AS fresh, 0 AS expansion, 0 AS contraction, 0 AS churn, 0 AS moved
      FROM bought WHERE is_paid AND price IS NOT NULL
      UNION ALL
      SELECT bundle_id, tier, product_id, currency, 0, 0, refund, 0, 0, 0, 0, 0, 0, 0 FROM refunded
      WHERE is_paid AND refund IS NOT NULL
      UNION ALL
      SELECT bundle_id, tier, product_id, currency, 0, 0, 0, mrr, priced, 0, 0, 0, 0, 0 FROM standing
      WHERE priced > 0
      UNION ALL
      SELECT bundle_id, tier, product_id, currency, 0, 0, 0, 0, 0, CASE WHEN is_change THEN 0 ELSE monthly END,
        CASE WHEN is_change THEN greatest(monthly - old, 0) ELSE 0 END,
        CASE WHEN is_change THEN greatest(old - monthly, 0) ELSE 0 END, 0,
        CASE WHEN is_change AND (tier, product_id) <> (old_tier, old_product_id) THEN old ELSE 0 END
      FROM moves WHERE monthly IS NOT NULL
      UNION ALL
      SELECT bundle_id, old_tier, old_product_id, old_currency, 0, 0, 0, 0, 0, 0, 0, 0,
        CASE WHEN is_change THEN 0 ELSE old END,
        CASE WHEN is_change AND (tier, product_id) <> (old_tier, old_product_id) THEN -old ELSE 0 END
      FROM moves WHERE old IS NOT NULL
    ),
    money AS (
      INSERT INTO kpi_daily_money (day, bundle_id, tier, product_id, currency, charges, revenue, refunds, mrr, paying,
        mrr_start, mrr_new, mrr_expansion, mrr_contraction, mrr_churn, mrr_moved)
      SELECT \(day.description)::text::date, bundle_id, tier, product_id, currency, sum(charges), sum(revenue), sum(refunds), sum(mrr),
        sum(paying), sum(mrr - fresh - expansion + contraction + churn - moved), sum(fresh), sum(expansion),
        sum(contraction), sum(churn), sum(moved)
      FROM amounts WHERE currency IS NOT NULL
      GROUP BY bundle_id, tier, product_id, currency
    ),
    value AS (
      INSERT INTO kpi_daily_value (day, bundle_id, tier, product_id, currency, cohort, customers, revenue, refunds)
      SELECT \(day.description)::text::date, p.bundle_id, f.tier, f.product_id, p.currency,
        date_trunc('month', f.purchase_date AT TIME ZONE 'UTC')::date, sum(p.customers), sum(p.revenue), sum(p.refunds)
      FROM (
        SELECT bundle_id, original_transaction_id, currency, is_first_paid::integer AS customers, price AS revenue,
          0 AS refunds
        FROM bought WHERE is_paid AND price IS NOT NULL AND kind <> 'Consumable'
        UNION ALL
        SELECT bundle_id, original_transaction_id, currency, 0, 0, refund FROM refunded
        WHERE is_paid AND refund IS NOT NULL AND kind <> 'Consumable'
      ) AS p
      CROSS JOIN LATERAL (
        SELECT s.tier, s.product_id, s.purchase_date FROM sold s
        WHERE s.original_transaction_id = p.original_transaction_id AND s.is_paid
        ORDER BY s.purchase_date, s.transaction_id LIMIT 1
      ) AS f
      WHERE p.currency IS NOT NULL
      GROUP BY 2, 3, 4, 5, 6
    ),
    list_prices AS (
      INSERT INTO kpi_daily_prices (day, bundle_id, product_id, country, currency, price)
      SELECT DISTINCT ON (bundle_id, product_id, country, currency) \(day.description)::text::date, bundle_id, product_id, country,
        currency, price
      FROM bought
      WHERE is_paid AND price IS NOT NULL AND currency IS NOT NULL AND offer = ''
        AND coalesce(other_claims ->> 'transactionReason', 'PURCHASE') = 'PURCHASE'
      ORDER BY bundle_id, product_id, country, currency, purchase_date DESC, transaction_id DESC
    ),
    """
  }
}

extension KPIRows {
  /// Stores the counts of the day, losses, cohorts and trials. It is the end of the statement.
  static func figures(_ day: Day, asOf: Date) -> Query {
    """
    stored_losses AS (
      INSERT INTO kpi_losses_daily (day, bundle_id, tier, product_id, loss, reason, country, offer, subscriptions)
      SELECT \(day.description)::text::date, bundle_id, tier, product_id, loss, reason, country, offer, count(*) FROM losses
      GROUP BY 2, 3, 4, 5, 6, 7, 8
    ),
    stored_cohorts AS (
      INSERT INTO kpi_daily_cohorts (day, bundle_id, tier, product_id, months, customers, retained)
      SELECT \(day.description)::text::date, bundle_id, tier, product_id, months, count(*), count(*) FILTER (WHERE is_kept) FROM cohorts
      GROUP BY 2, 3, 4, 5
    ),
    stored_trials AS (
      INSERT INTO kpi_daily_trials (day, bundle_id, tier, product_id, cohort, started, converted, lapsed)
      SELECT \(day.description)::text::date, bundle_id, tier, product_id, date_trunc('month', started_at AT TIME ZONE 'UTC')::date,
        sum(started), sum(converted), sum(lapsed)
      FROM trial_flows GROUP BY 2, 3, 4, 5
    ),
    counted AS (
      SELECT 'trials_started' AS what, bundle_id, tier, product_id, sum(started) AS n FROM trial_flows
      WHERE started > 0 GROUP BY 2, 3, 4
      UNION ALL
      SELECT 'converted', bundle_id, tier, product_id, count(*) FROM conversions GROUP BY 2, 3, 4
      UNION ALL
      SELECT plan, bundle_id, tier, product_id, subscriptions FROM standing
      UNION ALL
      SELECT 'own_trial', bundle_id, '', '', count(*) FROM own_trials
      WHERE started_at < \(asOf) AND ends_at >= \(asOf) AND coalesce(paid_at >= \(asOf), true) GROUP BY 2
      UNION ALL
      SELECT 'at_start', bundle_id, tier, product_id, count(*) FROM started GROUP BY 2, 3, 4
      UNION ALL
      SELECT 'at_start', bundle_id, tier, product_id, -count(*) FROM ended GROUP BY 2, 3, 4
      UNION ALL
      SELECT 'lost', s.bundle_id, s.tier, s.product_id, count(*) FROM started s
      WHERE NOT EXISTS (SELECT FROM ended e WHERE e.original_transaction_id = s.original_transaction_id)
      GROUP BY 2, 3, 4
      UNION ALL
      SELECT CASE WHEN renews AND transaction_id <> original_transaction_id THEN 'renewed' ELSE 'new' END,
        bundle_id, tier, product_id, count(*)
      FROM bought GROUP BY 1, 2, 3, 4
      UNION ALL
      SELECT loss, bundle_id, tier, product_id, count(*) FROM losses GROUP BY 1, 2, 3, 4
      UNION ALL
      -- A cohort has a row of the day even if nothing else happened.
      SELECT 'cohort', bundle_id, tier, product_id, 0 FROM cohorts GROUP BY 2, 3, 4
    )
    INSERT INTO kpi_daily_figures (day, bundle_id, tier, product_id, trials_started, converted, active, paying,
      in_trial, lifetime, non_renewing, paying_start, lost, new, renewed, cancelled, expired, refunded)
    SELECT \(day.description)::text::date, bundle_id, tier, product_id,
      coalesce(sum(n) FILTER (WHERE what = 'trials_started'), 0),
      coalesce(sum(n) FILTER (WHERE what = 'converted'), 0),
      coalesce(sum(n) FILTER (WHERE what IN ('paying', 'in_trial', 'lifetime', 'non_renewing')), 0),
      coalesce(sum(n) FILTER (WHERE what = 'paying'), 0),
      coalesce(sum(n) FILTER (WHERE what IN ('in_trial', 'own_trial')), 0),
      coalesce(sum(n) FILTER (WHERE what = 'lifetime'), 0),
      coalesce(sum(n) FILTER (WHERE what = 'non_renewing'), 0),
      coalesce(sum(n) FILTER (WHERE what IN ('paying', 'at_start')), 0),
      coalesce(sum(n) FILTER (WHERE what = 'lost'), 0),
      coalesce(sum(n) FILTER (WHERE what = 'new'), 0),
      coalesce(sum(n) FILTER (WHERE what = 'renewed'), 0),
      coalesce(sum(n) FILTER (WHERE what = 'cancelled'), 0),
      coalesce(sum(n) FILTER (WHERE what = 'expired'), 0),
      coalesce(sum(n) FILTER (WHERE what = 'refunded'), 0)
    FROM counted
    GROUP BY bundle_id, tier, product_id
    """
  }
}
