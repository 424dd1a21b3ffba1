-- How the app does, by the names that its clients already send, and what its customers cost.
CREATE OR REPLACE VIEW public.kpi_daily AS
WITH told AS (
  SELECT day, bundle_id, '' AS tier, '' AS product_id,
    coalesce(sum(events) FILTER (WHERE name = 'paywall_shown'), 0)::bigint AS paywall_shown,
    coalesce(sum(events) FILTER (WHERE name = 'purchase_initiated'), 0)::bigint AS purchase_initiated,
    coalesce(sum(events) FILTER (WHERE name IN ('storekit_error', 'purchase_failed')), 0)::bigint AS storekit_errors,
    coalesce(sum(customers) FILTER (WHERE name = 'app_opened'), 0)::bigint AS app_opened,
    coalesce(sum(events) FILTER (WHERE name = 'restore_started'), 0)::bigint AS restore_started,
    coalesce(sum(events) FILTER (WHERE name = 'restore_succeeded'), 0)::bigint AS restore_succeeded,
    coalesce(sum(events) FILTER (WHERE name = 'app_crashed'), 0)::bigint AS app_crashed,
    coalesce(sum(events) FILTER (WHERE name = 'app_hang'), 0)::bigint AS app_hang
  FROM receiptd.kpi_events_daily
  GROUP BY day, bundle_id
), money AS (
  SELECT day, bundle_id, tier, product_id,
    jsonb_object_agg(currency, mrr) FILTER (WHERE mrr <> 0) AS mrr,
    jsonb_object_agg(currency, revenue) FILTER (WHERE revenue <> 0) AS revenue,
    jsonb_object_agg(currency, refunds) FILTER (WHERE refunds <> 0) AS refunds,
    jsonb_object_agg(currency, round(mrr / paying, public.receiptd_currency_digits(currency)))
      FILTER (WHERE paying > 0) AS revenue_per_user
  FROM receiptd.kpi_daily_money
  GROUP BY 1, 2, 3, 4
), cohorts AS (
  SELECT day, bundle_id, tier, product_id,
    coalesce(sum(customers) FILTER (WHERE months = 1), 0)::bigint AS month_1_cohort,
    coalesce(sum(customers - retained) FILTER (WHERE months = 1), 0)::bigint AS month_1_lost,
    coalesce(sum(customers) FILTER (WHERE months = 3), 0)::bigint AS month_3_cohort,
    coalesce(sum(customers - retained) FILTER (WHERE months = 3), 0)::bigint AS month_3_lost,
    coalesce(sum(customers) FILTER (WHERE months = 6), 0)::bigint AS month_6_cohort,
    coalesce(sum(customers - retained) FILTER (WHERE months = 6), 0)::bigint AS month_6_lost
  FROM receiptd.kpi_daily_cohorts
  GROUP BY 1, 2, 3, 4
)
SELECT day, bundle_id, nullif(tier, '') AS tier, nullif(product_id, '') AS product_id,
  coalesce(f.new, 0) AS new,
  coalesce(f.renewed, 0) AS renewed,
  coalesce(f.refunded, 0) AS refunded,
  coalesce(f.trials_started, 0) AS trials_started,
  coalesce(f.converted, 0) AS converted,
  coalesce(f.active, 0) AS active,
  coalesce(f.paying, 0) AS paying,
  coalesce(f.in_trial, 0) AS in_trial,
  coalesce(f.lifetime, 0) AS lifetime,
  coalesce(f.non_renewing, 0) AS non_renewing,
  coalesce(f.paying_start, 0) AS paying_start,
  coalesce(f.lost, 0) AS lost,
  round(f.lost::numeric / nullif(f.paying_start, 0), 4) AS churn,
  coalesce(f.cancelled, 0) AS cancelled,
  coalesce(f.expired, 0) AS expired,
  round(c.month_1_lost::numeric / nullif(c.month_1_cohort, 0), 4) AS churn_month_1,
  round(c.month_3_lost::numeric / nullif(c.month_3_cohort, 0), 4) AS churn_month_3,
  round(c.month_6_lost::numeric / nullif(c.month_6_cohort, 0), 4) AS churn_month_6,
  coalesce(c.month_1_cohort, 0) AS month_1_cohort,
  coalesce(c.month_1_lost, 0) AS month_1_lost,
  coalesce(c.month_3_cohort, 0) AS month_3_cohort,
  coalesce(c.month_3_lost, 0) AS month_3_lost,
  coalesce(c.month_6_cohort, 0) AS month_6_cohort,
  coalesce(c.month_6_lost, 0) AS month_6_lost,
  coalesce(m.mrr, '{}') AS mrr,
  coalesce(m.revenue, '{}') AS revenue,
  coalesce(m.refunds, '{}') AS refunds,
  coalesce(m.revenue_per_user, '{}') AS revenue_per_user,
  CASE WHEN product_id = '' AND tier = '' THEN coalesce(e.paywall_shown, 0) END AS paywall_shown,
  CASE WHEN product_id = '' AND tier = '' THEN coalesce(e.purchase_initiated, 0) END AS purchase_initiated,
  CASE WHEN product_id = '' AND tier = '' THEN coalesce(e.storekit_errors, 0) END AS storekit_errors,
  d.as_of,
  CASE WHEN product_id = '' AND tier = '' THEN coalesce(e.app_opened, 0) END AS app_opened,
  CASE WHEN product_id = '' AND tier = '' THEN
    round(coalesce(f.trials_started, 0)::numeric / nullif(e.app_opened, 0), 4) END AS trial_start_rate,
  CASE WHEN product_id = '' AND tier = '' THEN coalesce(e.restore_started, 0) END AS restore_started,
  CASE WHEN product_id = '' AND tier = '' THEN coalesce(e.restore_succeeded, 0) END AS restore_succeeded,
  CASE WHEN product_id = '' AND tier = '' THEN
    round(e.restore_succeeded::numeric / nullif(e.restore_started, 0), 4) END AS restore_success,
  CASE WHEN product_id = '' AND tier = '' THEN coalesce(e.app_crashed, 0) END AS app_crashed,
  CASE WHEN product_id = '' AND tier = '' THEN coalesce(e.app_hang, 0) END AS app_hang
FROM receiptd.kpi_daily_figures f
FULL JOIN told e USING (day, bundle_id, tier, product_id)
LEFT JOIN cohorts c USING (day, bundle_id, tier, product_id)
LEFT JOIN money m USING (day, bundle_id, tier, product_id)
LEFT JOIN receiptd.kpi_days d USING (day);
COMMENT ON COLUMN public.kpi_daily.storekit_errors IS 'Events named storekit_error or purchase_failed on the day, as reported by clients. NULL in the rows of products.';
COMMENT ON COLUMN public.kpi_daily.app_opened IS 'Customers with an event app_opened on the day, as reported by clients. NULL in the rows of products.';
COMMENT ON COLUMN public.kpi_daily.trial_start_rate IS 'trials_started / app_opened, of the app''s own trials: 0.25 is a quarter. NULL: no client told app_opened, or a row of products.';
COMMENT ON COLUMN public.kpi_daily.restore_started IS 'Events restore_started on the day, as reported by clients. NULL in the rows of products.';
COMMENT ON COLUMN public.kpi_daily.restore_succeeded IS 'Events restore_succeeded on the day, as reported by clients. NULL in the rows of products.';
COMMENT ON COLUMN public.kpi_daily.restore_success IS 'restore_succeeded / restore_started: 0.9 is nine of ten. NULL: no restore began, or a row of products.';
COMMENT ON COLUMN public.kpi_daily.app_crashed IS 'Events app_crashed on the day, as reported by clients at their next start. NULL in the rows of products.';
COMMENT ON COLUMN public.kpi_daily.app_hang IS 'Events app_hang on the day, as reported by clients. NULL in the rows of products.';

-- migrate: new transaction

CREATE TABLE IF NOT EXISTS receiptd.kpi_acquisition_costs (
  month date NOT NULL CHECK (extract(day FROM month) = 1),
  bundle_id text NOT NULL,
  channel text NOT NULL DEFAULT '',
  currency text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
  amount numeric NOT NULL CHECK (amount >= 0),
  PRIMARY KEY (bundle_id, month, channel, currency)
);
COMMENT ON TABLE receiptd.kpi_acquisition_costs IS 'What an app spent to win customers, by month, as `receiptd acquisition-cost` read it from a file.';
COMMENT ON COLUMN receiptd.kpi_acquisition_costs.month IS 'The first day of the month (UTC).';
COMMENT ON COLUMN receiptd.kpi_acquisition_costs.bundle_id IS 'The app.';
COMMENT ON COLUMN receiptd.kpi_acquisition_costs.channel IS 'Where it was spent, such as Apple Search Ads. Empty: not told.';
COMMENT ON COLUMN receiptd.kpi_acquisition_costs.currency IS 'ISO 4217.';
COMMENT ON COLUMN receiptd.kpi_acquisition_costs.amount IS 'What was spent, in the currency''s unit.';

CREATE OR REPLACE VIEW public.kpi_acquisition AS
WITH cost AS (
  SELECT month AS cohort, bundle_id, currency, sum(amount) AS cost FROM receiptd.kpi_acquisition_costs GROUP BY 1, 2, 3
), customers AS (
  SELECT cohort, bundle_id, sum(customers)::bigint AS customers FROM receiptd.kpi_daily_value GROUP BY 1, 2
), value AS (
  SELECT cohort, bundle_id, currency, sum(customers)::bigint AS customers, sum(revenue - refunds) AS net
  FROM receiptd.kpi_daily_value GROUP BY 1, 2, 3
)
SELECT cohort, bundle_id, currency, cost.cost, coalesce(customers.customers, 0) AS customers,
  round(cost.cost / nullif(customers.customers, 0), public.receiptd_currency_digits(currency)) AS cac,
  coalesce(value.customers, 0) AS customers_in_currency, coalesce(value.net, 0) AS net,
  round(value.net / nullif(value.customers, 0), public.receiptd_currency_digits(currency)) AS ltv
FROM cost
LEFT JOIN customers USING (cohort, bundle_id)
LEFT JOIN value USING (cohort, bundle_id, currency);
COMMENT ON VIEW public.kpi_acquisition IS 'What a new customer of a month cost (CAC) beside what such a customer has paid since (LTV). One row for each month and app with a cost, and currency of the cost.';
COMMENT ON COLUMN public.kpi_acquisition.cohort IS 'The first day of the month (UTC) of the first payment, and of the cost.';
COMMENT ON COLUMN public.kpi_acquisition.bundle_id IS 'The app.';
COMMENT ON COLUMN public.kpi_acquisition.currency IS 'ISO 4217: of the cost. Amounts of different currencies are never added.';
COMMENT ON COLUMN public.kpi_acquisition.cost IS 'What was spent in the month in this currency, over all channels.';
COMMENT ON COLUMN public.kpi_acquisition.customers IS 'Subscriptions and lifetime purchases that were first paid for in the month, in any currency.';
COMMENT ON COLUMN public.kpi_acquisition.cac IS 'cost / customers: what a new customer cost. NULL: none came. With costs in several currencies, each row has its part.';
COMMENT ON COLUMN public.kpi_acquisition.customers_in_currency IS 'Those of customers that paid in this currency.';
COMMENT ON COLUMN public.kpi_acquisition.net IS 'What those have paid since, less refunds, in this currency.';
COMMENT ON COLUMN public.kpi_acquisition.ltv IS 'net / customers_in_currency, as kpi_lifetime_value.ltv. NULL: none paid in this currency.';

DO $$
DECLARE
  rights CONSTANT text := pg_get_functiondef('public.receiptd_rights()'::regprocedure);
BEGIN
  IF position('kpi_acquisition_costs' IN rights) = 0 THEN
    EXECUTE replace(rights, '(''kpi_events_daily'', ',
      '(''kpi_acquisition_costs'', ''SELECT, INSERT, DELETE'', ''*''), (''kpi_acquisition'', ''SELECT'', ''*''), (''kpi_events_daily'', ');
  END IF;
END
$$;

-- migrate: new transaction

-- Supabase's default privileges are those of the schema public.
DO $$
BEGIN
  IF to_regrole('service_role') IS NOT NULL THEN
    GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON receiptd.kpi_acquisition_costs TO service_role;
  END IF;
END
$$;
SELECT public.receiptd_set_rights('kpi_daily');

-- migrate: new transaction
SELECT public.receiptd_set_rights('kpi_acquisition_costs');

-- migrate: new transaction
SELECT public.receiptd_set_rights('kpi_acquisition');
SELECT public.receiptd_set_common_rights();

-- As in 20261130_backend_writes.sql, for servers of the build before.
DO $$
DECLARE
  role regrole;
BEGIN
  IF to_regclass('public.kpi_acquisition_costs') IS NOT NULL OR NOT EXISTS (
    SELECT FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relname = 'outbox' AND relkind = 'v')
  THEN
    RETURN;
  END IF;
  EXECUTE 'CREATE VIEW public.kpi_acquisition_costs WITH (security_invoker = true) AS SELECT * FROM receiptd.kpi_acquisition_costs';
  EXECUTE format('ALTER VIEW public.kpi_acquisition_costs OWNER TO %s',
    (SELECT relowner::regrole FROM pg_class WHERE oid = 'receiptd.kpi_acquisition_costs'::regclass));
  COMMENT ON VIEW public.kpi_acquisition_costs IS 'The former name of receiptd.kpi_acquisition_costs, for servers of the build before. receiptd_drop_former_names() drops it.';
  COMMENT ON COLUMN public.kpi_acquisition_costs.month IS 'The first day of the month (UTC).';
  COMMENT ON COLUMN public.kpi_acquisition_costs.bundle_id IS 'The app.';
  COMMENT ON COLUMN public.kpi_acquisition_costs.channel IS 'Where it was spent, such as Apple Search Ads. Empty: not told.';
  COMMENT ON COLUMN public.kpi_acquisition_costs.currency IS 'ISO 4217.';
  COMMENT ON COLUMN public.kpi_acquisition_costs.amount IS 'What was spent, in the currency''s unit.';
  REVOKE ALL ON public.kpi_acquisition_costs FROM PUBLIC;
  FOR role IN
    SELECT DISTINCT granted.grantee::regrole FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) AS granted
    WHERE c.oid = 'public.kpi_acquisition_costs'::regclass AND granted.grantee NOT IN (0, c.relowner)
  LOOP
    EXECUTE format('REVOKE ALL ON public.kpi_acquisition_costs FROM %s', role);
  END LOOP;
END
$$;
