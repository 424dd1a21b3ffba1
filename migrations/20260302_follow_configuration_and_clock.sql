-- Trials and grants follow the configuration: one of the sandbox counts while its owner is a tester, and a grant while
-- the configuration has its tier.

ALTER TABLE public.grants
  ADD COLUMN IF NOT EXISTS environment text NOT NULL DEFAULT 'Production',
  ADD COLUMN IF NOT EXISTS is_counted boolean NOT NULL DEFAULT true;
COMMENT ON COLUMN public.grants.environment IS 'The environment of the app transaction that it was given for: Production, or Sandbox for testers. Production where it was given for something else.';
COMMENT ON COLUMN public.grants.is_counted IS 'Whether it opens anything while it is open: the configuration has its tier, and one of the sandbox is a tester''s. Each server writes it when it reads its configuration, and with the customer''s profile.';

-- Awards from before this column: those whose Apple Account is known from the sandbox alone.
UPDATE public.grants g SET environment = 'Sandbox'
WHERE g.app_transaction_id IS NOT NULL AND g.environment = 'Production'
  AND EXISTS (
    SELECT FROM public.transactions t WHERE t.bundle_id = g.bundle_id
      AND t.app_transaction_id = g.app_transaction_id AND t.environment = 'Sandbox')
  AND NOT EXISTS (
    SELECT FROM public.transactions t WHERE t.bundle_id = g.bundle_id
      AND t.app_transaction_id = g.app_transaction_id AND t.environment <> 'Sandbox');

-- One trial for a device and an Apple Account, and one award, in each environment: a tester's trial of the sandbox
-- does not use up the customer's own.
ALTER TABLE public.trials DROP CONSTRAINT IF EXISTS trials_bundle_id_device_id_key;
DROP INDEX IF EXISTS public.trials_app_transaction_id_key;
CREATE UNIQUE INDEX IF NOT EXISTS trials_bundle_id_device_id_key
  ON public.trials (bundle_id, device_id, environment);
CREATE UNIQUE INDEX IF NOT EXISTS trials_app_transaction_id_key
  ON public.trials (bundle_id, app_transaction_id, environment) WHERE app_transaction_id IS NOT NULL;
COMMENT ON TABLE public.trials IS 'The app''s own free time, once per device and once per Apple Account in each environment.';
COMMENT ON COLUMN public.trials.environment IS 'Of the app transaction that started it: Production, or Sandbox, whose trial counts for testers alone.';
DROP INDEX IF EXISTS public.grants_app_transaction_id_key;
DROP INDEX IF EXISTS public.grants_grandfathered_user_key;
CREATE UNIQUE INDEX IF NOT EXISTS grants_app_transaction_id_key
  ON public.grants (bundle_id, app_transaction_id, environment) WHERE app_transaction_id IS NOT NULL;
CREATE UNIQUE INDEX IF NOT EXISTS grants_grandfathered_user_key
  ON public.grants (bundle_id, user_id, environment) WHERE granted_by = 'grandfather';

-- Read when a server starts or reads its configuration again.
CREATE INDEX IF NOT EXISTS subscriptions_sandbox_idx
  ON public.subscriptions (bundle_id, original_transaction_id) WHERE environment = 'Sandbox';

CREATE OR REPLACE VIEW public.support_customers AS
SELECT
  held.bundle_id,
  held.user_id,
  held.device_id,
  held.customer,
  coalesce(bool_or(held.has_access) FILTER (WHERE held.source <> 'trial'), false)
    -- A customer who has bought has no claim to the rest of a trial.
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
  -- Purchases of another device that shares them. Whether a sandbox purchase counts depends on the device at hand.
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
    g.is_counted AND g.revoked_at IS NULL AND g.starts_at <= now() AND (g.ends_at IS NULL OR g.ends_at > now()), true,
    g.next_change_at, g.created_at, NULL::timestamptz, NULL::timestamptz
  FROM public.grants g
  UNION ALL
  SELECT 'trial', t.bundle_id, NULL::uuid, t.device_id, t.device_id, NULL::text,
    own.is_counted AND told.started_at <= now() AND grace.ends_at > now(), true, grace.ends_at, told.started_at,
    NULL::timestamptz, CASE WHEN own.is_counted THEN told.ends_at END
  FROM public.trials t
  JOIN public.trials told ON told.id = coalesce(t.continues, t.id)
  LEFT JOIN public.configured_apps app ON app.bundle_id = t.bundle_id
  CROSS JOIN LATERAL (
    SELECT t.environment = 'Production' OR coalesce(app.sandbox_for_everyone
      OR lower(t.device_id) = ANY(app.sandbox_testers), false) AS is_counted
  ) AS own
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

DO $$
BEGIN
  -- A view that is replaced loses its options; 20260203 sets this one where there are clients of the database.
  IF current_setting('server_version_num')::integer >= 150000
    AND EXISTS (SELECT FROM pg_roles WHERE rolname IN ('anon', 'authenticated')) THEN
    ALTER VIEW public.support_customers SET (security_invoker = true);
  END IF;
END
$$;

-- A row that was judged by a clock ahead is found by its date: no status begins in time to come.
ALTER TABLE public.subscriptions ADD COLUMN IF NOT EXISTS status_since timestamptz;
COMMENT ON COLUMN public.subscriptions.status_since IS 'Since when the row says what it says (status, store_status, product_id). NULL: from its beginning, or written before this column was. In time to come: a server whose clock is ahead has written it, and the sweep judges it again.';
CREATE INDEX IF NOT EXISTS subscriptions_status_since_idx
  ON public.subscriptions (status_since) WHERE status_since IS NOT NULL;
CREATE INDEX IF NOT EXISTS grants_followed_until_idx
  ON public.grants (followed_until) WHERE followed_until IS NOT NULL;
-- Rows of that kind from before this column.
UPDATE public.subscriptions SET next_change_at = now() WHERE updated_at > now() AND bundle_id IS NOT NULL;

-- `receiptd grandfather` goes by the date of the app's own row where it knows no better one. A client keeps it as it is:
-- it is not refused, because apps in use write back whole rows, with the date rounded or made anew.
CREATE OR REPLACE FUNCTION public.receiptd_keep_created_at() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  -- The column is the app's: it may be missing, or come later.
  IF NOT EXISTS (
    SELECT FROM pg_attribute
    WHERE attrelid = TG_RELID AND attname = 'created_at' AND NOT attisdropped AND attgenerated = ''
      AND atttypid IN ('timestamptz'::regtype, 'timestamp'::regtype, 'date'::regtype))
  THEN
    RETURN NEW;
  END IF;
  RETURN jsonb_populate_record(NEW, jsonb_build_object('created_at',
    CASE TG_OP WHEN 'UPDATE' THEN to_jsonb(OLD) -> 'created_at' ELSE to_jsonb(now()) END));
END
$$;
COMMENT ON FUNCTION public.receiptd_keep_created_at() IS
  'Keeps the date of a row as it is where a role that speaks for a user writes it: a new row is of now.';
REVOKE ALL ON FUNCTION public.receiptd_keep_created_at() FROM PUBLIC;

DO $$
DECLARE
  relation text;
  other text;
BEGIN
  FOREACH relation IN ARRAY ARRAY['profiles', 'user_preferences'] LOOP
    EXECUTE format('DROP TRIGGER IF EXISTS receiptd_keep_created_at ON public.%I', relation);
    EXECUTE format(
      'CREATE TRIGGER receiptd_keep_created_at BEFORE INSERT OR UPDATE ON public.%I FOR EACH ROW '
      'WHEN (current_user IN (''anon'', ''authenticated'')) EXECUTE FUNCTION public.receiptd_keep_created_at()', relation);
  END LOOP;
  FOR other IN SELECT rolname FROM pg_roles WHERE rolname IN ('anon', 'authenticated', 'service_role') LOOP
    EXECUTE format('REVOKE ALL ON FUNCTION public.receiptd_keep_created_at() FROM %I', other);
  END LOOP;
END
$$;
