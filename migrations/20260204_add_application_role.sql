-- The role that servers run as: it may do what serving needs, and nothing to the tables themselves.
--
-- Whoever migrates owns the tables and could drop them. What answers strangers needs no such right: with
-- DATABASE_URL naming receiptd_app and `receiptd serve --no-migrate`, a fault in the server can neither change the
-- schema nor take back what was written down (support_actions, reconcile_runs) nor read what users wrote of themselves.

-- LOGIN without a password lets nobody in by password until one is set: ALTER ROLE receiptd_app PASSWORD '…'.
DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'receiptd_app') THEN
    CREATE ROLE receiptd_app LOGIN;
  END IF;
EXCEPTION
  WHEN duplicate_object OR unique_violation THEN NULL;
  WHEN insufficient_privilege THEN
    RAISE NOTICE 'role receiptd_app is missing and may not be created here: have an administrator run CREATE ROLE receiptd_app LOGIN, then run SELECT receiptd_open_to_application()';
END
$$;

-- A function, so that it can be run again: after the role was made by an administrator, and by a later migration that
-- brings a table (which replaces it with a longer list). Rights that are not listed are taken away.
CREATE FUNCTION public.receiptd_open_to_application() RETURNS void
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
    ('kpi_days', 'SELECT, INSERT, UPDATE'),
    ('kpi_daily_figures', 'SELECT, INSERT, DELETE'),
    ('kpi_daily_money', 'SELECT, INSERT, DELETE'),
    ('kpi_events_daily', 'SELECT, INSERT, DELETE'),
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
END
$$;
COMMENT ON FUNCTION public.receiptd_open_to_application() IS
  'Gives the role receiptd_app, if it is there, what serving needs, and takes away what else it may do here. For the owner of the tables.';
REVOKE ALL ON FUNCTION public.receiptd_open_to_application() FROM PUBLIC;
DO $$
DECLARE
  client text;
BEGIN
  FOREACH client IN ARRAY ARRAY['anon', 'authenticated', 'service_role'] LOOP
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = client) THEN
      EXECUTE format('REVOKE ALL ON FUNCTION public.receiptd_open_to_application() FROM %I', client);
    END IF;
  END LOOP;
END
$$;

SELECT public.receiptd_open_to_application();
