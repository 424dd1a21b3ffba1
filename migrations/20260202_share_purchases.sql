-- Several devices of one Apple Account can have one purchase at once, in apps whose configuration says so; and the
-- support views know as much of the configuration as they need to say what the answers say.

CREATE TABLE public.purchase_devices (
  original_transaction_id text NOT NULL,
  device_id text NOT NULL,
  bundle_id text NOT NULL,
  since timestamptz NOT NULL,
  proved_at timestamptz NOT NULL,
  is_barred boolean NOT NULL,
  PRIMARY KEY (original_transaction_id, device_id)
);
CREATE INDEX purchase_devices_device_id_idx ON public.purchase_devices (device_id);
CREATE INDEX purchase_devices_bundle_id_idx ON public.purchase_devices (bundle_id);
COMMENT ON TABLE public.purchase_devices IS
  'Which devices have a purchase at once, in apps with devicesPerPurchase above 1: the one in subscriptions.device_id, and those that share it.';
COMMENT ON COLUMN public.purchase_devices.original_transaction_id IS 'The purchase.';
COMMENT ON COLUMN public.purchase_devices.device_id IS 'The device.';
COMMENT ON COLUMN public.purchase_devices.bundle_id IS 'The app.';
COMMENT ON COLUMN public.purchase_devices.since IS 'Since when the device has it.';
COMMENT ON COLUMN public.purchase_devices.proved_at IS 'When the device last proved it. 1970: before purchases were shared.';
COMMENT ON COLUMN public.purchase_devices.is_barred IS 'Support took it away from the device, whose proof does not bring it back.';

CREATE TABLE public.configured_apps (
  bundle_id text PRIMARY KEY,
  grace_days integer NOT NULL,
  shares_purchases boolean NOT NULL,
  sandbox_for_everyone boolean NOT NULL,
  sandbox_testers text[] NOT NULL
);
COMMENT ON TABLE public.configured_apps IS 'What the support views have to know of the configuration. Each server writes it when it starts and when it reads its configuration again.';
COMMENT ON COLUMN public.configured_apps.bundle_id IS 'The app.';
COMMENT ON COLUMN public.configured_apps.grace_days IS 'The app''s own grace, in days of 24 hours. 0: it has none.';
COMMENT ON COLUMN public.configured_apps.shares_purchases IS 'Whether several devices can have one purchase at once.';
COMMENT ON COLUMN public.configured_apps.sandbox_for_everyone IS 'Whether purchases of the sandbox open something for everybody.';
COMMENT ON COLUMN public.configured_apps.sandbox_testers IS 'For whom they do besides, in lower case.';

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
  CASE WHEN coalesce(bool_or(held.is_counted) FILTER (WHERE held.source = 'subscription'), false)
    THEN max(held.access_ends_at) FILTER (WHERE held.has_access AND held.source <> 'trial')
    ELSE max(held.access_ends_at) FILTER (WHERE held.has_access) END AS access_until,
  coalesce(bool_or(held.has_access AND held.access_ends_at IS NULL), false) AS lifetime,
  count(*) FILTER (WHERE held.source = 'subscription') AS subscriptions,
  min(held.first_seen_at) AS first_seen_at,
  max(held.last_validated_at) AS last_validated_at,
  count(*) FILTER (WHERE held.source = 'grant' AND held.has_access) AS open_grants,
  max(held.trial_ends_at) AS trial_ends_at,
  EXISTS (
    SELECT FROM public.free_access f
    WHERE f.bundle_id = held.bundle_id AND f.starts_at <= now() AND (f.ends_at IS NULL OR f.ends_at > now())
  ) AS free_access
FROM (
  SELECT 'subscription' AS source, s.bundle_id, s.user_id, s.device_id,
    coalesce(s.user_id::text, s.device_id) AS customer, s.tier, s.has_access, s.is_counted,
    s.access_ends_at, s.created_at AS first_seen_at, s.last_validated_at, NULL::timestamptz AS trial_ends_at
  FROM public.support_subscriptions s
  WHERE s.user_id IS NOT NULL OR s.device_id IS NOT NULL
  UNION ALL
  -- What another device has had first and shares. Whether the sandbox counts is a question of who has it.
  SELECT 'subscription', d.bundle_id, NULL::uuid, d.device_id, d.device_id, s.tier,
    own.is_counted AND s.status IN ('active', 'grace'), own.is_counted,
    CASE WHEN own.is_counted THEN coalesce(s.access_ends_at,
      greatest(s.expiry_date + app.grace_days * interval '24 hours', s.grace_expires_at)) END,
    d.since, d.proved_at, NULL::timestamptz
  FROM public.purchase_devices d
  JOIN public.support_subscriptions s USING (original_transaction_id)
  JOIN public.configured_apps app ON app.bundle_id = d.bundle_id
  CROSS JOIN LATERAL (
    SELECT s.tier IS NOT NULL AND (s.environment = 'Production' OR app.sandbox_for_everyone
      OR lower(d.device_id) = ANY(app.sandbox_testers)) AS is_counted
  ) AS own
  WHERE NOT d.is_barred AND app.shares_purchases AND s.device_id IS DISTINCT FROM d.device_id
  UNION ALL
  SELECT 'grant', g.bundle_id, g.user_id, g.device_id, coalesce(g.user_id::text, g.device_id), g.tier,
    g.revoked_at IS NULL AND g.starts_at <= now() AND (g.ends_at IS NULL OR g.ends_at > now()), true,
    g.next_change_at, g.created_at, NULL::timestamptz, NULL::timestamptz
  FROM public.grants g
  UNION ALL
  SELECT 'trial', t.bundle_id, NULL::uuid, t.device_id, t.device_id, NULL::text,
    told.started_at <= now() AND grace.ends_at > now(), true, grace.ends_at, told.started_at, NULL::timestamptz,
    told.ends_at
  FROM public.trials t
  JOIN public.trials told ON told.id = coalesce(t.continues, t.id)
  LEFT JOIN public.configured_apps app ON app.bundle_id = t.bundle_id
  -- After the trial comes the app's own grace, and while access is free both stand still: the end is put off by each
  -- such time that begins before it. By one that goes on, as if it ended now.
  CROSS JOIN LATERAL (
    SELECT stretch.ends_at FROM (
      SELECT free.starts_at, told.ends_at + interval '1 second' * (
        86400 * coalesce(app.grace_days, 0) + coalesce(sum(free.seconds) OVER (
          ORDER BY free.starts_at ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)) AS ends_at
      FROM (
        SELECT f.starts_at,
          extract(epoch FROM coalesce(f.ends_at, now()) - greatest(f.starts_at, told.started_at)) AS seconds
        FROM public.free_access f
        WHERE f.bundle_id = t.bundle_id AND coalesce(f.ends_at, now()) > told.started_at
        UNION ALL VALUES ('infinity'::timestamptz, 0)
      ) AS free
    ) AS stretch
    WHERE stretch.starts_at >= stretch.ends_at ORDER BY stretch.starts_at LIMIT 1
  ) AS grace
) AS held
GROUP BY held.bundle_id, held.user_id, held.device_id, held.customer;

COMMENT ON COLUMN public.support_customers.trial_ends_at IS 'When the trial ends or ended, extensions included; times of free access put it off further, and the app''s own grace follows it: both are in access_until.';

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
-- A purchase's story is told to each device that shares it; there without the purchase, or it would stand in the
-- purchase's story twice.
SELECT t.purchase_date, t.bundle_id, NULL::uuid, d.device_id, NULL::text,
  CASE WHEN t.transaction_id = t.original_transaction_id THEN 'purchase' ELSE 'period' END,
  t.product_id || coalesce(' until ' || to_char(t.expiry_date AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC', ' for good')
    || CASE WHEN t.is_upgraded THEN ', replaced by an upgrade' ELSE '' END || ', shared',
  t.transaction_id, NULL::text
FROM public.purchase_devices d
JOIN public.subscriptions s ON s.original_transaction_id = d.original_transaction_id
  AND s.device_id IS DISTINCT FROM d.device_id
JOIN public.transactions t ON t.original_transaction_id = d.original_transaction_id
WHERE NOT d.is_barred
UNION ALL
SELECT t.revoked_at, t.bundle_id, NULL::uuid, d.device_id, NULL::text,
  'revoked', t.product_id || ' bought ' || to_char(t.purchase_date AT TIME ZONE 'UTC', 'YYYY-MM-DD') || ', shared',
  t.transaction_id, NULL::text
FROM public.purchase_devices d
JOIN public.subscriptions s ON s.original_transaction_id = d.original_transaction_id
  AND s.device_id IS DISTINCT FROM d.device_id
JOIN public.transactions t ON t.original_transaction_id = d.original_transaction_id
WHERE NOT d.is_barred AND t.revoked_at IS NOT NULL
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

DO $$
DECLARE
  relation text;
  client text;
BEGIN
  FOREACH relation IN ARRAY ARRAY['purchase_devices', 'configured_apps', 'support_customers', 'support_timeline'] LOOP
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
