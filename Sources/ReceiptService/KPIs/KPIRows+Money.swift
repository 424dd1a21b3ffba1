import Foundation
import Postgres

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
