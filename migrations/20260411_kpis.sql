-- Key figures (KPIs): the figures of each day, and the views that show them.

-- The decimals of a currency's amounts: Apple's prices have three for every currency.
CREATE FUNCTION public.receiptd_currency_digits(currency text) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE
    WHEN currency IS NULL THEN NULL
    WHEN currency IN ('BIF', 'CLP', 'DJF', 'GNF', 'ISK', 'JPY', 'KMF', 'KRW', 'PYG', 'RWF', 'UGX', 'UYI', 'VND', 'VUV',
      'XAF', 'XOF', 'XPF') THEN 0
    WHEN currency IN ('BHD', 'IQD', 'JOD', 'KWD', 'LYD', 'OMR', 'TND') THEN 3
    ELSE 2 END
$$;
COMMENT ON FUNCTION public.receiptd_currency_digits(text) IS 'The number of decimals of a currency (ISO 4217): 0, 2 or 3.';

CREATE TABLE public.kpi_days (
  day date PRIMARY KEY,
  as_of timestamptz NOT NULL,
  computed_at timestamptz NOT NULL,
  is_stale boolean NOT NULL DEFAULT false
);
COMMENT ON TABLE public.kpi_days IS 'The days for which figures were computed.';
COMMENT ON COLUMN public.kpi_days.day IS 'The day, UTC.';
COMMENT ON COLUMN public.kpi_days.as_of IS 'The instant up to which the day was counted: its end, or an instant within the current day.';
COMMENT ON COLUMN public.kpi_days.computed_at IS 'When the figures were last computed.';
COMMENT ON COLUMN public.kpi_days.is_stale IS 'Whether facts of the day arrived after it was counted, so that it will be counted again.';

-- A ledger transaction adds rows without a lock on any day; the job that counts takes them.
CREATE TABLE public.kpi_late_facts (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  first_day date NOT NULL,
  last_day date NOT NULL
);
COMMENT ON TABLE public.kpi_late_facts IS 'Days whose figures a fact changes that arrived on a later day. The job that counts days empties the table within a minute.';
COMMENT ON COLUMN public.kpi_late_facts.id IS 'The row''s own id.';
COMMENT ON COLUMN public.kpi_late_facts.first_day IS 'The first day whose figures may change.';
COMMENT ON COLUMN public.kpi_late_facts.last_day IS 'The last day whose figures may change.';

CREATE TABLE public.kpi_daily_figures (
  day date NOT NULL,
  bundle_id text NOT NULL,
  tier text NOT NULL,
  product_id text NOT NULL,
  trials_started bigint NOT NULL,
  converted bigint NOT NULL,
  active bigint NOT NULL,
  paying bigint NOT NULL,
  in_trial bigint NOT NULL,
  lifetime bigint NOT NULL,
  non_renewing bigint NOT NULL,
  paying_start bigint NOT NULL,
  lost bigint NOT NULL,
  new bigint NOT NULL,
  renewed bigint NOT NULL,
  cancelled bigint NOT NULL,
  expired bigint NOT NULL,
  refunded bigint NOT NULL,
  PRIMARY KEY (day, bundle_id, tier, product_id)
);
COMMENT ON TABLE public.kpi_daily_figures IS 'The stored figures of kpi_daily; the comments of that view define them.';

CREATE TABLE public.kpi_daily_money (
  day date NOT NULL,
  bundle_id text NOT NULL,
  tier text NOT NULL,
  product_id text NOT NULL,
  currency text NOT NULL,
  charges bigint NOT NULL,
  revenue numeric NOT NULL,
  refunds numeric NOT NULL,
  paying bigint NOT NULL,
  mrr numeric NOT NULL,
  mrr_start numeric NOT NULL,
  mrr_new numeric NOT NULL,
  mrr_expansion numeric NOT NULL,
  mrr_contraction numeric NOT NULL,
  mrr_churn numeric NOT NULL,
  mrr_moved numeric NOT NULL,
  PRIMARY KEY (day, bundle_id, tier, product_id, currency)
);
COMMENT ON TABLE public.kpi_daily_money IS 'The stored figures of kpi_revenue_daily; the comments of that view define them.';

CREATE TABLE public.kpi_daily_cohorts (
  day date NOT NULL,
  bundle_id text NOT NULL,
  tier text NOT NULL,
  product_id text NOT NULL,
  months integer NOT NULL,
  customers bigint NOT NULL,
  retained bigint NOT NULL,
  PRIMARY KEY (day, bundle_id, tier, product_id, months)
);
COMMENT ON TABLE public.kpi_daily_cohorts IS 'For each day, the subscriptions that were first paid for 0 to 12 months before. kpi_cohorts adds them up by month.';
COMMENT ON COLUMN public.kpi_daily_cohorts.months IS 'The months between the day of the first payment and this day. (A day that the later month does not have counts as its last day.)';
COMMENT ON COLUMN public.kpi_daily_cohorts.customers IS 'Subscriptions that were first paid for on the day so many months before, by the tier and product of that purchase.';
COMMENT ON COLUMN public.kpi_daily_cohorts.retained IS 'How many of them are active at the end of the day.';

CREATE TABLE public.kpi_daily_trials (
  day date NOT NULL,
  bundle_id text NOT NULL,
  tier text NOT NULL,
  product_id text NOT NULL,
  cohort date NOT NULL,
  started bigint NOT NULL,
  converted bigint NOT NULL,
  lapsed bigint NOT NULL,
  PRIMARY KEY (day, bundle_id, tier, product_id, cohort)
);
COMMENT ON TABLE public.kpi_daily_trials IS 'What happened on each day to the trials of a month. kpi_trial_cohorts adds it up.';
COMMENT ON COLUMN public.kpi_daily_trials.cohort IS 'The first day of the month (UTC) in which the trials started.';
COMMENT ON COLUMN public.kpi_daily_trials.started IS 'Trials that started on the day.';
COMMENT ON COLUMN public.kpi_daily_trials.converted IS 'Trials that were first paid for on the day.';
COMMENT ON COLUMN public.kpi_daily_trials.lapsed IS 'Trials that ended on the day without a payment until then, less trials that had lapsed and were first paid for on the day.';

CREATE TABLE public.kpi_daily_value (
  day date NOT NULL,
  bundle_id text NOT NULL,
  tier text NOT NULL,
  product_id text NOT NULL,
  currency text NOT NULL,
  cohort date NOT NULL,
  customers bigint NOT NULL,
  revenue numeric NOT NULL,
  refunds numeric NOT NULL,
  PRIMARY KEY (day, bundle_id, tier, product_id, currency, cohort)
);
COMMENT ON TABLE public.kpi_daily_value IS 'The money of each day by the month in which its customers first paid, and by the tier and product of that first purchase. kpi_lifetime_value adds it up.';
COMMENT ON COLUMN public.kpi_daily_value.cohort IS 'The first day of the month (UTC) of the first payment.';
COMMENT ON COLUMN public.kpi_daily_value.customers IS 'Subscriptions and lifetime purchases that were first paid for on the day.';

CREATE TABLE public.kpi_daily_prices (
  day date NOT NULL,
  bundle_id text NOT NULL,
  product_id text NOT NULL,
  country text NOT NULL,
  currency text NOT NULL,
  price numeric NOT NULL,
  PRIMARY KEY (day, bundle_id, product_id, country, currency)
);
COMMENT ON TABLE public.kpi_daily_prices IS 'The price of the day''s last purchase without an offer, renewals excepted. kpi_price_changes compares them.';
COMMENT ON COLUMN public.kpi_daily_prices.price IS 'The price in the currency''s unit.';

CREATE TABLE public.kpi_losses_daily (
  day date NOT NULL,
  bundle_id text NOT NULL,
  tier text NOT NULL,
  product_id text NOT NULL,
  loss text NOT NULL,
  reason text NOT NULL,
  country text NOT NULL,
  offer text NOT NULL,
  subscriptions bigint NOT NULL,
  PRIMARY KEY (day, bundle_id, tier, product_id, loss, reason, country, offer)
);
COMMENT ON TABLE public.kpi_losses_daily IS 'The cancelled, expired and refunded subscriptions of kpi_daily by reason, country and offer.';
COMMENT ON COLUMN public.kpi_losses_daily.loss IS 'cancelled, expired or refunded: the column of kpi_daily that counts the row.';
COMMENT ON COLUMN public.kpi_losses_daily.reason IS 'Of cancelled: customer, or refund if the period was refunded before. Of expired: customer (turned renewal off), billing, price_increase, not_for_sale, other; unknown: no notification told. Of refunded: issue (with the app), other; unknown: not told.';
COMMENT ON COLUMN public.kpi_losses_daily.offer IS 'The offer of the period: introductory, promotional, code or win_back, with its id after a colon if it has one. Empty: the full price.';
COMMENT ON COLUMN public.kpi_losses_daily.subscriptions IS 'How many subscriptions, or refunds.';

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
SELECT day, bundle_id, nullif(tier, '') AS tier, nullif(product_id, '') AS product_id, currency, charges, revenue, refunds,
  revenue - refunds AS net, mrr, paying,
  round(mrr / nullif(paying, 0), public.receiptd_currency_digits(currency)) AS revenue_per_user,
  mrr_start, mrr_new, mrr_expansion, mrr_contraction, mrr_churn, mrr_moved
FROM public.kpi_daily_money;
COMMENT ON VIEW public.kpi_revenue_daily IS 'The money of a day (UTC) by app, tier, product and currency, at the prices that customers pay: Apple''s share and taxes are not deducted. Amounts are rounded to the currency''s decimals, each price before it is added, so that rows add up.';

CREATE VIEW public.kpi_daily AS
WITH told AS (
  SELECT day, bundle_id, '' AS tier, '' AS product_id,
    coalesce(sum(events) FILTER (WHERE name = 'paywall_shown'), 0)::bigint AS paywall_shown,
    coalesce(sum(events) FILTER (WHERE name = 'purchase_initiated'), 0)::bigint AS purchase_initiated,
    coalesce(sum(events) FILTER (WHERE name = 'storekit_error'), 0)::bigint AS storekit_errors
  FROM public.kpi_events_daily
  GROUP BY day, bundle_id
), money AS (
  SELECT day, bundle_id, tier, product_id,
    jsonb_object_agg(currency, mrr) FILTER (WHERE mrr <> 0) AS mrr,
    jsonb_object_agg(currency, revenue) FILTER (WHERE revenue <> 0) AS revenue,
    jsonb_object_agg(currency, refunds) FILTER (WHERE refunds <> 0) AS refunds,
    jsonb_object_agg(currency, round(mrr / paying, public.receiptd_currency_digits(currency)))
      FILTER (WHERE paying > 0) AS revenue_per_user
  FROM public.kpi_daily_money
  GROUP BY 1, 2, 3, 4
), cohorts AS (
  SELECT day, bundle_id, tier, product_id,
    coalesce(sum(customers) FILTER (WHERE months = 1), 0)::bigint AS month_1_cohort,
    coalesce(sum(customers - retained) FILTER (WHERE months = 1), 0)::bigint AS month_1_lost,
    coalesce(sum(customers) FILTER (WHERE months = 3), 0)::bigint AS month_3_cohort,
    coalesce(sum(customers - retained) FILTER (WHERE months = 3), 0)::bigint AS month_3_lost,
    coalesce(sum(customers) FILTER (WHERE months = 6), 0)::bigint AS month_6_cohort,
    coalesce(sum(customers - retained) FILTER (WHERE months = 6), 0)::bigint AS month_6_lost
  FROM public.kpi_daily_cohorts
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
  d.as_of
FROM public.kpi_daily_figures f
FULL JOIN told e USING (day, bundle_id, tier, product_id)
LEFT JOIN cohorts c USING (day, bundle_id, tier, product_id)
LEFT JOIN money m USING (day, bundle_id, tier, product_id)
LEFT JOIN public.kpi_days d USING (day);
COMMENT ON VIEW public.kpi_daily IS 'The business of a day (UTC) by app, tier and product. It counts production purchases that the customer paid for or tried, and neither the sandbox nor purchases of family members. Ratios are those of the row: for a sum of rows, divide the sums. Tiers and configured prices are those of the configuration with which the day was last computed.';

CREATE VIEW public.kpi_cohorts AS
WITH counted AS (
  SELECT (date_trunc('month', day::timestamp) - months * interval '1 month')::date AS cohort, bundle_id, tier,
    product_id, months, sum(customers)::bigint AS customers, sum(retained)::bigint AS retained
  FROM public.kpi_daily_cohorts
  GROUP BY 1, 2, 3, 4, 5
)
SELECT s.cohort, s.bundle_id, nullif(s.tier, '') AS tier, nullif(s.product_id, '') AS product_id, m.months,
  s.customers, s.customers - coalesce(c.customers, 0) AS pending, coalesce(c.retained, 0) AS retained,
  coalesce(c.customers - c.retained, 0) AS lost,
  round(c.retained::numeric / nullif(c.customers, 0), 4) AS retention
FROM counted s
CROSS JOIN generate_series(1, 12) AS m (months)
LEFT JOIN counted c ON c.cohort = s.cohort AND c.bundle_id = s.bundle_id AND c.tier = s.tier
  AND c.product_id = s.product_id AND c.months = m.months
WHERE s.months = 0;
COMMENT ON VIEW public.kpi_cohorts IS 'Retention: of the subscriptions that were first paid for in a month, how many are active 1 to 12 months after their first payment. One row for each month, app, tier, product and age.';
COMMENT ON COLUMN public.kpi_cohorts.cohort IS 'The first day of the month (UTC) of the first payment.';
COMMENT ON COLUMN public.kpi_cohorts.months IS 'The age in months: a subscription that was first paid for on the 20th reaches it at the end of the 20th of a later month. (A day that the later month does not have counts as its last day.)';
COMMENT ON COLUMN public.kpi_cohorts.customers IS 'Subscriptions that were first paid for in the month, by the tier and product of that purchase. customers = pending + retained + lost.';
COMMENT ON COLUMN public.kpi_cohorts.pending IS 'Those that have not reached the age.';
COMMENT ON COLUMN public.kpi_cohorts.retained IS 'Those that were active at that age, under any product.';
COMMENT ON COLUMN public.kpi_cohorts.lost IS 'Those that were not.';
COMMENT ON COLUMN public.kpi_cohorts.retention IS 'retained / (retained + lost): 0.75 is three quarters. NULL: none has reached the age.';

CREATE VIEW public.kpi_trial_cohorts AS
SELECT cohort, bundle_id, nullif(tier, '') AS tier, nullif(product_id, '') AS product_id,
  sum(started)::bigint AS started, sum(converted)::bigint AS converted, sum(lapsed)::bigint AS lapsed,
  sum(started - converted - lapsed)::bigint AS pending,
  round(sum(converted) / nullif(sum(converted + lapsed), 0), 4) AS conversion
FROM public.kpi_daily_trials
GROUP BY cohort, bundle_id, tier, product_id;
COMMENT ON VIEW public.kpi_trial_cohorts IS 'Trials by the month in which they started: the app''s own (without a tier and product), and free first periods of the App Store.';
COMMENT ON COLUMN public.kpi_trial_cohorts.cohort IS 'The first day of the month (UTC) in which the trials started.';
COMMENT ON COLUMN public.kpi_trial_cohorts.started IS 'Trials that started in the month. started = converted + lapsed + pending.';
COMMENT ON COLUMN public.kpi_trial_cohorts.converted IS 'Those that were paid for since, as defined for kpi_daily.converted, also after their end.';
COMMENT ON COLUMN public.kpi_trial_cohorts.lapsed IS 'Those that ended and were not paid for.';
COMMENT ON COLUMN public.kpi_trial_cohorts.pending IS 'Those that still run and are not paid for.';
COMMENT ON COLUMN public.kpi_trial_cohorts.conversion IS 'converted / (converted + lapsed): pending trials do not count. NULL: all are pending.';

CREATE VIEW public.kpi_lifetime_value AS
SELECT cohort, bundle_id, nullif(tier, '') AS tier, nullif(product_id, '') AS product_id, currency,
  sum(customers)::bigint AS customers, sum(revenue) AS revenue, sum(refunds) AS refunds,
  sum(revenue - refunds) AS net,
  round(sum(revenue - refunds) / nullif(sum(customers), 0), public.receiptd_currency_digits(currency)) AS ltv
FROM public.kpi_daily_value
GROUP BY cohort, bundle_id, tier, product_id, currency;
COMMENT ON VIEW public.kpi_lifetime_value IS 'Lifetime value until today: what the customers of a month have paid since their first payment. One row for each month, app, tier and product of the first payment, and currency.';
COMMENT ON COLUMN public.kpi_lifetime_value.cohort IS 'The first day of the month (UTC) of the first payment.';
COMMENT ON COLUMN public.kpi_lifetime_value.customers IS 'Subscriptions and lifetime purchases that were first paid for in the month, in this currency.';
COMMENT ON COLUMN public.kpi_lifetime_value.revenue IS 'What they have paid in this currency since, under any product.';
COMMENT ON COLUMN public.kpi_lifetime_value.refunds IS 'What of it was refunded.';
COMMENT ON COLUMN public.kpi_lifetime_value.net IS 'revenue - refunds.';
COMMENT ON COLUMN public.kpi_lifetime_value.ltv IS 'net / customers.';

CREATE VIEW public.kpi_price_changes AS
SELECT day, bundle_id, product_id, nullif(country, '') AS country, currency, former_price, price
FROM (
  SELECT p.*, lag(price) OVER (PARTITION BY bundle_id, product_id, country, currency ORDER BY day) AS former_price
  FROM public.kpi_daily_prices p
) AS sales
WHERE former_price <> price;
COMMENT ON VIEW public.kpi_price_changes IS 'The days on which new customers first paid another price, to annotate the other figures. Offers and renewals are not compared.';
COMMENT ON COLUMN public.kpi_price_changes.former_price IS 'The price of the last purchase on an earlier day.';
COMMENT ON COLUMN public.kpi_price_changes.price IS 'The price of the day''s last purchase.';

-- A column of a view and the column of the table behind it have the same comment, unless they have one of their own.
DO $$
DECLARE
  relation text;
  entry record;
BEGIN
  FOR entry IN SELECT * FROM (VALUES
    ('day', 'The day, UTC.'),
    ('as_of', 'The instant up to which the day was counted: its end, or an instant within the current day. Figures ''at the end of the day'' are as of this instant. NULL: only events were counted.'),
    ('bundle_id', 'The app.'),
    ('tier', 'The tier of the product in question. Without a tier (NULL in the views, empty in the tables): the app''s own trials, events, and products that the catalog does not know.'),
    ('product_id', 'The product of the catalog, whatever alias was bought. Without a product (NULL in the views, empty in the tables): the app''s own trials, and events.'),
    ('country', 'The storefront: ISO 3166-1 alpha-3. Unknown: NULL in views, empty in tables.'),
    ('trials_started', 'Trials begun on the day: the app''s own (without a tier; a device that continues a trial of its account is not counted), and free first periods of the App Store (by the product).'),
    ('converted', 'Trials that became paid on the day, by the product that was paid for: free first periods by the first payment of the same subscription, the app''s own by the first payment of its Apple Account or device, if that came after the start of the trial.'),
    ('active', 'At the end of the day: subscriptions within a paid or free period, by the product of the latest purchase, and lifetime purchases, without refunded ones. Billing grace, the app''s own grace, the app''s own trials and grants are not counted. active = paying + lifetime + non_renewing + the App Store''s part of in_trial.'),
    ('in_trial', 'At the end of the day: auto-renewable subscriptions in a free period (by the product), and running trials of the app''s own whose customer has not paid (without a product).'),
    ('lifetime', 'At the end of the day: purchases that never end.'),
    ('non_renewing', 'At the end of the day: purchases that end and do not renew.'),
    ('paying_start', 'At the start of the day: the number of subscriptions in paying.'),
    ('lost', 'Subscriptions that were paying at the start of the day and are not at its end, for any reason. One that is charged again later was lost all the same.'),
    ('churn', 'lost / paying_start of the day. For a month, divide the sum of lost by paying_start of its first day. NULL: none paid at the start.'),
    ('new', 'First purchases on the day: transactionId is originalTransactionId; free first periods included.'),
    ('renewed', 'Later periods bought on the day: renewals, the first paid period after a free one, changes of product, purchases after an end.'),
    ('cancelled', 'Subscriptions whose renewal was turned off on the day (DID_CHANGE_RENEWAL_STATUS by its signedDate) and was still off at the end of the day. They stay active until their period ends. kpi_losses_daily has the reasons.'),
    ('expired', 'Subscriptions whose period ended on the day and was followed by no other by the end of the day, for any reason; refunded periods are not counted. A subscription that is paid later counts as renewed on the later day. kpi_losses_daily has the reasons.'),
    ('refunded', 'Refunds on the day of Apple''s revocationDate, whenever the purchase was made, by the refunded product. A refund that Apple reverses is no longer counted when the day is computed again.'),
    ('churn_month_1', 'month_1_lost / month_1_cohort: 0.25 is a quarter. NULL: the cohort is empty.'),
    ('churn_month_3', 'month_3_lost / month_3_cohort. NULL: the cohort is empty.'),
    ('churn_month_6', 'month_6_lost / month_6_cohort. NULL: the cohort is empty.'),
    ('month_1_cohort', 'Subscriptions that were first paid for on the day one month before, by the product of that purchase. (A day that the later month does not have counts as its last day.)'),
    ('month_1_lost', 'How many subscriptions of the cohort are not active at the end of the day.'),
    ('month_3_cohort', 'Subscriptions that were first paid for on the day three months before.'),
    ('month_3_lost', 'How many subscriptions of the cohort are not active at the end of the day.'),
    ('month_6_cohort', 'Subscriptions that were first paid for on the day six months before.'),
    ('month_6_lost', 'How many subscriptions of the cohort are not active at the end of the day.'),
    ('currency', 'ISO 4217. Amounts of different currencies are never added.'),
    ('charges', 'Paid purchases and renewals on the day.'),
    ('revenue', 'The sum of the prices of purchases on the day, in the currency''s unit: Apple''s price of the transaction, or the configured price if the transaction has none. Before Apple''s share and taxes.'),
    ('refunds', 'The sum of refunds on the day (revocationDate), at those prices; of a partial refund, the refunded part.'),
    ('net', 'revenue - refunds.'),
    ('mrr', 'Monthly recurring revenue at the end of the day: of each active auto-renewable subscription that was paid for, the price of its period for one month (of a year, a twelfth; of less than half a month, by days), rounded to the currency. Subscriptions that will not renew are counted until they end.'),
    ('mrr_start', 'mrr at the start of the day. mrr = mrr_start + mrr_new + mrr_expansion - mrr_contraction - mrr_churn + mrr_moved.'),
    ('mrr_new', 'The part of subscriptions that were not in mrr at the start of the day: first payments, payments after an end, and changes from another currency.'),
    ('mrr_expansion', 'The increase of subscriptions that were in mrr at the start and at the end: a dearer product or a higher price. By the product at the end.'),
    ('mrr_contraction', 'The decrease of subscriptions that were in mrr at the start and at the end. By the product at the end.'),
    ('mrr_churn', 'The part of subscriptions that are in mrr no longer: ended, refunded, or paid in another currency.'),
    ('mrr_moved', 'What came from other products less what went to others, by changes of product, at the former amount. Over all products of an app it adds up to 0.'),
    ('paying', 'At the end of the day: auto-renewable subscriptions that were paid for. kpi_revenue_daily counts those whose price is known.'),
    ('revenue_per_user', 'mrr / paying: the monthly revenue of one paying subscription. NULL: none pays.'),
    ('paywall_shown', 'Events of this name on the day, as reported by clients; kpi_events_daily has all names. NULL in the rows of products: an event has no product.'),
    ('purchase_initiated', 'Events of this name on the day, as reported by clients. NULL in the rows of products.'),
    ('storekit_errors', 'Events named storekit_error on the day, as reported by clients. NULL in the rows of products.')
  ) AS c (name, meaning)
  LOOP
    FOREACH relation IN ARRAY ARRAY['kpi_daily', 'kpi_daily_figures', 'kpi_daily_money', 'kpi_revenue_daily',
      'kpi_daily_cohorts', 'kpi_daily_trials', 'kpi_daily_value', 'kpi_daily_prices', 'kpi_losses_daily', 'kpi_cohorts',
      'kpi_trial_cohorts', 'kpi_lifetime_value', 'kpi_price_changes'] LOOP
      IF EXISTS (
        SELECT FROM pg_attribute a
        WHERE a.attrelid = format('public.%I', relation)::regclass AND a.attname = entry.name
          AND col_description(a.attrelid, a.attnum) IS NULL)
      THEN
        EXECUTE format('COMMENT ON COLUMN public.%I.%I IS %L', relation, entry.name,
          CASE WHEN relation = 'kpi_daily' AND entry.name IN ('mrr', 'revenue', 'refunds', 'revenue_per_user')
            THEN 'By currency, as {"USD": 7.99}; empty: nothing. ' ELSE '' END || entry.meaning);
      END IF;
    END LOOP;
  END LOOP;
END
$$;
