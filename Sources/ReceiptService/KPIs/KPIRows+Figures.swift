import Foundation
import Postgres

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
