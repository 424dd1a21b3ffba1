-- What is receiptd's own is closed to clients of the database in every way, and support sees every user.
--
-- Supabase grants whatever comes into being in `public` to anon and authenticated, sequences and functions too, and its
-- documentation has people repeat such grants. So nothing here depends on a grant alone: where those roles exist, row
-- level security shows them no row of a table (receiptd connects as the owner, to whom it does not apply, or as a role
-- that was granted to write), and views ask for the rights of whoever reads them (PostgreSQL 15 and later).

REVOKE ALL ON FUNCTION public.receiptd_refuse_premium_change() FROM PUBLIC;

DO $$
DECLARE
  -- The app's own tables are not among them; what this database has not is passed over.
  own text[] := ARRAY(
    SELECT name FROM unnest(ARRAY['subscriptions', 'transactions', 'renewals', 'jws_headers', 'notifications',
      'trials', 'devices', 'grants', 'support_actions', 'outbox', 'outbox_lanes', 'free_access',
      'reconcile_positions', 'reconcile_runs', 'purchase_devices', 'configured_apps', 'schema_migrations', 'entitlement_keys',
      'events', 'kpi_days', 'kpi_daily_figures', 'kpi_daily_money', 'kpi_events_daily']) AS name
    WHERE to_regclass('public.' || name) IS NOT NULL);
  views text[] := ARRAY(
    SELECT name FROM unnest(ARRAY['support_customers', 'support_subscriptions', 'support_timeline',
      'support_outbox', 'support_waiting_notifications', 'kpi_daily', 'kpi_revenue_daily']) AS name
    WHERE to_regclass('public.' || name) IS NOT NULL);
  clients text[] := ARRAY(SELECT rolname::text FROM pg_roles WHERE rolname IN ('anon', 'authenticated'));
  relation text;
  client text;
  servers text;
  sequence regclass;
BEGIN
  IF cardinality(clients) = 0 THEN
    RETURN;
  END IF;

  FOREACH client IN ARRAY clients LOOP
    EXECUTE format('REVOKE ALL ON FUNCTION public.receiptd_refuse_premium_change() FROM %I', client);
    FOREACH relation IN ARRAY own || views LOOP
      EXECUTE format('REVOKE ALL ON public.%I FROM %I', relation, client);
    END LOOP;
    FOR sequence IN
      SELECT d.objid::regclass FROM pg_depend d JOIN pg_class c ON c.oid = d.objid AND c.relkind = 'S'
      WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')
        AND d.refobjid IN (SELECT to_regclass('public.' || name) FROM unnest(own) AS name)
      UNION SELECT 'public.outbox_changes'::regclass
    LOOP
      EXECUTE format('REVOKE ALL ON SEQUENCE %s FROM %I', sequence, client);
    END LOOP;
    -- Of the app's own tables a client may keep what policies decide; these rights pass by every policy and trigger.
    FOREACH relation IN ARRAY ARRAY['profiles', 'user_preferences'] LOOP
      EXECUTE format('REVOKE TRUNCATE, TRIGGER, REFERENCES ON public.%I FROM %I', relation, client);
    END LOOP;
  END LOOP;

  FOREACH relation IN ARRAY own LOOP
    EXECUTE format('ALTER TABLE public.%I ENABLE ROW LEVEL SECURITY', relation);
    -- A server whose role may write but owns nothing would find every table empty, and everybody free.
    SELECT string_agg(DISTINCT quote_ident(r.rolname), ', ') INTO servers
    FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) AS granted JOIN pg_roles r ON r.oid = granted.grantee
    WHERE c.oid = to_regclass('public.' || relation) AND granted.privilege_type = 'INSERT'
      AND r.oid <> c.relowner AND r.rolname <> ALL (clients) AND NOT r.rolbypassrls AND NOT r.rolsuper;
    IF servers IS NOT NULL THEN
      EXECUTE format('DROP POLICY IF EXISTS "receiptd writers" ON public.%I', relation);
      EXECUTE format('CREATE POLICY "receiptd writers" ON public.%I TO %s USING (true)', relation, servers);
    END IF;
  END LOOP;
  IF current_setting('server_version_num')::integer >= 150000 THEN
    FOREACH relation IN ARRAY views LOOP
      EXECUTE format('ALTER VIEW public.%I SET (security_invoker = true)', relation);
    END LOOP;
  END IF;

  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'receiptd_support') THEN
    FOREACH relation IN ARRAY own || ARRAY['profiles', 'user_preferences'] LOOP
      CONTINUE WHEN NOT has_table_privilege('receiptd_support', 'public.' || relation, 'SELECT')
        OR EXISTS (
          SELECT FROM pg_policy
          WHERE polrelid = to_regclass('public.' || relation) AND polname = 'receiptd support reads');
      EXECUTE format(
        'CREATE POLICY "receiptd support reads" ON public.%I FOR SELECT TO receiptd_support USING (true)',
        relation);
    END LOOP;
  END IF;
END
$$;
