-- Purchases that give access by an old proof of a client, about which the App Store is asked; and runs of `receiptd adopt` on a
-- file, which decide nothing about the app's own tables.
--
-- `subscriptions` may be live: adding columns does not rewrite it.
ALTER TABLE public.subscriptions
  ADD COLUMN IF NOT EXISTS old_proof_signed_at timestamptz,
  ADD COLUMN IF NOT EXISTS old_proof_due_at timestamptz,
  ADD COLUMN IF NOT EXISTS old_proof_asked_at timestamptz,
  ADD COLUMN IF NOT EXISTS old_proof_marked_at timestamptz,
  ADD COLUMN IF NOT EXISTS old_proof_unknown_at timestamptz;
COMMENT ON COLUMN public.subscriptions.old_proof_signed_at IS 'The signedDate of the proof that first told of the current transaction, if it was older than a day and than the notification history that was read: a refund before may be unknown. NULL: it was not.';
COMMENT ON COLUMN public.subscriptions.old_proof_due_at IS 'When receiptd asks the App Store about such a purchase next. NULL: there is nothing to ask.';
COMMENT ON COLUMN public.subscriptions.old_proof_asked_at IS 'When the App Store answered about such a purchase. NULL: it has not.';
COMMENT ON COLUMN public.subscriptions.old_proof_marked_at IS 'When receiptd stored that proof. NULL: there is none.';
COMMENT ON COLUMN public.subscriptions.old_proof_unknown_at IS 'When the App Store last answered that it does not know such a purchase; it is asked daily for a week, and then weekly. NULL: it knows it, or has not answered.';

-- migrate: new transaction

CREATE INDEX IF NOT EXISTS subscriptions_old_proof_due_idx ON public.subscriptions
  (bundle_id, environment, old_proof_due_at)
  WHERE old_proof_due_at IS NOT NULL;

-- migrate: new transaction

ALTER TABLE public.reconcile_positions ADD COLUMN IF NOT EXISTS history_begins_at timestamptz;
COMMENT ON COLUMN public.reconcile_positions.history_begins_at IS 'When the first notification of the history was signed that was read without a gap until history_read_until: a refund since is known. NULL: none was read.';

ALTER TABLE public.adoption_runs ADD COLUMN IF NOT EXISTS is_of_file boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN public.adoption_runs.is_of_file IS 'Whether the run read a file (--from) in place of the legacy tables.';
ALTER TABLE public.adoption_runs ADD COLUMN IF NOT EXISTS tables text[];
COMMENT ON COLUMN public.adoption_runs.tables IS 'Those of profiles and user_preferences to which the app wrote. NULL: the run has not ended, or ended before there was this column.';
ALTER TABLE public.client_write_modes ADD COLUMN IF NOT EXISTS former_bundle_ids text[] NOT NULL DEFAULT '{}';
COMMENT ON COLUMN public.client_write_modes.former_bundle_ids IS 'The apps that wrote their status to the table and do so no more: a row may still have it.';
UPDATE public.adoption_runs r SET is_of_file = true
WHERE EXISTS (SELECT FROM public.adoptions a WHERE a.run_id = r.id)
  AND NOT EXISTS (SELECT FROM public.adoptions a WHERE a.run_id = r.id AND a.source <> 'file');

-- Replacing a view drops its options; 20261125_roles.sql sets them again.
CREATE OR REPLACE VIEW public.support_subscriptions AS
SELECT
  s.bundle_id,
  s.user_id,
  s.device_id,
  s.original_transaction_id,
  s.transaction_id,
  CASE WHEN change.is_done THEN s.upcoming_product_id ELSE s.product_id END AS product_id,
  CASE WHEN change.is_done THEN s.upcoming_tier ELSE s.tier END AS tier,
  -- A row from before receiptd has no phases.
  coalesce(s.phase_statuses[phase.n], s.status) AS status,
  s.phase_store_statuses[phase.n] AS store_status,
  coalesce(s.is_counted AND s.phase_statuses[phase.n] IN ('active', 'grace'), false) AS has_access,
  -- Once Apple's billing grace is over, the renewal info no longer has its end; the notification of the failed charge has.
  CASE WHEN s.is_counted THEN greatest(phase.access_ends_at, (
    SELECT max(grace.ends_at) FROM public.notifications n
    CROSS JOIN LATERAL (SELECT to_timestamp(
      substring(n.renewal_claims FROM '"gracePeriodExpiresDate" *: *([0-9]+)')::numeric::double precision / 1000) AS ends_at
    ) AS grace
    WHERE phase.access_ends_at <= now() AND s.revoked_at IS NULL AND n.original_transaction_id = s.original_transaction_id
      AND n.subtype = 'GRACE_PERIOD' AND n.signed_at >= s.expiry_date - interval '2 days' AND grace.ends_at <= now()))
  END AS access_ends_at,
  s.purchase_date,
  s.expiry_date,
  s.grace_expires_at,
  s.revoked_at,
  s.auto_renew_enabled,
  s.renews_as,
  s.ownership,
  s.owned_because,
  s.environment,
  CASE WHEN s.ownership IS DISTINCT FROM 'FAMILY_SHARED' THEN round(s.price_milliunits::numeric * 0.001,
    CASE WHEN s.price_milliunits::numeric % 10 = 0 THEN 2 ELSE 3 END) END AS price,
  s.currency,
  s.last_validated_at,
  s.signed_at,
  s.created_at,
  s.updated_at,
  CASE WHEN NOT change.is_done THEN s.upcoming_product_id END AS upcoming_product_id,
  coalesce(s.is_counted, false) AS is_counted,
  s.taken_from,
  s.erased_at,
  coalesce(latest.original_purchase_date, s.purchase_date) AS first_purchase_date,
  latest.storefront,
  latest.offer,
  coalesce(s.auto_renew_enabled AND s.phase_store_statuses[phase.n] IN ('active', 'billingGrace'), false) AS will_renew,
  CASE WHEN s.auto_renew_enabled AND s.renews_as <> coalesce(s.upcoming_product_id, s.product_id)
    THEN s.renews_as END AS pending_product_id,
  CASE WHEN s.auto_renew_enabled THEN renewal.price END AS renewal_price,
  CASE WHEN s.auto_renew_enabled THEN renewal.currency END AS renewal_currency,
  CASE WHEN s.auto_renew_enabled THEN renewal.offer END AS renewal_offer,
  CASE WHEN s.auto_renew_enabled THEN renewal.price_increase END AS price_increase,
  -- After a recovery a late renewal info may still tell of the failed charge, and it has an earlier end.
  CASE WHEN coalesce(renewal.renewal_date >= s.expiry_date, true) THEN
    CASE renewal.expiration_intent WHEN 1 THEN 'cancelled by the customer' WHEN 2 THEN 'not paid'
      WHEN 3 THEN 'price increase not accepted' WHEN 4 THEN 'product not for sale' WHEN 5 THEN 'other' END
  END AS end_reason,
  (SELECT jsonb_object_agg(money.currency, money.paid) FROM (
    SELECT t.currency, sum(t.price - coalesce(t.refunded, 0)) AS paid
    FROM public.support_transactions t
    WHERE t.original_transaction_id = s.original_transaction_id AND t.ownership = 'PURCHASED'
      AND t.environment = 'Production' AND t.currency IS NOT NULL AND t.price > 0
    GROUP BY t.currency) AS money) AS total_paid,
  s.old_proof_signed_at,
  s.old_proof_asked_at,
  s.old_proof_unknown_at
FROM public.subscriptions s
-- Joins on unique columns: a query that uses none of their columns does not run them.
LEFT JOIN public.support_transactions latest ON latest.transaction_id = s.transaction_id
-- A renewal info from before the current period says nothing of its end; see `SubscriptionFacts.renewalOfCurrentPeriod`.
LEFT JOIN (
  SELECT original_transaction_id, renewal_date, signed_at, expiration_intent,
    round((other_claims ->> 'renewalPrice')::numeric * 0.001,
      CASE WHEN (other_claims ->> 'renewalPrice')::numeric % 10 = 0 THEN 2 ELSE 3 END) AS price,
    other_claims ->> 'currency' AS currency,
    CASE WHEN other_claims ? 'offerType' THEN
      CASE other_claims ->> 'offerType' WHEN '1' THEN 'introductory offer' WHEN '2' THEN 'promotional offer'
        WHEN '3' THEN 'offer code' WHEN '4' THEN 'win-back offer' ELSE 'another offer' END
      || coalesce(' ' || (other_claims ->> 'offerIdentifier'), '')
      || coalesce(' (' || lower(replace(other_claims ->> 'offerDiscountType', '_', ' ')) || ')', '') END AS offer,
    CASE other_claims ->> 'priceIncreaseStatus' WHEN '0' THEN 'pending' WHEN '1' THEN 'accepted' END AS price_increase
  FROM public.renewals
) AS renewal ON renewal.original_transaction_id = s.original_transaction_id
  AND (renewal.signed_at >= s.purchase_date
    OR renewal.renewal_date = s.expiry_date AND renewal.signed_at >= s.purchase_date - interval '2 days')
CROSS JOIN LATERAL (
  SELECT 1 + count(*) FILTER (WHERE start <= now())::integer AS n,
    min(start) FILTER (WHERE status IN ('expired', 'cancelled')) AS access_ends_at
  FROM unnest(s.phase_starts, s.phase_statuses) AS p (start, status)
) AS phase
CROSS JOIN LATERAL (
  SELECT s.upcoming_product_id IS NOT NULL AND s.purchase_date <= now() AS is_done
) AS change
-- An erased row without facts tells support nothing.
WHERE s.bundle_id IS NOT NULL OR s.erased_at IS NULL;
COMMENT ON COLUMN public.support_subscriptions.old_proof_signed_at IS 'The signedDate of the proof that first told of the current transaction, if it was old: a refund before receiptd may be unknown. NULL: it was not.';
COMMENT ON COLUMN public.support_subscriptions.old_proof_asked_at IS 'When the App Store answered about that proof. NULL: it has not, or there is none.';
COMMENT ON COLUMN public.support_subscriptions.old_proof_unknown_at IS 'When the App Store last answered that it does not know the purchase. NULL: it knows it, or has not answered.';
