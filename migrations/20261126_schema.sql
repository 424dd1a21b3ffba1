-- receiptd's own tables move from `public` to the schema `receiptd`, with the functions that only triggers and other functions
-- call. `subscriptions`, `profiles`, `user_preferences`, the views for people, and the functions that servers and people call stay.
--
-- Each table has a transaction of its own, as in 20261125_roles.sql. This file may run again.
--
-- Servers of the build before look into `public` alone. While they run, each table that moves leaves a view of its name there,
-- with the rights of the table. receiptd_drop_former_names() drops these views; a database in which no server has started gets
-- none.

-- The owner of the tables owns the schema, and alone may create in it: servers look for tables and functions in it first.
DO $$
DECLARE
  owner CONSTANT regrole := (
    SELECT c.relowner FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relname = 'transactions' AND c.relkind IN ('r', 'p') AND n.nspname IN ('public', 'receiptd'));
BEGIN
  IF to_regnamespace('receiptd') IS NULL THEN
    EXECUTE format('CREATE SCHEMA receiptd AUTHORIZATION %s', owner);
  ELSIF (SELECT nspowner FROM pg_namespace WHERE nspname = 'receiptd') <> owner THEN
    RAISE EXCEPTION 'the schema receiptd belongs to another role than the tables' USING ERRCODE = 'duplicate_schema',
      HINT = format('rename it, or make it theirs: ALTER SCHEMA receiptd OWNER TO %s; then run receiptd migrate again', owner);
  END IF;
EXCEPTION WHEN insufficient_privilege THEN
  RAISE EXCEPTION 'the schema receiptd may not be created by this role' USING ERRCODE = 'insufficient_privilege',
    HINT = format('have an administrator run CREATE SCHEMA receiptd AUTHORIZATION %s; then run receiptd migrate again', owner);
END
$$;
COMMENT ON SCHEMA receiptd IS 'receiptd''s own tables. SET search_path = receiptd, public finds them and what is in public.';

CREATE OR REPLACE FUNCTION public.receiptd_relation(name text) RETURNS regclass
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(to_regclass(format('receiptd.%I', name)), to_regclass(format('public.%I', name)))
$$;
COMMENT ON FUNCTION public.receiptd_relation(text) IS 'One of receiptd''s own tables or views, or of the app''s own tables, by its name.';

-- For this file. Replaces a regular expression in the bodies of receiptd's functions.
CREATE OR REPLACE FUNCTION public.receiptd_rewrite(pattern text, replacement text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  found oid;
BEGIN
  FOR found IN
    SELECT oid FROM pg_proc
    WHERE pronamespace IN ('public'::regnamespace, 'receiptd'::regnamespace) AND proname LIKE 'receiptd\_%'
      AND pg_has_role(proowner, 'USAGE') AND prosrc ~ pattern
  LOOP
    EXECUTE regexp_replace(pg_get_functiondef(found), pattern, replacement, 'g');
  END LOOP;
END
$$;

DO $$
DECLARE
  moved regprocedure;
  name text;
BEGIN
  FOR moved, name IN
    SELECT oid::regprocedure, proname FROM pg_proc
    WHERE pronamespace = 'public'::regnamespace AND (prorettype = 'trigger'::regtype AND proname LIKE 'receiptd\_%' OR proname IN (
      'receiptd_forget_from', 'receiptd_note_client_write', 'receiptd_client_write_mode', 'receiptd_is_same_second',
      'receiptd_known_until', 'receiptd_profile_until', 'receiptd_queue_status', 'receiptd_caller', 'receiptd_make_room',
      'receiptd_rename_in_text', 'receiptd_warn_backend', 'receiptd_is_default'))
  LOOP
    EXECUTE format('ALTER FUNCTION %s SET SCHEMA receiptd', moved);
    PERFORM public.receiptd_rewrite('\mpublic\.' || name || '\M', 'receiptd.' || name);
  END LOOP;
END
$$;

-- The migrations that made the guards of the app's own tables name functions where they are no more, so they cannot run again. A
-- later migration that changes a guard makes this function anew.
SET LOCAL search_path = pg_catalog, pg_temp;
DO $$
DECLARE
  statements CONSTANT text := (
    SELECT string_agg(format(E'  DROP TRIGGER IF EXISTS %I ON %s;\n  %s;', tgname, tgrelid::regclass, pg_get_triggerdef(oid)), E'\n'
      ORDER BY tgrelid::regclass::text, tgname)
    FROM pg_trigger
    WHERE tgrelid IN ('public.profiles'::regclass, 'public.user_preferences'::regclass) AND tgname LIKE 'receiptd\_%');
BEGIN
  EXECUTE format('CREATE OR REPLACE FUNCTION public.receiptd_set_guards() RETURNS void LANGUAGE plpgsql '
    'SET search_path = pg_catalog, pg_temp AS %L', E'BEGIN\n' || statements || E'\nEND');
END
$$;
COMMENT ON FUNCTION public.receiptd_set_guards() IS 'Makes the triggers on the app''s own tables again. For the owner of the tables.';

-- The functions that set rights find what they set them on in both schemas.
SELECT public.receiptd_rewrite('to_regclass\(''public\.'' \|\| r\.relation\)', 'public.receiptd_relation(r.relation)');
SELECT public.receiptd_rewrite('p\.pronamespace = ''public''::regnamespace',
  'p.pronamespace IN (''public''::regnamespace, ''receiptd''::regnamespace)');
SELECT public.receiptd_rewrite('IN SCHEMA public REVOKE', 'IN SCHEMA public, receiptd REVOKE');

-- Only the owner may create in the schema. Roles that write tables are those of servers. service_role keeps what it has.
CREATE OR REPLACE FUNCTION public.receiptd_set_schema_rights() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  clients CONSTANT regrole[] := public.receiptd_client_roles();
  role regrole;
  former regclass;
  path text;
BEGIN
  PERFORM public.receiptd_revoke_grant_options('SCHEMA receiptd', nspacl, nspowner)
  FROM pg_namespace WHERE nspname = 'receiptd' AND nspacl IS NOT NULL;
  REVOKE ALL ON SCHEMA receiptd FROM PUBLIC;
  FOR role IN
    SELECT DISTINCT granted.grantee::regrole FROM pg_namespace n CROSS JOIN LATERAL aclexplode(n.nspacl) AS granted
    WHERE n.nspname = 'receiptd' AND granted.grantee NOT IN (0, n.nspowner)
  LOOP
    EXECUTE format('REVOKE %s ON SCHEMA receiptd FROM %s', CASE WHEN role = ANY (clients) THEN 'ALL' ELSE 'CREATE' END, role);
  END LOOP;
  FOR role IN
    SELECT oid::regrole FROM pg_roles
    WHERE rolname IN ('receiptd_app', 'receiptd_support', 'receiptd_numbers', 'service_role')
    UNION SELECT granted.grantee::regrole FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) AS granted
    WHERE public.receiptd_relation('outbox') = c.oid AND granted.privilege_type = 'INSERT'
      AND granted.grantee NOT IN (0, c.relowner) AND granted.grantee <> ALL (clients::oid[])
  LOOP
    EXECUTE format('GRANT USAGE ON SCHEMA receiptd TO %s', role);
  END LOOP;

  -- Views with former names of tables are for servers alone.
  FOR former IN
    SELECT v.oid FROM pg_class v JOIN pg_class t ON t.relname = v.relname AND t.relowner = v.relowner
    WHERE v.relnamespace = 'public'::regnamespace AND v.relkind = 'v' AND t.relnamespace = 'receiptd'::regnamespace
  LOOP
    EXECUTE format('REVOKE ALL ON %s FROM PUBLIC', former);
    FOR role IN
      SELECT oid::regrole FROM pg_roles
      WHERE rolname IN ('receiptd_support', 'receiptd_numbers', 'service_role') OR oid = ANY (clients::oid[])
    LOOP
      EXECUTE format('REVOKE ALL ON %s FROM %s', former, role);
    END LOOP;
  END LOOP;

  FOR role IN SELECT oid::regrole FROM pg_roles WHERE rolname IN ('receiptd_app', 'receiptd_support', 'receiptd_numbers') LOOP
    -- What holds for this database comes before what holds for all.
    SELECT setting INTO path FROM pg_db_role_setting s CROSS JOIN LATERAL unnest(s.setconfig) AS setting
    WHERE s.setrole = role AND setting LIKE 'search_path=%'
      AND s.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
    ORDER BY s.setdatabase DESC LIMIT 1;
    CONTINUE WHEN path = 'search_path=receiptd, public';
    BEGIN
      EXECUTE format('ALTER ROLE %s IN DATABASE %I SET search_path = receiptd, public', role, current_database());
    EXCEPTION WHEN insufficient_privilege THEN
      RAISE NOTICE 'have an administrator run ALTER ROLE % SET search_path = receiptd, public', role;
    END;
  END LOOP;
END
$$;
COMMENT ON FUNCTION public.receiptd_set_schema_rights() IS 'Opens the schema receiptd to receiptd''s roles and to servers, closes it to all others, and has receiptd''s roles look into it.';

CREATE OR REPLACE FUNCTION public.receiptd_set_rights() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM public.receiptd_set_schema_rights();
  PERFORM public.receiptd_set_common_rights();
  PERFORM public.receiptd_set_rights(r.relation) FROM public.receiptd_rights() r;
END
$$;

-- For this file. Leaves a view where a table was. A role can do no more to the view than to the table: it runs with the rights of
-- its reader, and is granted no more than the table. Before PostgreSQL 15 it runs with the rights of its owner, so there it is left
-- for schema_migrations alone, and nothing can be written through it.
CREATE OR REPLACE FUNCTION public.receiptd_leave_name(relation text, comment text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  target CONSTANT regclass := format('receiptd.%I', relation)::regclass;
  name CONSTANT text := format('public.%I', relation);
  role regrole;
  entry record;
BEGIN
  -- Statements that delete a part of a table name the place of a row.
  EXECUTE format('CREATE VIEW %s %s AS SELECT *%s FROM %s%s', name,
    CASE WHEN current_setting('server_version_num')::integer >= 150000 THEN 'WITH (security_invoker = true)' ELSE '' END,
    CASE WHEN relation IN ('consents', 'customer_event_bytes', 'events', 'refused_attempts', 'seen_users')
      THEN ', ctid' ELSE '' END,
    target, CASE WHEN current_setting('server_version_num')::integer >= 150000 THEN '' ELSE ' OFFSET 0' END);
  EXECUTE format('ALTER VIEW %s OWNER TO %s', name, (SELECT relowner::regrole FROM pg_class WHERE oid = target));
  EXECUTE format('COMMENT ON VIEW %s IS %L', name, comment);
  FOR entry IN SELECT attname, col_description(target, attnum) AS comment FROM pg_attribute WHERE attrelid = target AND attnum > 0 LOOP
    EXECUTE format('COMMENT ON COLUMN %s.%I IS %L', name, entry.attname, entry.comment);
  END LOOP;
  -- Rights by default privileges.
  EXECUTE format('REVOKE ALL ON %s FROM PUBLIC', name);
  FOR role IN
    SELECT DISTINCT granted.grantee::regrole FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) AS granted
    WHERE c.oid = name::regclass AND granted.grantee NOT IN (0, c.relowner)
  LOOP
    EXECUTE format('REVOKE ALL ON %s FROM %s', name, role);
  END LOOP;
  -- The rights of receiptd_app, and of other roles of servers.
  FOR entry IN
    SELECT acls.name, granted.grantee::regrole AS role, granted.privilege_type AS privilege FROM (
        SELECT relowner, '' AS name, relacl AS acl FROM pg_class WHERE oid = target
        UNION ALL SELECT NULL, format('(%I)', attname), attacl FROM pg_attribute WHERE attrelid = target AND NOT attisdropped) AS acls
      CROSS JOIN LATERAL aclexplode(acls.acl) AS granted JOIN pg_roles r ON r.oid = granted.grantee
    WHERE granted.privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
      AND (r.rolname = 'receiptd_app' OR r.rolname NOT IN ('receiptd_support', 'receiptd_numbers', 'service_role')
        AND has_schema_privilege(r.oid, 'receiptd', 'USAGE') AND r.oid IS DISTINCT FROM acls.relowner)
  LOOP
    EXECUTE format('GRANT %s %s ON %s TO %s', entry.privilege, entry.name, name, entry.role);
  END LOOP;
END
$$;

-- For this file. Moves a table, if it is one of receiptd's own, and sets the rights on it.
CREATE OR REPLACE FUNCTION public.receiptd_take(relation text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  has_servers boolean;
BEGIN
  IF relation NOT IN ('subscriptions', 'profiles', 'user_preferences')
    AND EXISTS (SELECT FROM pg_class WHERE oid = to_regclass(format('public.%I', relation)) AND relkind IN ('r', 'p'))
  THEN
    -- Each server writes its apps when it starts.
    EXECUTE format('SELECT EXISTS (SELECT FROM %s)', public.receiptd_relation('configured_apps')) INTO has_servers;
    IF relation = 'outbox' AND has_servers THEN
      -- Servers name the sequence, and no view can stand for it.
      ALTER SEQUENCE public.outbox_changes OWNED BY NONE;
    END IF;
    EXECUTE format('ALTER TABLE public.%I SET SCHEMA receiptd', relation);
    PERFORM public.receiptd_rewrite('\mpublic\.' || relation || '\M', 'receiptd.' || relation);
    IF relation = 'schema_migrations' THEN
      PERFORM public.receiptd_leave_name(relation,
        'The applied migrations. Without it, a server of a build before the schema receiptd would migrate the database anew.');
    ELSIF has_servers AND current_setting('server_version_num')::integer >= 150000 THEN
      PERFORM public.receiptd_leave_name(relation,
        'The former name of receiptd.' || relation || ', for servers of the build before. receiptd_drop_former_names() drops it.');
    END IF;
  END IF;
  PERFORM public.receiptd_set_rights(relation);
END
$$;

CREATE OR REPLACE FUNCTION public.receiptd_drop_former_names() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  former regclass;
BEGIN
  FOR former IN
    SELECT oid FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'v' AND obj_description(oid, 'pg_class') LIKE
      'The former name of receiptd.%, for servers of the build before. receiptd\_drop\_former\_names() drops it.'
  LOOP
    EXECUTE format('DROP VIEW %s', former);
  END LOOP;
  IF to_regclass('public.outbox_changes') IS NOT NULL THEN
    ALTER SEQUENCE public.outbox_changes SET SCHEMA receiptd;
    ALTER SEQUENCE receiptd.outbox_changes OWNED BY receiptd.outbox.change;
  END IF;
END
$$;
COMMENT ON FUNCTION public.receiptd_drop_former_names() IS 'Drops the names that servers of the build before the schema receiptd use. For the owner of the tables, once no such server runs.';

SELECT public.receiptd_set_schema_rights();
SELECT public.receiptd_set_common_rights();

-- migrate: new transaction
SELECT public.receiptd_take('seen_users');

-- migrate: new transaction
SELECT public.receiptd_take('customer_event_bytes');

-- migrate: new transaction
SELECT public.receiptd_take('subscriptions');

-- migrate: new transaction
SELECT public.receiptd_take('transactions');

-- migrate: new transaction
SELECT public.receiptd_take('renewals');

-- migrate: new transaction
SELECT public.receiptd_take('jws_headers');

-- migrate: new transaction
SELECT public.receiptd_take('notifications');

-- migrate: new transaction
SELECT public.receiptd_take('purchase_devices');

-- migrate: new transaction
SELECT public.receiptd_take('trials');

-- migrate: new transaction
SELECT public.receiptd_take('devices');

-- migrate: new transaction
SELECT public.receiptd_take('device_secrets');

-- migrate: new transaction
SELECT public.receiptd_take('grants');

-- migrate: new transaction
SELECT public.receiptd_take('free_access');

-- migrate: new transaction
SELECT public.receiptd_take('people');

-- migrate: new transaction
SELECT public.receiptd_take('people_tokens');

-- migrate: new transaction
SELECT public.receiptd_take('support_actions');

-- migrate: new transaction
SELECT public.receiptd_take('reconcile_runs');

-- migrate: new transaction
SELECT public.receiptd_take('store_orders');

-- migrate: new transaction
SELECT public.receiptd_take('refused_attempts');

-- migrate: new transaction
SELECT public.receiptd_take('reconcile_positions');

-- migrate: new transaction
SELECT public.receiptd_take('configured_apps');

-- migrate: new transaction
SELECT public.receiptd_take('outbox');

-- migrate: new transaction
SELECT public.receiptd_take('outbox_destinations');

-- migrate: new transaction
SELECT public.receiptd_take('lifecycle_events');

-- migrate: new transaction
SELECT public.receiptd_take('store_calls');

-- migrate: new transaction
SELECT public.receiptd_take('renewal_extensions');

-- migrate: new transaction
SELECT public.receiptd_take('consents');

-- migrate: new transaction
SELECT public.receiptd_take('entitlement_keys');

-- migrate: new transaction
SELECT public.receiptd_take('log_keys');

-- migrate: new transaction
SELECT public.receiptd_take('events');

-- migrate: new transaction
SELECT public.receiptd_take('event_bytes_daily');

-- migrate: new transaction
SELECT public.receiptd_take('kpi_days');

-- migrate: new transaction
SELECT public.receiptd_take('kpi_daily_figures');

-- migrate: new transaction
SELECT public.receiptd_take('kpi_daily_money');

-- migrate: new transaction
SELECT public.receiptd_take('kpi_daily_cohorts');

-- migrate: new transaction
SELECT public.receiptd_take('kpi_daily_trials');

-- migrate: new transaction
SELECT public.receiptd_take('kpi_daily_value');

-- migrate: new transaction
SELECT public.receiptd_take('kpi_daily_prices');

-- migrate: new transaction
SELECT public.receiptd_take('kpi_losses_daily');

-- migrate: new transaction
SELECT public.receiptd_take('kpi_late_facts');

-- migrate: new transaction
SELECT public.receiptd_take('kpi_events_daily');

-- migrate: new transaction
SELECT public.receiptd_take('retention_positions');

-- migrate: new transaction
SELECT public.receiptd_take('client_write_modes');

-- migrate: new transaction
SELECT public.receiptd_take('client_writes');

-- migrate: new transaction
SELECT public.receiptd_take('adoptions');

-- migrate: new transaction
SELECT public.receiptd_take('adoption_runs');

-- migrate: new transaction
SELECT public.receiptd_take('added_profile_rows');

-- migrate: new transaction
SELECT public.receiptd_take('profiles');

-- migrate: new transaction
SELECT public.receiptd_take('user_preferences');

-- migrate: new transaction
SELECT public.receiptd_take('support_subscriptions');

-- migrate: new transaction
SELECT public.receiptd_take('support_customers');

-- migrate: new transaction
SELECT public.receiptd_take('support_timeline');

-- migrate: new transaction
SELECT public.receiptd_take('support_transactions');

-- migrate: new transaction
SELECT public.receiptd_take('support_outbox');

-- migrate: new transaction
SELECT public.receiptd_take('support_waiting_notifications');

-- migrate: new transaction
SELECT public.receiptd_take('kpi_daily');

-- migrate: new transaction
SELECT public.receiptd_take('kpi_revenue_daily');

-- migrate: new transaction
SELECT public.receiptd_take('kpi_cohorts');

-- migrate: new transaction
SELECT public.receiptd_take('kpi_trial_cohorts');

-- migrate: new transaction
SELECT public.receiptd_take('kpi_lifetime_value');

-- migrate: new transaction
SELECT public.receiptd_take('kpi_price_changes');

-- The last one, since servers wait until all migrations are in it. Its former name stays for good.
-- migrate: new transaction
SELECT public.receiptd_take('schema_migrations');

DROP FUNCTION public.receiptd_rewrite(text, text), public.receiptd_take(text), public.receiptd_leave_name(text, text);

-- No function may name a table or a function where it is no more.
DO $$
DECLARE
  fault text;
BEGIN
  SELECT format('%s names public.%s', p.oid::regprocedure, moved.name) INTO fault
  FROM pg_proc p JOIN (
      SELECT relname AS name FROM pg_class WHERE relnamespace = 'receiptd'::regnamespace AND relkind IN ('r', 'p', 'S')
      UNION SELECT proname FROM pg_proc WHERE pronamespace = 'receiptd'::regnamespace) AS moved
    ON p.prosrc ~ ('\mpublic\.' || moved.name || '\M')
  WHERE p.pronamespace IN ('public'::regnamespace, 'receiptd'::regnamespace) AND p.proname LIKE 'receiptd\_%'
    AND p.proname <> 'receiptd_drop_former_names';
  IF fault IS NOT NULL THEN
    RAISE EXCEPTION '%', fault;
  END IF;
END
$$;
