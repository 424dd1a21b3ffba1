-- Roles and their rights: the role of servers, the role of support, and Supabase's roles.

-- The tables that may be live, first: a later one may have to wait, and the locks on the other tables would be held meanwhile.
LOCK TABLE public.subscriptions, public.profiles, public.user_preferences IN ACCESS EXCLUSIVE MODE;

-- Roles belong to the cluster, not to the database: another database may have the role already, another migration may
-- create it at the same time, and a managed server may not let this role create roles.
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

-- The role for the business: it reads figures, and nothing about a customer.
DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'receiptd_numbers') THEN
    CREATE ROLE receiptd_numbers NOLOGIN;
  END IF;
EXCEPTION
  WHEN duplicate_object OR unique_violation THEN NULL;
  WHEN insufficient_privilege THEN
    RAISE NOTICE 'role receiptd_numbers is missing and may not be created here: have an administrator do it, then grant it SELECT on the views kpi_*';
END
$$;

-- The role that servers run as. The role that migrates owns the tables and could drop them; a server needs no such right.
-- With DATABASE_URL naming receiptd_app and `receiptd serve --no-migrate`, a fault in the server can neither change the
-- schema, nor change or delete records (support_actions, reconcile_runs), nor read other columns of the app's tables.
--
-- A role with LOGIN and no password cannot log in by password until one is set: ALTER ROLE receiptd_app PASSWORD '…'.
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

-- A function, so that it can run again: after an administrator has created the role, and in a later migration that adds a
-- table and replaces the function with a longer list. It revokes rights that are not listed.
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
    ('device_secrets', 'SELECT, INSERT, UPDATE, DELETE'),
    ('grants', 'SELECT, INSERT, UPDATE'),
    ('free_access', 'SELECT, INSERT, UPDATE'),
    ('people', 'SELECT, INSERT, UPDATE'),
    ('people_tokens', 'SELECT, INSERT, DELETE'),
    -- A server adds to these records and never changes them.
    ('support_actions', 'SELECT, INSERT'),
    ('reconcile_runs', 'SELECT, INSERT'),
    ('store_orders', 'SELECT, INSERT, DELETE'),
    ('refused_attempts', 'SELECT, INSERT, DELETE'),
    ('reconcile_positions', 'SELECT, INSERT, UPDATE'),
    ('configured_apps', 'SELECT, INSERT, UPDATE'),
    ('outbox', 'SELECT, INSERT, UPDATE, DELETE'),
    ('outbox_destinations', 'SELECT, INSERT, UPDATE'),
    ('lifecycle_events', 'SELECT, INSERT, UPDATE, DELETE'),
    ('store_calls', 'SELECT, INSERT, UPDATE'),
    ('renewal_extensions', 'SELECT, INSERT, UPDATE'),
    ('consents', 'SELECT, INSERT, UPDATE'),
    ('entitlement_keys', 'SELECT, INSERT, UPDATE'),
    ('log_keys', 'SELECT'),
    ('events', 'SELECT, INSERT, DELETE, UPDATE (customer_id, properties)'),
    ('event_bytes_daily', 'SELECT, INSERT, UPDATE, DELETE'),
    ('kpi_days', 'SELECT, INSERT, UPDATE'),
    ('kpi_daily_figures', 'SELECT, INSERT, DELETE'),
    ('kpi_daily_money', 'SELECT, INSERT, DELETE'),
    ('kpi_daily_cohorts', 'SELECT, INSERT, DELETE'),
    ('kpi_daily_trials', 'SELECT, INSERT, DELETE'),
    ('kpi_daily_value', 'SELECT, INSERT, DELETE'),
    ('kpi_daily_prices', 'SELECT, INSERT, DELETE'),
    ('kpi_losses_daily', 'SELECT, INSERT, DELETE'),
    ('kpi_late_facts', 'SELECT, INSERT, DELETE'),
    ('kpi_events_daily', 'SELECT, INSERT, DELETE'),
    ('retention_positions', 'SELECT'),
    ('client_write_modes', 'SELECT, UPDATE'),
    -- Rows are inserted by triggers, with the owner's rights.
    ('client_writes', 'SELECT, UPDATE, DELETE'),
    ('adoptions', 'SELECT, INSERT, UPDATE'),
    ('adoption_runs', 'SELECT, INSERT, UPDATE'),
    -- Triggers delete from it too, with the owner's rights.
    ('added_profile_rows', 'SELECT, INSERT, DELETE'),
    -- To check that all migrations were applied.
    ('schema_migrations', 'SELECT'),
    -- Of the app's own tables, only the columns that receiptd writes; and created_at, below.
    ('profiles', 'SELECT (id, premium_expires_at, premium_product_id, premium_original_transaction_id), '
      'INSERT (id, premium_expires_at, premium_product_id, premium_original_transaction_id), '
      'UPDATE (premium_expires_at, premium_product_id, premium_original_transaction_id)'),
    ('user_preferences', 'SELECT (user_id, is_premium, bookmark_limit), '
      'INSERT (user_id, is_premium, bookmark_limit), UPDATE (is_premium, bookmark_limit)'),
    ('support_subscriptions', 'SELECT'), ('support_customers', 'SELECT'), ('support_timeline', 'SELECT'),
    ('support_transactions', 'SELECT'),
    ('support_outbox', 'SELECT'), ('support_waiting_notifications', 'SELECT'),
    ('kpi_daily', 'SELECT'), ('kpi_revenue_daily', 'SELECT'), ('kpi_cohorts', 'SELECT'),
    ('kpi_trial_cohorts', 'SELECT'), ('kpi_lifetime_value', 'SELECT'), ('kpi_price_changes', 'SELECT')
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
    -- Where row level security is on, it shows no rows to a role without a policy. Where it is off, a policy has no effect.
    CONTINUE WHEN EXISTS (
      SELECT FROM pg_class WHERE oid = to_regclass('public.' || relation) AND relkind NOT IN ('r', 'p'));
    EXECUTE format('DROP POLICY IF EXISTS "receiptd serves" ON public.%I', relation);
    EXECUTE format(
      'CREATE POLICY "receiptd serves" ON public.%I TO receiptd_app USING (true) WITH CHECK (true)', relation);
  END LOOP;

  -- An identity column needs no right to its sequence; a default does.
  GRANT USAGE ON SEQUENCE public.outbox_changes TO receiptd_app;
  -- Functions that run with the owner's rights.
  GRANT EXECUTE ON FUNCTION public.receiptd_forget_notifications(integer),
    public.receiptd_forget_transactions(integer),
    public.receiptd_erase_actions(text, text, text[], text[], text, text, text, bigint, text, jsonb, timestamptz) TO receiptd_app;
  GRANT EXECUTE ON FUNCTION public.receiptd_erased_account(text), public.receiptd_has_account(text, text),
    public.receiptd_impersonal_claims(text), public.receiptd_readable_claims(text) TO receiptd_app;
  -- For the views of figures, which run with the rights of the role that reads them.
  GRANT EXECUTE ON FUNCTION public.receiptd_currency_digits(text) TO receiptd_app;
END
$$;
COMMENT ON FUNCTION public.receiptd_open_to_application() IS 'Grants the role receiptd_app, if it exists, the rights that serving needs, and revokes all others. For the owner of the tables.';

-- Supabase grants everything that is created in `public` to anon, authenticated and service_role, and its documentation
-- tells people to repeat such grants. So the tables do not depend on grants alone: where those roles exist, row level
-- security shows them no row of a table (receiptd connects as the owner, to whom it does not apply, or as a role with a
-- policy), and views use the rights of the role that reads them (PostgreSQL 15 and later).
DO $$
DECLARE
  own CONSTANT text[] := ARRAY['subscriptions', 'transactions', 'renewals', 'jws_headers', 'notifications', 'trials',
    'devices', 'purchase_devices', 'grants', 'configured_apps', 'free_access', 'support_actions', 'outbox',
    'outbox_destinations', 'lifecycle_events', 'store_calls', 'renewal_extensions', 'consents', 'reconcile_positions', 'reconcile_runs',
    'retention_positions', 'events', 'event_bytes_daily', 'kpi_days', 'kpi_daily_figures', 'kpi_daily_money',
    'kpi_daily_cohorts', 'kpi_daily_trials', 'kpi_daily_value', 'kpi_daily_prices', 'kpi_losses_daily', 'kpi_late_facts',
    'kpi_events_daily', 'schema_migrations', 'entitlement_keys', 'device_secrets', 'log_keys', 'client_write_modes',
    'client_writes', 'adoptions', 'refused_attempts', 'store_orders', 'adoption_runs', 'added_profile_rows', 'people',
    'people_tokens'];
  -- For the server alone.
  secret CONSTANT text[] := ARRAY['entitlement_keys', 'device_secrets', 'log_keys', 'people_tokens'];
  views CONSTANT text[] := ARRAY['support_customers', 'support_subscriptions', 'support_timeline', 'support_transactions',
    'support_outbox', 'support_waiting_notifications', 'kpi_daily', 'kpi_revenue_daily', 'kpi_cohorts',
    'kpi_trial_cohorts', 'kpi_lifetime_value', 'kpi_price_changes'];
  -- The app's own tables.
  apps CONSTANT text[] := ARRAY['profiles', 'user_preferences'];
  functions CONSTANT text[] := ARRAY['receiptd_refuse_header_change()',
    'receiptd_forget_from(integer)', 'receiptd_forget_notifications(integer)',
    'receiptd_forget_transactions(integer)', 'receiptd_open_to_application()', 'receiptd_currency_digits(text)',
    'receiptd_erased_account(text)', 'receiptd_has_account(text, text)', 'receiptd_impersonal_claims(text)',
    'receiptd_readable_claims(text)',
    'receiptd_erase_actions(text, text, text[], text[], text, text, text, bigint, text, jsonb, timestamptz)'];
  clients CONSTANT text[] := ARRAY(SELECT rolname::text FROM pg_roles WHERE rolname IN ('anon', 'authenticated'));
  has_service_role CONSTANT boolean := EXISTS (SELECT FROM pg_roles WHERE rolname = 'service_role');
  has_support CONSTANT boolean := EXISTS (SELECT FROM pg_roles WHERE rolname = 'receiptd_support');
  has_numbers CONSTANT boolean := EXISTS (SELECT FROM pg_roles WHERE rolname = 'receiptd_numbers');
  -- Figures: neither these tables nor these views have a customer's id.
  figures CONSTANT text[] := ARRAY(SELECT name FROM unnest(own || views) AS name WHERE name LIKE 'kpi\_%');
  relation text;
  client text;
  signature text;
  sequence regclass;
  servers text;
BEGIN
  FOREACH signature IN ARRAY functions LOOP
    EXECUTE format('REVOKE ALL ON FUNCTION public.%s FROM PUBLIC', signature);
  END LOOP;
  FOREACH relation IN ARRAY secret LOOP
    EXECUTE format('REVOKE ALL ON public.%I FROM PUBLIC', relation);
  END LOOP;

  IF has_support THEN
    GRANT USAGE ON SCHEMA public TO receiptd_support;
    GRANT EXECUTE ON FUNCTION public.receiptd_currency_digits(text) TO receiptd_support;
    FOREACH relation IN ARRAY own || views || apps LOOP
      IF relation = ANY (secret) THEN
        EXECUTE format('REVOKE ALL ON public.%I FROM receiptd_support', relation);
      ELSE
        EXECUTE format('GRANT SELECT ON public.%I TO receiptd_support', relation);
      END IF;
    END LOOP;
    FOREACH relation IN ARRAY apps LOOP
      -- With row level security on, a grant alone shows no rows.
      IF (SELECT relrowsecurity FROM pg_class WHERE oid = format('public.%I', relation)::regclass) THEN
        EXECUTE format('DROP POLICY IF EXISTS "Support reads" ON public.%I', relation);
        EXECUTE format(
          'CREATE POLICY "Support reads" ON public.%I FOR SELECT TO receiptd_support USING (true)', relation);
      END IF;
    END LOOP;
  END IF;

  IF has_numbers THEN
    GRANT USAGE ON SCHEMA public TO receiptd_numbers;
    GRANT EXECUTE ON FUNCTION public.receiptd_currency_digits(text) TO receiptd_numbers;
    FOREACH relation IN ARRAY figures LOOP
      EXECUTE format('GRANT SELECT ON public.%I TO receiptd_numbers', relation);
    END LOOP;
  END IF;

  IF has_service_role THEN
    -- service_role serves an API that must neither show the secrets nor run the owner's functions.
    FOREACH signature IN ARRAY functions LOOP
      EXECUTE format('REVOKE ALL ON FUNCTION public.%s FROM service_role', signature);
    END LOOP;
    GRANT EXECUTE ON FUNCTION public.receiptd_currency_digits(text) TO service_role;
    FOREACH relation IN ARRAY secret LOOP
      EXECUTE format('REVOKE ALL ON public.%I FROM service_role', relation);
    END LOOP;
  END IF;

  IF cardinality(clients) = 0 THEN
    RETURN;
  END IF;

  FOREACH client IN ARRAY clients LOOP
    FOREACH signature IN ARRAY functions LOOP
      EXECUTE format('REVOKE ALL ON FUNCTION public.%s FROM %I', signature, client);
    END LOOP;
    FOREACH relation IN ARRAY own || views LOOP
      EXECUTE format('REVOKE ALL ON public.%I FROM %I', relation, client);
    END LOOP;
    FOR sequence IN
      SELECT d.objid::regclass FROM pg_depend d JOIN pg_class c ON c.oid = d.objid AND c.relkind = 'S'
      WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')
        AND d.refobjid IN (SELECT to_regclass('public.' || name) FROM unnest(own) AS name)
    LOOP
      EXECUTE format('REVOKE ALL ON SEQUENCE %s FROM %I', sequence, client);
    END LOOP;
    -- Policies decide what a client may do with the app's own tables; no policy or trigger limits these rights.
    FOREACH relation IN ARRAY apps LOOP
      EXECUTE format('REVOKE TRUNCATE, TRIGGER, REFERENCES ON public.%I FROM %I', relation, client);
    END LOOP;
  END LOOP;

  FOREACH relation IN ARRAY own LOOP
    EXECUTE format('ALTER TABLE public.%I ENABLE ROW LEVEL SECURITY', relation);
    -- Without a policy, a server whose role may write but is not the owner would see no rows, and every customer as free.
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

  IF has_support THEN
    FOREACH relation IN ARRAY own || apps LOOP
      CONTINUE WHEN relation = ANY (secret);
      EXECUTE format('DROP POLICY IF EXISTS "receiptd support reads" ON public.%I', relation);
      EXECUTE format(
        'CREATE POLICY "receiptd support reads" ON public.%I FOR SELECT TO receiptd_support USING (true)',
        relation);
    END LOOP;
  END IF;
  IF has_numbers THEN
    FOREACH relation IN ARRAY figures LOOP
      CONTINUE WHEN relation = ANY (views);
      EXECUTE format('DROP POLICY IF EXISTS "receiptd numbers reads" ON public.%I', relation);
      EXECUTE format(
        'CREATE POLICY "receiptd numbers reads" ON public.%I FOR SELECT TO receiptd_numbers USING (true)', relation);
    END LOOP;
  END IF;
END
$$;

SELECT public.receiptd_open_to_application();
