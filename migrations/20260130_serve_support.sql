-- What support does to customers, what grants follow from, and views that answer at a million rows.

ALTER TABLE public.subscriptions ADD COLUMN IF NOT EXISTS taken_from text;
COMMENT ON COLUMN public.subscriptions.taken_from IS 'The customer that support took it from: whose proof does not move it back.';

-- Support looks for the transaction on the customer's receipt, and for a customer of either kind by one name.
CREATE INDEX IF NOT EXISTS subscriptions_transaction_id_idx ON public.subscriptions (transaction_id);
CREATE INDEX IF NOT EXISTS subscriptions_customer_idx
  ON public.subscriptions ((coalesce(user_id::text, device_id)))
  WHERE user_id IS NOT NULL OR device_id IS NOT NULL;

ALTER TABLE public.support_actions ADD COLUMN customer_kind text;
COMMENT ON COLUMN public.support_actions.customer_kind IS 'What from_customer and to_customer are: user or device. NULL: nobody, or written before this column was: a UUID is then a user.';

-- The columns user_id and device_id of support_timeline, once for who gained and once for who lost.
CREATE INDEX support_actions_to_user_idx ON public.support_actions ((
  CASE WHEN customer_kind = 'user' OR customer_kind IS NULL AND to_customer ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
    THEN to_customer::uuid END)) WHERE to_customer IS NOT NULL;
CREATE INDEX support_actions_to_device_idx ON public.support_actions ((
  CASE WHEN customer_kind = 'device' OR customer_kind IS NULL AND to_customer !~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
    THEN to_customer END)) WHERE to_customer IS NOT NULL;
CREATE INDEX support_actions_from_user_idx ON public.support_actions ((
  CASE WHEN customer_kind = 'user' OR customer_kind IS NULL AND from_customer ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
    THEN from_customer::uuid END)) WHERE from_customer IS NOT NULL;
CREATE INDEX support_actions_from_device_idx ON public.support_actions ((
  CASE WHEN customer_kind = 'device' OR customer_kind IS NULL AND from_customer !~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
    THEN from_customer END)) WHERE from_customer IS NOT NULL;
-- An extension tells every device that goes on with the trial.
CREATE INDEX trials_continues_idx ON public.trials (continues) WHERE continues IS NOT NULL;
CREATE INDEX devices_device_id_idx ON public.devices (device_id);

-- One award for an Apple Account and one for a user, for good: one that support took back is not given again.
ALTER TABLE public.grants ADD COLUMN app_transaction_id text;
COMMENT ON COLUMN public.grants.app_transaction_id IS 'Apple''s appTransactionId that it was given for: owning the app from before a date. NULL: given for something else.';
CREATE UNIQUE INDEX grants_app_transaction_id_key
  ON public.grants (bundle_id, app_transaction_id) WHERE app_transaction_id IS NOT NULL;
CREATE UNIQUE INDEX grants_grandfathered_user_key
  ON public.grants (bundle_id, user_id) WHERE granted_by = 'grandfather';

-- What the sweep is to follow, and no more.
DROP INDEX public.grants_due_idx;
CREATE INDEX grants_beginning_idx ON public.grants (starts_at)
  WHERE followed_until IS NULL OR followed_until < starts_at;
CREATE INDEX grants_ending_idx ON public.grants (next_change_at)
  WHERE followed_until IS NULL OR followed_until < next_change_at;

ALTER TABLE public.free_access ADD COLUMN followed_at timestamptz;
COMMENT ON COLUMN public.free_access.followed_at IS 'When all subscriptions whose grace stood still had been judged again. NULL: it is on, or that is still going on.';

CREATE OR REPLACE VIEW public.support_subscriptions AS
SELECT
  s.bundle_id,
  s.user_id,
  s.device_id,
  s.original_transaction_id,
  s.transaction_id,
  CASE WHEN change.is_done THEN s.upcoming_product_id ELSE s.product_id END AS product_id,
  CASE WHEN change.is_done THEN s.upcoming_tier ELSE s.tier END AS tier,
  s.phase_statuses[phase.n] AS status,
  s.phase_store_statuses[phase.n] AS store_status,
  s.is_counted AND s.phase_statuses[phase.n] IN ('active', 'grace') AS has_access,
  CASE WHEN s.is_counted THEN phase.access_ends_at END AS access_ends_at,
  s.purchase_date,
  s.expiry_date,
  s.grace_expires_at,
  s.revoked_at,
  s.auto_renew_enabled,
  s.renews_as,
  s.ownership,
  s.owned_because,
  s.environment,
  s.price_milliunits / 1000.0 AS price,
  s.currency,
  s.last_validated_at,
  s.signed_at,
  s.created_at,
  s.updated_at,
  CASE WHEN NOT change.is_done THEN s.upcoming_product_id END AS upcoming_product_id,
  s.is_counted,
  s.taken_from
FROM public.subscriptions s
CROSS JOIN LATERAL (
  SELECT 1 + count(*) FILTER (WHERE start <= now())::integer AS n,
    min(start) FILTER (WHERE status IN ('expired', 'cancelled')) AS access_ends_at
  FROM unnest(s.phase_starts, s.phase_statuses) AS p (start, status)
) AS phase
CROSS JOIN LATERAL (
  SELECT s.upcoming_product_id IS NOT NULL AND s.purchase_date <= now() AS is_done
) AS change;
COMMENT ON COLUMN public.support_subscriptions.upcoming_product_id IS 'The product of the next period, where it is charged already and another one.';
COMMENT ON COLUMN public.support_subscriptions.is_counted IS 'Whether it opens anything at all: the catalog knows its product, and a sandbox purchase is a tester''s.';
COMMENT ON COLUMN public.support_subscriptions.taken_from IS 'The customer that support took it from.';

CREATE OR REPLACE VIEW public.support_customers AS
SELECT
  held.bundle_id,
  held.user_id,
  held.device_id,
  held.customer,
  coalesce(bool_or(held.has_access) FILTER (WHERE held.source <> 'trial'), false)
    -- A trial is for who has not bought: after that its rest is not owed.
    OR coalesce(bool_or(held.has_access) FILTER (WHERE held.source = 'trial'), false)
      AND NOT coalesce(bool_or(held.is_counted) FILTER (WHERE held.source = 'subscription'), false)
    AS has_access,
  string_agg(DISTINCT held.tier, ', ') FILTER (WHERE held.has_access) AS tiers,
  max(held.access_ends_at) FILTER (WHERE held.has_access) AS access_until,
  coalesce(bool_or(held.has_access AND held.access_ends_at IS NULL), false) AS lifetime,
  count(*) FILTER (WHERE held.source = 'subscription') AS subscriptions,
  min(held.first_seen_at) AS first_seen_at,
  max(held.last_validated_at) AS last_validated_at,
  count(*) FILTER (WHERE held.source = 'grant' AND held.has_access) AS open_grants,
  max(held.access_ends_at) FILTER (WHERE held.source = 'trial') AS trial_ends_at,
  EXISTS (
    SELECT FROM public.free_access f
    WHERE f.bundle_id = held.bundle_id AND f.starts_at <= now() AND (f.ends_at IS NULL OR f.ends_at > now())
  ) AS free_access
FROM (
  SELECT 'subscription' AS source, s.bundle_id, s.user_id, s.device_id,
    coalesce(s.user_id::text, s.device_id) AS customer, s.tier, s.has_access, s.is_counted,
    s.access_ends_at, s.created_at AS first_seen_at, s.last_validated_at
  FROM public.support_subscriptions s
  WHERE s.user_id IS NOT NULL OR s.device_id IS NOT NULL
  UNION ALL
  SELECT 'grant', g.bundle_id, g.user_id, g.device_id, coalesce(g.user_id::text, g.device_id), g.tier,
    g.revoked_at IS NULL AND g.starts_at <= now() AND (g.ends_at IS NULL OR g.ends_at > now()), true,
    g.next_change_at, g.created_at, NULL::timestamptz
  FROM public.grants g
  UNION ALL
  SELECT 'trial', t.bundle_id, NULL::uuid, t.device_id, t.device_id, NULL::text,
    told.started_at <= now() AND told.ends_at > now(), true, told.ends_at, told.started_at, NULL::timestamptz
  FROM public.trials t
  JOIN public.trials told ON told.id = coalesce(t.continues, t.id)
) AS held
GROUP BY held.bundle_id, held.user_id, held.device_id, held.customer;
CREATE INDEX grants_customer_idx ON public.grants ((coalesce(user_id::text, device_id)));
COMMENT ON VIEW public.support_customers IS 'One row per customer of an app: what the customer has, now: bought, given, and as a trial.';
COMMENT ON COLUMN public.support_customers.has_access IS 'Whether anything that the customer has opens something, now. Free access for everyone is in free_access.';
COMMENT ON COLUMN public.support_customers.access_until IS 'The latest end of what is open now. NULL with access: see lifetime.';
COMMENT ON COLUMN public.support_customers.open_grants IS 'How many grants are open now.';
COMMENT ON COLUMN public.support_customers.trial_ends_at IS 'When the trial ends or ended, extensions included; times of free access put it off further.';
COMMENT ON COLUMN public.support_customers.free_access IS 'Whether the app asks nobody for a subscription now.';

CREATE OR REPLACE VIEW public.support_timeline AS
SELECT t.purchase_date AS at, t.bundle_id, s.user_id, s.device_id, t.original_transaction_id,
  CASE WHEN t.transaction_id = t.original_transaction_id THEN 'purchase' ELSE 'period' END AS event,
  t.product_id || coalesce(' until ' || to_char(t.expiry_date AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC', ' for good')
    || CASE WHEN t.is_upgraded THEN ', replaced by an upgrade' ELSE '' END AS what,
  t.transaction_id AS reference,
  t.transaction_id
FROM public.transactions t
LEFT JOIN public.subscriptions s USING (original_transaction_id)
UNION ALL
SELECT t.revoked_at, t.bundle_id, s.user_id, s.device_id, t.original_transaction_id,
  'revoked', t.product_id || ' bought ' || to_char(t.purchase_date AT TIME ZONE 'UTC', 'YYYY-MM-DD'),
  t.transaction_id, t.transaction_id
FROM public.transactions t
LEFT JOIN public.subscriptions s USING (original_transaction_id)
WHERE t.revoked_at IS NOT NULL
UNION ALL
SELECT n.received_at, n.bundle_id, s.user_id, s.device_id, n.original_transaction_id,
  'notification', n.type || coalesce(' ' || n.subtype, '') || ': ' || n.outcome,
  n.notification_uuid::text, NULL::text
FROM public.notifications n
LEFT JOIN public.subscriptions s USING (original_transaction_id)
UNION ALL
-- An action is told to who gained by it ...
SELECT a.at, a.bundle_id,
  CASE WHEN a.customer_kind = 'user' OR a.customer_kind IS NULL AND a.to_customer ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
    THEN a.to_customer::uuid END,
  CASE WHEN a.customer_kind = 'device' OR a.customer_kind IS NULL AND a.to_customer !~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
    THEN a.to_customer END,
  a.original_transaction_id, a.action,
  a.by || ': ' || a.reason || coalesce(' (from ' || a.from_customer || ')', '') || ' (to ' || a.to_customer || ')',
  a.id::text, NULL::text
FROM public.support_actions a
WHERE a.to_customer IS NOT NULL
UNION ALL
-- ... and to who lost by it; there without the purchase, or it would stand in the purchase's story twice.
SELECT a.at, a.bundle_id,
  CASE WHEN a.customer_kind = 'user' OR a.customer_kind IS NULL AND a.from_customer ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
    THEN a.from_customer::uuid END,
  CASE WHEN a.customer_kind = 'device' OR a.customer_kind IS NULL AND a.from_customer !~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
    THEN a.from_customer END,
  NULL::text, a.action,
  a.by || ': ' || a.reason || coalesce(' (' || a.original_transaction_id || ')', '')
    || ' (from ' || a.from_customer || ')' || coalesce(' (to ' || a.to_customer || ')', ''),
  a.id::text, NULL::text
FROM public.support_actions a
WHERE a.from_customer IS NOT NULL AND a.from_customer IS DISTINCT FROM a.to_customer
UNION ALL
SELECT a.at, a.bundle_id, s.user_id, s.device_id, a.original_transaction_id,
  a.action, a.by || ': ' || a.reason, a.id::text, NULL::text
FROM public.support_actions a
LEFT JOIN public.subscriptions s USING (original_transaction_id)
WHERE a.from_customer IS NULL AND a.to_customer IS NULL
UNION ALL
SELECT told.started_at, t.bundle_id, NULL::uuid, t.device_id, NULL::text,
  'trial', 'until ' || to_char(told.ends_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC'
    || CASE WHEN told.extended_days > 0 THEN ', extended by ' || told.extended_days || ' days' ELSE '' END
    || CASE WHEN t.continues IS NOT NULL THEN ', begun on ' || told.device_id ELSE '' END,
  t.id::text, NULL::text
FROM public.trials t
JOIN public.trials told ON told.id = coalesce(t.continues, t.id)
UNION ALL
SELECT d.paired_at, d.bundle_id, NULL::uuid, d.device_id, NULL::text,
  'paired', d.child_device_id || coalesce(' (' || d.name || ')', ''), d.id::text, NULL::text
FROM public.devices d;
COMMENT ON VIEW public.support_timeline IS
  'Everything that happened, for ORDER BY at: filter by user_id, device_id, original_transaction_id or transaction_id.';
COMMENT ON COLUMN public.support_timeline.event IS 'purchase, period (a renewal or a change of product), revoked, notification, trial, paired, or a support action.';
COMMENT ON COLUMN public.support_timeline.reference IS 'The transaction, the notification, the action, the trial or the pairing.';
COMMENT ON COLUMN public.support_timeline.transaction_id IS 'The transaction, where it is about one.';

DO $$
DECLARE
  relation text;
  client text;
BEGIN
  FOREACH relation IN ARRAY ARRAY['support_subscriptions', 'support_customers', 'support_timeline'] LOOP
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'receiptd_support') THEN
      EXECUTE format('GRANT SELECT ON public.%I TO receiptd_support', relation);
    END IF;
    FOREACH client IN ARRAY ARRAY['anon', 'authenticated'] LOOP
      IF EXISTS (SELECT FROM pg_roles WHERE rolname = client) THEN
        EXECUTE format('REVOKE ALL ON public.%I FROM %I', relation, client);
      END IF;
    END LOOP;
  END LOOP;
END
$$;
