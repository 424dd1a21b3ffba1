-- Anybody may post events without any proof, so what an app keeps of one day has a limit. The sum is kept here and not in a
-- server's memory, so that it holds for all servers together and over restarts.

CREATE TABLE public.event_bytes_daily (
  bundle_id text NOT NULL,
  day date NOT NULL,
  bytes bigint NOT NULL,
  PRIMARY KEY (bundle_id, day)
);
COMMENT ON TABLE public.event_bytes_daily IS 'How many bytes of events an app was charged with on each day of the last 90. Beyond the app''s eventBytesPerDay events are refused.';
COMMENT ON COLUMN public.event_bytes_daily.bundle_id IS 'The app.';
COMMENT ON COLUMN public.event_bytes_daily.day IS 'The day (UTC) on which the events came, by the server''s clock.';
COMMENT ON COLUMN public.event_bytes_daily.bytes IS 'The sizes of the events and of their index entries, before compression. A retry is charged again.';

DO $$
DECLARE
  clients text[] := ARRAY(SELECT rolname::text FROM pg_roles WHERE rolname IN ('anon', 'authenticated'));
  client text;
BEGIN
  FOREACH client IN ARRAY clients LOOP
    EXECUTE format('REVOKE ALL ON public.event_bytes_daily FROM %I', client);
  END LOOP;
  IF cardinality(clients) > 0 THEN
    ALTER TABLE public.event_bytes_daily ENABLE ROW LEVEL SECURITY;
  END IF;
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'receiptd_support') THEN
    GRANT SELECT ON public.event_bytes_daily TO receiptd_support;
    IF cardinality(clients) > 0 THEN
      CREATE POLICY "receiptd support reads" ON public.event_bytes_daily FOR SELECT TO receiptd_support USING (true);
    END IF;
  END IF;
END
$$;

-- As 20260205 has it, with event_bytes_daily.
CREATE OR REPLACE FUNCTION public.receiptd_open_to_application() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
  relation text;
  rights text;
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'receiptd_app') THEN
    RETURN;
  END IF;
  GRANT USAGE ON SCHEMA public TO receiptd_app;

  FOR relation, rights IN VALUES
    ('subscriptions', 'SELECT, INSERT, UPDATE'),
    ('transactions', 'SELECT, INSERT, UPDATE'),
    ('renewals', 'SELECT, INSERT, UPDATE'),
    ('jws_headers', 'SELECT, INSERT'),
    ('notifications', 'SELECT, INSERT, UPDATE'),
    ('purchase_devices', 'SELECT, INSERT, UPDATE, DELETE'),
    ('trials', 'SELECT, INSERT, UPDATE'),
    ('devices', 'SELECT, INSERT, UPDATE, DELETE'),
    ('grants', 'SELECT, INSERT, UPDATE'),
    ('free_access', 'SELECT, INSERT, UPDATE'),
    -- Written down is written down.
    ('support_actions', 'SELECT, INSERT'),
    ('reconcile_runs', 'SELECT, INSERT'),
    ('reconcile_positions', 'SELECT, INSERT, UPDATE'),
    ('configured_apps', 'SELECT, INSERT, UPDATE'),
    ('outbox', 'SELECT, INSERT, UPDATE, DELETE'),
    ('outbox_lanes', 'SELECT, INSERT, UPDATE'),
    ('entitlement_keys', 'SELECT, INSERT, UPDATE'),
    ('events', 'SELECT, INSERT, DELETE'),
    ('event_bytes_daily', 'SELECT, INSERT, UPDATE, DELETE'),
    ('kpi_days', 'SELECT, INSERT, UPDATE'),
    ('kpi_daily_figures', 'SELECT, INSERT, DELETE'),
    ('kpi_daily_money', 'SELECT, INSERT, DELETE'),
    ('kpi_events_daily', 'SELECT, INSERT, DELETE'),
    ('retention_positions', 'SELECT'),
    -- Whether the schema is the one that the program knows.
    ('schema_migrations', 'SELECT'),
    -- Of the app's own tables, the columns that receiptd writes, and when a user came.
    ('profiles', 'SELECT (id, premium_expires_at, premium_product_id, premium_original_transaction_id), '
      'INSERT (id, premium_expires_at, premium_product_id, premium_original_transaction_id), '
      'UPDATE (premium_expires_at, premium_product_id, premium_original_transaction_id)'),
    ('user_preferences', 'SELECT (user_id, is_premium, bookmark_limit), '
      'INSERT (user_id, is_premium, bookmark_limit), UPDATE (is_premium, bookmark_limit)'),
    ('support_subscriptions', 'SELECT'), ('support_customers', 'SELECT'), ('support_timeline', 'SELECT'),
    ('support_outbox', 'SELECT'), ('support_waiting_notifications', 'SELECT'),
    ('kpi_daily', 'SELECT'), ('kpi_revenue_daily', 'SELECT')
  LOOP
    CONTINUE WHEN to_regclass('public.' || relation) IS NULL;
    EXECUTE format('REVOKE ALL ON public.%I FROM receiptd_app', relation);
    EXECUTE format('GRANT %s ON public.%I TO receiptd_app', rights, relation);
    IF relation IN ('profiles', 'user_preferences') AND EXISTS (
      SELECT FROM pg_attribute
      WHERE attrelid = to_regclass('public.' || relation) AND attname = 'created_at' AND NOT attisdropped)
    THEN
      EXECUTE format('GRANT SELECT (created_at) ON public.%I TO receiptd_app', relation);
    END IF;
    -- Row level security, where it is on, shows a role without a policy nothing. Where it is off this is without effect.
    CONTINUE WHEN EXISTS (
      SELECT FROM pg_class WHERE oid = to_regclass('public.' || relation) AND relkind NOT IN ('r', 'p'));
    EXECUTE format('DROP POLICY IF EXISTS "receiptd serves" ON public.%I', relation);
    EXECUTE format(
      'CREATE POLICY "receiptd serves" ON public.%I TO receiptd_app USING (true) WITH CHECK (true)', relation);
  END LOOP;

  -- Identity columns need no right to their sequences; a default does.
  GRANT USAGE ON SEQUENCE public.outbox_changes TO receiptd_app;
  -- What a server may have done by the owner.
  GRANT EXECUTE ON FUNCTION public.receiptd_make_months(), public.receiptd_look_at_months(),
    public.receiptd_forget_notifications(integer), public.receiptd_forget_transactions(integer) TO receiptd_app;
END
$$;

SELECT public.receiptd_open_to_application();
