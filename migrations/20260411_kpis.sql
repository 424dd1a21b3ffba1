-- Key figures (KPIs): the figures of each day, and the views that show them.

CREATE TABLE public.kpi_days (
  day date PRIMARY KEY,
  as_of timestamptz NOT NULL,
  computed_at timestamptz NOT NULL
);
COMMENT ON TABLE public.kpi_days IS 'The days for which figures were computed.';
COMMENT ON COLUMN public.kpi_days.day IS 'The day, UTC.';
COMMENT ON COLUMN public.kpi_days.as_of IS 'The instant up to which the day was counted: its end, or an instant within the current day.';
COMMENT ON COLUMN public.kpi_days.computed_at IS 'When the figures were last computed.';

CREATE TABLE public.kpi_daily_figures (
  day date NOT NULL,
  bundle_id text NOT NULL,
  tier text NOT NULL,
  trials_started bigint NOT NULL,
  converted bigint NOT NULL,
  active bigint NOT NULL,
  new bigint NOT NULL,
  renewed bigint NOT NULL,
  cancelled bigint NOT NULL,
  expired bigint NOT NULL,
  refunded bigint NOT NULL,
  month_1_cohort bigint NOT NULL,
  month_1_lost bigint NOT NULL,
  month_3_cohort bigint NOT NULL,
  month_3_lost bigint NOT NULL,
  month_6_cohort bigint NOT NULL,
  month_6_lost bigint NOT NULL,
  PRIMARY KEY (day, bundle_id, tier)
);
COMMENT ON TABLE public.kpi_daily_figures IS 'The stored figures of kpi_daily; the comments of that view define them.';

CREATE TABLE public.kpi_daily_money (
  day date NOT NULL,
  bundle_id text NOT NULL,
  tier text NOT NULL,
  currency text NOT NULL,
  revenue numeric NOT NULL,
  refunds numeric NOT NULL,
  mrr numeric NOT NULL,
  paying bigint NOT NULL,
  PRIMARY KEY (day, bundle_id, tier, currency)
);
COMMENT ON TABLE public.kpi_daily_money IS 'The stored figures of kpi_revenue_daily; the comments of that view define them.';

CREATE TABLE public.kpi_events_daily (
  day date NOT NULL,
  bundle_id text NOT NULL,
  name text NOT NULL,
  events bigint NOT NULL,
  customers bigint NOT NULL,
  PRIMARY KEY (day, bundle_id, name)
);
COMMENT ON TABLE public.kpi_events_daily IS 'The clients'' events of a day (UTC, by at) by app and name. Computed again for 31 days, since events may come 30 days late, and kept after the events themselves are deleted.';
COMMENT ON COLUMN public.kpi_events_daily.day IS 'The day, UTC.';
COMMENT ON COLUMN public.kpi_events_daily.bundle_id IS 'The app.';
COMMENT ON COLUMN public.kpi_events_daily.name IS 'The name of the event; (other) for names beyond the 200 most frequent of an app''s day.';
COMMENT ON COLUMN public.kpi_events_daily.events IS 'How many events, each id once.';
COMMENT ON COLUMN public.kpi_events_daily.customers IS 'How many different customer ids they name.';

CREATE VIEW public.kpi_revenue_daily AS
SELECT day, bundle_id, nullif(tier, '') AS tier, currency, revenue, refunds, trim_scale(revenue - refunds) AS net,
  mrr, paying, trim_scale(round(mrr / nullif(paying, 0), 3)) AS revenue_per_user
FROM public.kpi_daily_money;
COMMENT ON VIEW public.kpi_revenue_daily IS 'The money of a day (UTC) by app, tier and currency, at the prices that customers pay: Apple''s share and taxes are not deducted.';

CREATE VIEW public.kpi_daily AS
WITH told AS (
  SELECT day, bundle_id, '' AS tier,
    coalesce(sum(events) FILTER (WHERE name = 'paywall_shown'), 0)::bigint AS paywall_shown,
    coalesce(sum(events) FILTER (WHERE name = 'purchase_initiated'), 0)::bigint AS purchase_initiated
  FROM public.kpi_events_daily
  GROUP BY day, bundle_id
), money AS (
  SELECT day, bundle_id, coalesce(tier, '') AS tier,
    jsonb_object_agg(currency, mrr) FILTER (WHERE mrr <> 0) AS mrr,
    jsonb_object_agg(currency, revenue) FILTER (WHERE revenue <> 0) AS revenue,
    jsonb_object_agg(currency, refunds) FILTER (WHERE refunds <> 0) AS refunds,
    jsonb_object_agg(currency, revenue_per_user) FILTER (WHERE paying > 0) AS revenue_per_user
  FROM public.kpi_revenue_daily
  GROUP BY 1, 2, 3
)
SELECT day, bundle_id, nullif(tier, '') AS tier,
  coalesce(f.new, 0) AS new,
  coalesce(f.renewed, 0) AS renewed,
  coalesce(f.refunded, 0) AS refunded,
  coalesce(f.trials_started, 0) AS trials_started,
  coalesce(f.converted, 0) AS converted,
  coalesce(f.active, 0) AS active,
  coalesce(f.cancelled, 0) AS cancelled,
  coalesce(f.expired, 0) AS expired,
  round(f.month_1_lost::numeric / nullif(f.month_1_cohort, 0), 4) AS churn_month_1,
  round(f.month_3_lost::numeric / nullif(f.month_3_cohort, 0), 4) AS churn_month_3,
  round(f.month_6_lost::numeric / nullif(f.month_6_cohort, 0), 4) AS churn_month_6,
  coalesce(f.month_1_cohort, 0) AS month_1_cohort,
  coalesce(f.month_1_lost, 0) AS month_1_lost,
  coalesce(f.month_3_cohort, 0) AS month_3_cohort,
  coalesce(f.month_3_lost, 0) AS month_3_lost,
  coalesce(f.month_6_cohort, 0) AS month_6_cohort,
  coalesce(f.month_6_lost, 0) AS month_6_lost,
  coalesce(m.mrr, '{}') AS mrr,
  coalesce(m.revenue, '{}') AS revenue,
  coalesce(m.refunds, '{}') AS refunds,
  coalesce(m.revenue_per_user, '{}') AS revenue_per_user,
  CASE WHEN tier = '' THEN coalesce(e.paywall_shown, 0) END AS paywall_shown,
  CASE WHEN tier = '' THEN coalesce(e.purchase_initiated, 0) END AS purchase_initiated,
  d.as_of
FROM public.kpi_daily_figures f
FULL JOIN told e USING (day, bundle_id, tier)
LEFT JOIN money m USING (day, bundle_id, tier)
LEFT JOIN public.kpi_days d USING (day);
COMMENT ON VIEW public.kpi_daily IS 'The business of a day (UTC) by app and tier. It counts production purchases that the customer paid for or tried, and neither the sandbox nor purchases of family members. Tiers and configured prices are those of the configuration with which the day was last computed.';
COMMENT ON COLUMN public.kpi_daily.as_of IS 'The instant up to which the day was counted: its end, or an instant within the current day. Figures ''at the end of the day'' are as of this instant. NULL: only events were counted.';

-- A column of a view and the column of the table behind it have the same comment.
DO $$
DECLARE
  relation text;
  entry record;
BEGIN
  FOR entry IN SELECT * FROM (VALUES
    ('day', 'The day, UTC.'),
    ('bundle_id', 'The app.'),
    ('tier', 'The tier of the product in question. Without a tier (NULL in the views, empty in the tables): the app''s own trials, events, and products that the catalog does not know.'),
    ('trials_started', 'Trials begun on the day: the app''s own (without a tier; a device that continues a trial of its account is not counted), and free first periods of the App Store (in the tier of the product).'),
    ('converted', 'Trials that became paid on the day: first paid purchases (in their tier) after a free period of the same subscription, or by the Apple Account or device of an earlier trial of the app''s own that had paid for nothing before.'),
    ('active', 'At the end of the day: subscriptions within a paid or free period, by the tier of the latest purchase, and lifetime purchases, without refunded ones. Billing grace, the app''s own grace, the app''s own trials and grants are not counted.'),
    ('new', 'First purchases on the day: transactionId is originalTransactionId; free first periods included.'),
    ('renewed', 'Later periods bought on the day: renewals, the first paid period after a free one, changes of product, purchases after an end.'),
    ('cancelled', 'Subscriptions whose renewal was turned off on the day (DID_CHANGE_RENEWAL_STATUS by its signedDate) and was still off at the end of the day. They stay active until their period ends.'),
    ('expired', 'Subscriptions whose period ended on the day and was followed by no other by the end of the day, for any reason; refunded periods are not counted. A subscription that is paid later counts as renewed on the later day.'),
    ('refunded', 'Refunds on the day of Apple''s revocationDate, whenever the purchase was made, by the tier of the refunded purchase. A refund that Apple reverses is no longer counted when the day is computed again.'),
    ('churn_month_1', 'month_1_lost / month_1_cohort: 0.25 is a quarter. NULL: the cohort is empty.'),
    ('churn_month_3', 'month_3_lost / month_3_cohort. NULL: the cohort is empty.'),
    ('churn_month_6', 'month_6_lost / month_6_cohort. NULL: the cohort is empty.'),
    ('month_1_cohort', 'Subscriptions that were first paid for on the day one month before, by the tier of that purchase. (A day that the later month does not have counts as its last day.)'),
    ('month_1_lost', 'How many subscriptions of the cohort are not active at the end of the day.'),
    ('month_3_cohort', 'Subscriptions that were first paid for on the day three months before.'),
    ('month_3_lost', 'How many subscriptions of the cohort are not active at the end of the day.'),
    ('month_6_cohort', 'Subscriptions that were first paid for on the day six months before.'),
    ('month_6_lost', 'How many subscriptions of the cohort are not active at the end of the day.'),
    ('currency', 'ISO 4217. Amounts of different currencies are never added.'),
    ('revenue', 'The sum of the prices of purchases on the day, in the currency''s unit: Apple''s price of the transaction, or the configured price if the transaction has none. Before Apple''s share and taxes.'),
    ('refunds', 'The sum of refunds on the day (revocationDate), at those prices; of a partial refund, the refunded part.'),
    ('net', 'revenue - refunds.'),
    ('mrr', 'Monthly recurring revenue at the end of the day: of each active auto-renewable subscription that was paid for, the price of its period for one month (of a year, a twelfth; of less than half a month, by days). Subscriptions that will not renew are counted until they end.'),
    ('paying', 'At the end of the day: the number of subscriptions in mrr.'),
    ('revenue_per_user', 'mrr / paying: the monthly revenue of one paying subscription. NULL: none pays.'),
    ('paywall_shown', 'Events of this name on the day, as reported by clients; kpi_events_daily has all names. NULL in the rows of tiers: an event has no tier.'),
    ('purchase_initiated', 'Events of this name on the day, as reported by clients. NULL in the rows of tiers.')
  ) AS c (name, meaning)
  LOOP
    FOREACH relation IN ARRAY ARRAY['kpi_daily', 'kpi_daily_figures', 'kpi_daily_money', 'kpi_revenue_daily'] LOOP
      IF EXISTS (
        SELECT FROM pg_attribute
        WHERE attrelid = format('public.%I', relation)::regclass AND attname = entry.name)
      THEN
        EXECUTE format('COMMENT ON COLUMN public.%I.%I IS %L', relation, entry.name,
          CASE WHEN relation = 'kpi_daily' AND entry.name IN ('mrr', 'revenue', 'refunds', 'revenue_per_user')
            THEN 'By currency, as {"USD": 7.99}; empty: nothing. ' ELSE '' END || entry.meaning);
      END IF;
    END LOOP;
  END LOOP;
END
$$;
