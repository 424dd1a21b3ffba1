-- What support reads, and the role that reads it.

CREATE VIEW public.support_subscriptions AS
SELECT
  s.bundle_id,
  s.user_id,
  s.device_id,
  s.original_transaction_id,
  s.transaction_id,
  s.product_id,
  s.tier,
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
  s.updated_at
FROM public.subscriptions s
CROSS JOIN LATERAL (
  SELECT 1 + count(*) FILTER (WHERE start <= now())::integer AS n,
    min(start) FILTER (WHERE status IN ('expired', 'cancelled')) AS access_ends_at
  FROM unnest(s.phase_starts, s.phase_statuses) AS p (start, status)
) AS phase;
COMMENT ON VIEW public.support_subscriptions IS
  'subscriptions, with both statuses as of now: an end that has passed shows at once.';
COMMENT ON COLUMN public.support_subscriptions.status IS 'active, grace, expired or cancelled, now.';
COMMENT ON COLUMN public.support_subscriptions.store_status IS 'active, billingRetry, billingGrace, expired or revoked, now.';
COMMENT ON COLUMN public.support_subscriptions.has_access IS 'Whether the subscription opens anything, now.';
COMMENT ON COLUMN public.support_subscriptions.access_ends_at IS 'When access ends or ended: after the paid time, Apple''s billing grace and the app''s own grace. NULL: it has no end, or never was.';
COMMENT ON COLUMN public.support_subscriptions.price IS 'The configured price in the currency''s unit; not what was earned.';

CREATE VIEW public.support_customers AS
SELECT
  bundle_id,
  user_id,
  device_id,
  coalesce(user_id::text, device_id) AS customer,
  bool_or(has_access) AS has_access,
  string_agg(DISTINCT tier, ', ') FILTER (WHERE has_access) AS tiers,
  max(access_ends_at) FILTER (WHERE has_access) AS access_until,
  bool_or(has_access AND access_ends_at IS NULL) AS lifetime,
  count(*) AS subscriptions,
  min(created_at) AS first_seen_at,
  max(last_validated_at) AS last_validated_at
FROM public.support_subscriptions
WHERE user_id IS NOT NULL OR device_id IS NOT NULL
GROUP BY bundle_id, user_id, device_id;
COMMENT ON VIEW public.support_customers IS 'One row per customer of an app: what the customer has, now.';
COMMENT ON COLUMN public.support_customers.customer IS 'The user''s or the device''s id.';
COMMENT ON COLUMN public.support_customers.has_access IS 'Whether any of the customer''s subscriptions opens anything, now.';
COMMENT ON COLUMN public.support_customers.tiers IS 'The tiers that are open now.';
COMMENT ON COLUMN public.support_customers.access_until IS 'The latest end of what is open now. NULL with access: see lifetime.';
COMMENT ON COLUMN public.support_customers.lifetime IS 'Whether something that never expires is open.';
COMMENT ON COLUMN public.support_customers.subscriptions IS 'How many subscriptions and purchases there are, over or not.';
COMMENT ON COLUMN public.support_customers.first_seen_at IS 'When the first of them was seen here.';
COMMENT ON COLUMN public.support_customers.last_validated_at IS 'When a device last proved one of them.';

CREATE VIEW public.support_timeline AS
SELECT t.purchase_date AS at, t.bundle_id, s.user_id, s.device_id, t.original_transaction_id,
  CASE WHEN t.transaction_id = t.original_transaction_id THEN 'purchase' ELSE 'period' END AS event,
  t.product_id || coalesce(' until ' || to_char(t.expiry_date AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC', ' for good')
    || CASE WHEN t.is_upgraded THEN ', replaced by an upgrade' ELSE '' END AS what,
  t.transaction_id AS reference
FROM public.transactions t
LEFT JOIN public.subscriptions s USING (original_transaction_id)
UNION ALL
SELECT t.revoked_at, t.bundle_id, s.user_id, s.device_id, t.original_transaction_id,
  'revoked', t.product_id || ' bought ' || to_char(t.purchase_date AT TIME ZONE 'UTC', 'YYYY-MM-DD'),
  t.transaction_id
FROM public.transactions t
LEFT JOIN public.subscriptions s USING (original_transaction_id)
WHERE t.revoked_at IS NOT NULL
UNION ALL
SELECT n.received_at, n.bundle_id, s.user_id, s.device_id, n.original_transaction_id,
  'notification', n.type || coalesce(' ' || n.subtype, '') || ': ' || n.outcome,
  n.notification_uuid::text
FROM public.notifications n
LEFT JOIN public.subscriptions s USING (original_transaction_id)
UNION ALL
SELECT a.at, a.bundle_id, s.user_id, s.device_id, a.original_transaction_id,
  a.action, a.by || ': ' || a.reason || coalesce(' (from ' || a.from_customer || ')', '')
    || coalesce(' (to ' || a.to_customer || ')', ''), a.id::text
FROM public.support_actions a
LEFT JOIN public.subscriptions s USING (original_transaction_id);
COMMENT ON VIEW public.support_timeline IS
  'Everything that happened, for ORDER BY at: filter by user_id, device_id or original_transaction_id.';
COMMENT ON COLUMN public.support_timeline.at IS 'When.';
COMMENT ON COLUMN public.support_timeline.event IS 'purchase, period (a renewal or a change of product), revoked, notification, or a support action.';
COMMENT ON COLUMN public.support_timeline.what IS 'In words.';
COMMENT ON COLUMN public.support_timeline.reference IS 'The transaction, the notification or the action.';

CREATE VIEW public.kpi_daily AS
SELECT
  (t.purchase_date AT TIME ZONE 'UTC')::date AS day,
  t.bundle_id,
  s.tier,
  count(*) FILTER (WHERE t.transaction_id = t.original_transaction_id) AS new,
  count(*) FILTER (WHERE t.transaction_id <> t.original_transaction_id) AS renewed,
  count(*) FILTER (WHERE t.revoked_at IS NOT NULL) AS refunded
FROM public.transactions t
LEFT JOIN public.subscriptions s USING (original_transaction_id)
WHERE t.environment = 'Production'
GROUP BY 1, 2, 3;
COMMENT ON VIEW public.kpi_daily IS 'Purchases of a day (UTC) by app and tier; production only.';
COMMENT ON COLUMN public.kpi_daily.day IS 'The day of the purchase, UTC.';
COMMENT ON COLUMN public.kpi_daily.tier IS 'The tier that the subscription has now.';
COMMENT ON COLUMN public.kpi_daily.new IS 'First purchases: transactionId is originalTransactionId.';
COMMENT ON COLUMN public.kpi_daily.renewed IS 'Later periods: renewals, upgrades, downgrades, coming back.';
COMMENT ON COLUMN public.kpi_daily.refunded IS 'Of the purchases of that day, how many were refunded or revoked by now.';

-- A role is the cluster's, not the database's: another database may have it, another migration may
-- be making it right now, and a managed server may not let us make one at all.
DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'receiptd_support') THEN
    CREATE ROLE receiptd_support NOLOGIN;
  END IF;
EXCEPTION
  WHEN duplicate_object OR unique_violation THEN NULL;
  WHEN insufficient_privilege THEN
    RAISE NOTICE 'role receiptd_support is missing and may not be created here: have an administrator do it, then grant it SELECT';
END
$$;

DO $$
DECLARE
  relation text;
  client text;
BEGIN
  FOREACH relation IN ARRAY ARRAY[
    'subscriptions', 'transactions', 'renewals', 'notifications', 'jws_headers', 'trials', 'devices',
    'grants', 'support_actions', 'outbox', 'schema_migrations',
    'support_subscriptions', 'support_customers', 'support_timeline', 'kpi_daily']
  LOOP
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'receiptd_support') THEN
      EXECUTE format('GRANT SELECT ON public.%I TO receiptd_support', relation);
    END IF;
    -- Supabase opens every new table in public to its API. None of these is for it.
    FOREACH client IN ARRAY ARRAY['anon', 'authenticated'] LOOP
      IF EXISTS (SELECT FROM pg_roles WHERE rolname = client) THEN
        EXECUTE format('REVOKE ALL ON public.%I FROM %I', relation, client);
      END IF;
    END LOOP;
  END LOOP;
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'receiptd_support') THEN
    EXECUTE 'GRANT USAGE ON SCHEMA public TO receiptd_support';
    FOREACH relation IN ARRAY ARRAY['profiles', 'user_preferences'] LOOP
      EXECUTE format('GRANT SELECT ON public.%I TO receiptd_support', relation);
      -- With row level security on, a grant alone shows no rows.
      IF (SELECT relrowsecurity FROM pg_class WHERE oid = format('public.%I', relation)::regclass) THEN
        EXECUTE format('DROP POLICY IF EXISTS "Support reads" ON public.%I', relation);
        EXECUTE format(
          'CREATE POLICY "Support reads" ON public.%I FOR SELECT TO receiptd_support USING (true)', relation);
      END IF;
    END LOOP;
  END IF;
END
$$;
