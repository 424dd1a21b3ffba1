-- The rights of each role, in one place: receiptd_rights() has the list, and receiptd_set_rights() applies it. A later migration
-- that adds a table, a view, a function or a column replaces the list with a longer one, and calls receiptd_set_rights(relation)
-- for it and receiptd_set_common_rights().
--
-- A reader of a signed transaction can act as its customer, so the parts from which one can be rebuilt are read by the server
-- alone, like keys and hashes: receiptd_secret_columns() names them. The claims stay readable, because support's views use
-- them, and on Supabase these run with the rights of the reader; claims without header and signature prove nothing.

-- Policies and row level security take an exclusive lock. Each relation has a transaction of its own, so that servers go on
-- meanwhile: a transaction that waits for one table while it locks another could meet a server that does the reverse.
-- Meanwhile no role has a right that it has neither before nor after.

CREATE OR REPLACE FUNCTION public.receiptd_secret_columns() RETURNS TABLE (relation text, name text)
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  VALUES
    -- The envelope of a notification of which a part does not verify has the signed parts inside of it.
    ('notifications', 'envelope_claims'), ('notifications', 'envelope_signature'),
    ('notifications', 'transaction_signature'), ('notifications', 'renewal_signature'),
    ('jws_headers', 'header'),
    ('entitlement_keys', 'private_key'), ('device_secrets', 'secret_hash'), ('people_tokens', 'token_hash'),
    ('log_keys', 'key')
$$;
COMMENT ON FUNCTION public.receiptd_secret_columns() IS 'The columns that only the server reads: a reader could act as a customer, as a person of support or as the server.';

-- `app`: the rights of receiptd_app. `support`: the columns that receiptd_support reads; * for all; NULL for none, and then
-- service_role has no right either. receiptd_numbers reads all relations named kpi_*.
--
-- Columns are listed where a table has secrets, where clients choose what it holds (events.properties), and where the app has
-- columns of its own, of which receiptd knows nothing.
CREATE OR REPLACE FUNCTION public.receiptd_rights() RETURNS TABLE (relation text, app text, support text)
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  VALUES
    ('subscriptions', 'SELECT, INSERT, UPDATE', 'id, device_id, original_transaction_id, transaction_id, product_id, tier, '
      'status, purchase_date, expiry_date, auto_renew_enabled, last_validated_at, created_at, updated_at, bundle_id, '
      'environment, user_id, store_status, status_since, ownership, grace_expires_at, revoked_at, price_milliunits, currency, '
      'signed_at, kind, renews_as, upcoming_product_id, upcoming_tier, owned_because, taken_from, app_account_token, '
      'app_transaction_id, is_counted, phase_starts, phase_statuses, phase_store_statuses, next_change_at, store_asked_at, '
      'erased_as, erased_at, erased_tokens, counted_moves, counted_moves_since, counted_unproven_moves, '
      'counted_unproven_moves_since, old_proof_signed_at, old_proof_due_at, '
      'old_proof_asked_at, old_proof_marked_at, old_proof_unknown_at'),
    ('transactions', 'SELECT, INSERT, UPDATE', '*'),
    ('renewals', 'SELECT, INSERT, UPDATE', '*'),
    ('jws_headers', 'SELECT, INSERT', 'id, sha256'),
    ('notifications', 'SELECT, INSERT, UPDATE', 'notification_uuid, type, subtype, bundle_id, environment, '
      'original_transaction_id, source, signed_at, received_at, processed_at, replayed_at, outcome, failure, failure_detail, '
      'envelope_header, transaction_header, transaction_claims, renewal_header, renewal_claims'),
    ('purchase_devices', 'SELECT, INSERT, UPDATE, DELETE', '*'),
    ('trials', 'SELECT, INSERT, UPDATE', '*'),
    ('devices', 'SELECT, INSERT, UPDATE, DELETE', '*'),
    ('device_secrets', 'SELECT, INSERT, UPDATE, DELETE', NULL),
    ('grants', 'SELECT, INSERT, UPDATE', '*'),
    ('free_access', 'SELECT, INSERT, UPDATE', '*'),
    ('seen_users', 'SELECT, INSERT, UPDATE, DELETE', '*'),
    ('people', 'SELECT, INSERT, UPDATE', '*'),
    ('people_tokens', 'SELECT, INSERT, DELETE', NULL),
    -- A server adds to these records and never changes them.
    ('support_actions', 'SELECT, INSERT', '*'),
    ('reconcile_runs', 'SELECT, INSERT', '*'),
    ('store_orders', 'SELECT, INSERT, DELETE', '*'),
    ('refused_attempts', 'SELECT, INSERT, DELETE', '*'),
    ('reconcile_positions', 'SELECT, INSERT, UPDATE', '*'),
    ('configured_apps', 'SELECT, INSERT, UPDATE', '*'),
    ('outbox', 'SELECT, INSERT, UPDATE, DELETE', '*'),
    ('outbox_destinations', 'SELECT, INSERT, UPDATE', '*'),
    ('lifecycle_events', 'SELECT, INSERT, UPDATE, DELETE', '*'),
    ('store_calls', 'SELECT, INSERT, UPDATE', '*'),
    ('renewal_extensions', 'SELECT, INSERT, UPDATE', '*'),
    ('consents', 'SELECT, INSERT, UPDATE, DELETE', '*'),
    ('entitlement_keys', 'SELECT, INSERT, UPDATE', NULL),
    ('log_keys', 'SELECT', NULL),
    ('events', 'SELECT, INSERT, DELETE, UPDATE (customer_id, properties)',
      'bundle_id, customer_id, id, name, at, received_at'),
    ('event_bytes_daily', 'SELECT, INSERT, UPDATE, DELETE', '*'),
    ('customer_event_bytes', 'SELECT, INSERT, UPDATE, DELETE', '*'),
    ('kpi_days', 'SELECT, INSERT, UPDATE', '*'),
    ('kpi_daily_figures', 'SELECT, INSERT, DELETE', '*'),
    ('kpi_daily_money', 'SELECT, INSERT, DELETE', '*'),
    ('kpi_daily_cohorts', 'SELECT, INSERT, DELETE', '*'),
    ('kpi_daily_trials', 'SELECT, INSERT, DELETE', '*'),
    ('kpi_daily_value', 'SELECT, INSERT, DELETE', '*'),
    ('kpi_daily_prices', 'SELECT, INSERT, DELETE', '*'),
    ('kpi_losses_daily', 'SELECT, INSERT, DELETE', '*'),
    ('kpi_late_facts', 'SELECT, INSERT, DELETE', '*'),
    ('kpi_events_daily', 'SELECT, INSERT, DELETE', '*'),
    ('retention_positions', 'SELECT', '*'),
    ('client_write_modes', 'SELECT, UPDATE', '*'),
    -- Rows are inserted by triggers, with the owner's rights.
    ('client_writes', 'SELECT, UPDATE, DELETE', '*'),
    ('adoptions', 'SELECT, INSERT, UPDATE', '*'),
    ('adoption_runs', 'SELECT, INSERT, UPDATE', '*'),
    -- Triggers delete from it too, with the owner's rights.
    ('added_profile_rows', 'SELECT, INSERT, DELETE', '*'),
    -- To check that all migrations were applied.
    ('schema_migrations', 'SELECT', '*'),
    -- The app's own tables: the columns that receiptd writes. Where there is a column created_at, both roles read it too.
    ('profiles', 'SELECT (id, premium_expires_at, premium_product_id, premium_original_transaction_id), '
      'INSERT (id, premium_expires_at, premium_product_id, premium_original_transaction_id), '
      'UPDATE (premium_expires_at, premium_product_id, premium_original_transaction_id)',
      'id, premium_expires_at, premium_product_id, premium_original_transaction_id'),
    ('user_preferences', 'SELECT (user_id, is_premium, bookmark_limit), INSERT (user_id, is_premium, bookmark_limit), '
      'UPDATE (is_premium, bookmark_limit)', 'user_id, is_premium, bookmark_limit'),
    ('support_subscriptions', 'SELECT', '*'), ('support_customers', 'SELECT', '*'), ('support_timeline', 'SELECT', '*'),
    ('support_transactions', 'SELECT', '*'), ('support_outbox', 'SELECT', '*'),
    ('support_waiting_notifications', 'SELECT', '*'),
    ('kpi_daily', 'SELECT', '*'), ('kpi_revenue_daily', 'SELECT', '*'), ('kpi_cohorts', 'SELECT', '*'),
    ('kpi_trial_cohorts', 'SELECT', '*'), ('kpi_lifetime_value', 'SELECT', '*'), ('kpi_price_changes', 'SELECT', '*')
$$;
COMMENT ON FUNCTION public.receiptd_rights() IS 'The rights of receiptd''s roles on its tables and views, and on the app''s own tables.';

-- A policy that shows a role all rows, where row level security is on. It is not made again while it is as wanted, because that
-- takes an exclusive lock.
CREATE OR REPLACE FUNCTION public.receiptd_set_policy(target regclass, name text, command text, roles regrole[], writes boolean)
RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF EXISTS (
    SELECT FROM pg_policy p
    WHERE p.polrelid = target AND p.polname = name AND p.polpermissive AND p.polroles = roles::oid[]
      AND p.polcmd = CASE command WHEN 'ALL' THEN '*' ELSE 'r' END AND pg_get_expr(p.polqual, p.polrelid) = 'true'
      AND (p.polwithcheck IS NOT NULL) = writes)
  THEN
    RETURN;
  END IF;
  EXECUTE format('DROP POLICY IF EXISTS %I ON %s', name, target);
  EXECUTE format('CREATE POLICY %I ON %s FOR %s TO %s USING (true)%s', name, target, command,
    array_to_string(roles, ', '), CASE WHEN writes THEN ' WITH CHECK (true)' ELSE '' END);
END
$$;
COMMENT ON FUNCTION public.receiptd_set_policy(regclass, text, text, regrole[], boolean) IS 'Makes a policy that shows all rows of a table to some roles.';

-- The roles as which PostgREST acts for clients: Supabase's two, and all others that its login role authenticator may take.
CREATE OR REPLACE FUNCTION public.receiptd_client_roles() RETURNS regrole[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(array_agg(r.oid::regrole ORDER BY r.oid), '{}') FROM pg_roles r
  WHERE r.rolname IN ('anon', 'authenticated')
    OR NOT r.rolsuper AND NOT r.rolbypassrls AND r.rolname NOT IN ('authenticator', 'service_role')
      AND r.rolname NOT LIKE 'receiptd\_%' AND r.rolname NOT LIKE 'pg\_%'
      AND NOT pg_has_role(r.oid, (SELECT relowner FROM pg_class WHERE oid = 'public.subscriptions'::regclass), 'MEMBER')
      AND EXISTS (
        SELECT FROM pg_roles login
        WHERE login.rolname = 'authenticator' AND NOT login.rolsuper AND pg_has_role(login.oid, r.oid, 'MEMBER'))
$$;
COMMENT ON FUNCTION public.receiptd_client_roles() IS 'The roles as which PostgREST acts for clients of the database.';

-- Revokes from all roles but the owner the option to pass rights on, and the rights that they passed on: the owner's REVOKE does
-- not reach a right that another role gave, and is refused for a role that gave one.
CREATE OR REPLACE FUNCTION public.receiptd_revoke_grant_options(object text, acl aclitem[], owner oid) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  role regrole;
BEGIN
  FOR role IN
    SELECT DISTINCT granted.grantee::regrole FROM aclexplode(acl) AS granted
    WHERE granted.is_grantable AND granted.grantee <> owner
  LOOP
    EXECUTE format('REVOKE GRANT OPTION FOR ALL ON %s FROM %s CASCADE', object, role);
  END LOOP;
END
$$;
COMMENT ON FUNCTION public.receiptd_revoke_grant_options(text, aclitem[], oid) IS 'Lets only the owner of an object give rights on it, and revokes those that other roles gave.';

-- Revokes each right that the list does not have, also one that came by default privileges or by GRANT … ON ALL TABLES, which
-- Supabase's documentation tells people to repeat. So the tables do not depend on rights alone: where clients have roles, row
-- level security shows them no row (the owner is exempt, receiptd's roles have policies), and views use the rights of their
-- reader (PostgreSQL 15 and later).
--
-- GRANT and REVOKE let readers and writers go on. Everything else that is done here takes an exclusive lock, also DROP POLICY IF
-- EXISTS of a policy that does not exist, so the catalog is asked first.
CREATE OR REPLACE FUNCTION public.receiptd_set_rights(relation text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  application CONSTANT regrole := to_regrole('receiptd_app');
  support CONSTANT regrole := to_regrole('receiptd_support');
  numbers CONSTANT regrole := to_regrole('receiptd_numbers');
  service CONSTANT regrole := to_regrole('service_role');
  clients CONSTANT regrole[] := public.receiptd_client_roles();
  -- Roles that get what the list says, or nothing.
  listed CONSTANT regrole[] := array_remove(ARRAY[support, numbers], NULL) || clients;
  entry record;
  role regrole;
  columns text;
  sequence record;
  servers regrole[];
BEGIN
  SELECT r.*, c.oid::regclass AS target, c.relowner AS owner, c.relkind IN ('r', 'p') AS is_table,
    c.relrowsecurity AS is_secured, coalesce('security_invoker=true' = ANY (c.reloptions), false) AS is_invoker,
    r.relation IN ('profiles', 'user_preferences') AS is_apps,
    EXISTS (SELECT FROM public.receiptd_secret_columns() s WHERE s.relation = r.relation) AS has_secrets,
    CASE WHEN EXISTS (
      SELECT FROM pg_attribute
      WHERE attrelid = c.oid AND r.relation IN ('profiles', 'user_preferences') AND attname = 'created_at' AND NOT attisdropped)
      THEN ', created_at' ELSE '' END AS own_date
  INTO entry
  FROM public.receiptd_rights() r LEFT JOIN pg_class c ON c.oid = to_regclass('public.' || r.relation)
  WHERE r.relation = receiptd_set_rights.relation;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'receiptd_rights() does not list %', receiptd_set_rights.relation USING ERRCODE = 'undefined_object';
  ELSIF entry.target IS NULL THEN
    RETURN;
  END IF;
  IF NOT entry.is_apps THEN
    PERFORM public.receiptd_revoke_grant_options(entry.target::text, acls.acl, entry.owner)
    FROM (
      SELECT relacl FROM pg_class WHERE oid = entry.target
      UNION ALL SELECT attacl FROM pg_attribute WHERE attrelid = entry.target) AS acls (acl)
    WHERE acls.acl IS NOT NULL;
  END IF;
  IF application IS NOT NULL THEN
    EXECUTE format('REVOKE ALL ON %s FROM receiptd_app', entry.target);
    EXECUTE format('GRANT %s ON %s TO receiptd_app', entry.app, entry.target);
    IF entry.own_date <> '' THEN
      EXECUTE format('GRANT SELECT (created_at) ON %s TO receiptd_app', entry.target);
    END IF;
  END IF;

  IF entry.is_apps THEN
    -- Policies decide what a client may do with the app's own tables; no policy or trigger limits these rights.
    EXECUTE format('REVOKE TRUNCATE, TRIGGER, REFERENCES ON %s FROM PUBLIC', entry.target);
    FOREACH role IN ARRAY clients LOOP
      EXECUTE format('REVOKE TRUNCATE, TRIGGER, REFERENCES ON %s FROM %s', entry.target, role);
    END LOOP;
    IF numbers IS NOT NULL THEN
      EXECUTE format('REVOKE ALL ON %s FROM %s', entry.target, numbers);
    END IF;
    -- Rights on further columns, by which an operator opens them to support, stay; a right on the whole table does not.
    IF EXISTS (SELECT FROM pg_class c, aclexplode(c.relacl) AS granted WHERE c.oid = entry.target AND granted.grantee = support)
    THEN
      EXECUTE format('REVOKE ALL ON %s FROM %s', entry.target, support);
    END IF;
  ELSE
    EXECUTE format('REVOKE ALL ON %s FROM PUBLIC', entry.target);
    FOREACH role IN ARRAY listed LOOP
      EXECUTE format('REVOKE ALL ON %s FROM %s', entry.target, role);
    END LOOP;
  END IF;
  IF support IS NOT NULL AND entry.support = '*' THEN
    EXECUTE format('GRANT SELECT ON %s TO %s', entry.target, support);
  ELSIF support IS NOT NULL AND entry.support IS NOT NULL THEN
    EXECUTE format('GRANT SELECT (%s%s) ON %s TO %s', entry.support, entry.own_date, entry.target, support);
  END IF;
  IF numbers IS NOT NULL AND entry.relation LIKE 'kpi\_%' THEN
    EXECUTE format('GRANT SELECT ON %s TO %s', entry.target, numbers);
  END IF;

  -- service_role serves an API, which must not show the secrets. A trigger of its own could read them too.
  IF service IS NOT NULL AND NOT entry.is_apps THEN
    IF entry.support IS NULL THEN
      EXECUTE format('REVOKE ALL ON %s FROM %s', entry.target, service);
    ELSE
      EXECUTE format('REVOKE TRIGGER, REFERENCES ON %s FROM %s', entry.target, service);
    END IF;
    IF entry.has_secrets AND has_table_privilege(service, entry.target, 'SELECT') THEN
      SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) INTO columns FROM pg_attribute a
      WHERE a.attrelid = entry.target AND a.attnum > 0 AND NOT a.attisdropped AND NOT EXISTS (
        SELECT FROM public.receiptd_secret_columns() s WHERE s.relation = entry.relation AND s.name = a.attname);
      EXECUTE format('REVOKE SELECT ON %s FROM %s', entry.target, service);
      EXECUTE format('GRANT SELECT (%s) ON %s TO %s', columns, entry.target, service);
    END IF;
    -- Rights on single columns.
    IF entry.has_secrets THEN
      SELECT string_agg(quote_ident(s.name), ', ') INTO columns FROM public.receiptd_secret_columns() s
      WHERE s.relation = entry.relation;
      EXECUTE format('REVOKE SELECT (%s) ON %s FROM %s', columns, entry.target, service);
    END IF;
  END IF;

  IF NOT entry.is_table THEN
    IF cardinality(clients) > 0 AND NOT entry.is_invoker AND current_setting('server_version_num')::integer >= 150000 THEN
      EXECUTE format('ALTER VIEW %s SET (security_invoker = true)', entry.target);
    END IF;
    RETURN;
  END IF;

  -- An identity column needs no right to its sequence; a default does.
  FOR sequence IN
    SELECT c.oid::regclass AS target, c.relname AS name, c.relacl AS acl, c.relowner AS owner
    FROM pg_depend d JOIN pg_class c ON c.oid = d.objid AND c.relkind = 'S'
    WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')
      AND d.refobjid = entry.target AND NOT entry.is_apps
  LOOP
    PERFORM public.receiptd_revoke_grant_options('SEQUENCE ' || sequence.target::text, sequence.acl, sequence.owner);
    EXECUTE format('REVOKE ALL ON SEQUENCE %s FROM PUBLIC', sequence.target);
    FOREACH role IN ARRAY listed LOOP
      EXECUTE format('REVOKE ALL ON SEQUENCE %s FROM %s', sequence.target, role);
    END LOOP;
    IF application IS NOT NULL AND sequence.name = 'outbox_changes' THEN
      EXECUTE format('GRANT USAGE ON SEQUENCE %s TO receiptd_app', sequence.target);
    END IF;
  END LOOP;

  IF NOT entry.is_apps AND NOT entry.is_secured AND cardinality(clients) > 0 THEN
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', entry.target);
  END IF;
  -- Where row level security is off, a policy has no effect.
  IF application IS NOT NULL THEN
    PERFORM public.receiptd_set_policy(entry.target, 'receiptd serves', 'ALL', ARRAY[application], true);
  END IF;
  IF support IS NOT NULL AND entry.support IS NOT NULL THEN
    PERFORM public.receiptd_set_policy(entry.target, 'receiptd support reads', 'SELECT', ARRAY[support], false);
  END IF;
  IF numbers IS NOT NULL AND entry.relation LIKE 'kpi\_%' THEN
    PERFORM public.receiptd_set_policy(entry.target, 'receiptd numbers reads', 'SELECT', ARRAY[numbers], false);
  END IF;
  -- Without a policy, a server whose role may write but is not the owner would see no rows, and every customer as free.
  IF NOT entry.is_apps AND cardinality(clients) > 0 THEN
    SELECT array_agg(r.oid::regrole ORDER BY r.oid) INTO servers
    FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) AS granted JOIN pg_roles r ON r.oid = granted.grantee
    WHERE c.oid = entry.target AND granted.privilege_type = 'INSERT'
      AND r.oid <> c.relowner AND r.oid <> ALL (clients::oid[]) AND NOT r.rolbypassrls AND NOT r.rolsuper
      AND r.rolname <> 'receiptd_app';
    IF servers IS NOT NULL THEN
      PERFORM public.receiptd_set_policy(entry.target, 'receiptd writers', 'ALL', servers, false);
    ELSIF EXISTS (SELECT FROM pg_policy WHERE polrelid = entry.target AND polname = 'receiptd writers') THEN
      EXECUTE format('DROP POLICY "receiptd writers" ON %s', entry.target);
    END IF;
  END IF;
END
$$;
COMMENT ON FUNCTION public.receiptd_set_rights(text) IS 'Gives each of receiptd''s roles that exists the rights of receiptd_rights() on one table or view, and revokes all others, also those of clients of the database.';

-- Locks no table.
CREATE OR REPLACE FUNCTION public.receiptd_set_common_rights() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  application CONSTANT regrole := to_regrole('receiptd_app');
  support CONSTANT regrole := to_regrole('receiptd_support');
  numbers CONSTANT regrole := to_regrole('receiptd_numbers');
  service CONSTANT regrole := to_regrole('service_role');
  -- Functions that servers call, some of them with the owner's rights, and those that views and their readers call.
  served CONSTANT text[] := ARRAY['receiptd_forget_notifications', 'receiptd_forget_transactions', 'receiptd_erase_actions',
    'receiptd_erased_account', 'receiptd_has_account', 'receiptd_impersonal_claims', 'receiptd_readable_claims',
    'receiptd_rename_in_details', 'receiptd_rename_in_change',
    'receiptd_currency_digits', 'receiptd_secret_columns', 'receiptd_rights', 'receiptd_client_roles'];
  read CONSTANT text[] := ARRAY['receiptd_currency_digits'];
  entry record;
  role regrole;
  kind text;
BEGIN
  -- Rights that the owner of the tables would give these roles on every new table, function and sequence.
  FOREACH role IN ARRAY array_remove(ARRAY[support, numbers], NULL) LOOP
    FOREACH kind IN ARRAY ARRAY['TABLES', 'FUNCTIONS', 'SEQUENCES'] LOOP
      EXECUTE format('ALTER DEFAULT PRIVILEGES IN SCHEMA public REVOKE ALL ON %s FROM %s', kind, role);
      EXECUTE format('ALTER DEFAULT PRIVILEGES REVOKE ALL ON %s FROM %s', kind, role);
    END LOOP;
    EXECUTE format('GRANT USAGE ON SCHEMA public TO %s', role);
  END LOOP;
  IF application IS NOT NULL THEN
    GRANT USAGE ON SCHEMA public TO receiptd_app;
  END IF;
  -- A function in public may fit a call better than PostgreSQL's own of the same name, and then runs with the rights of the
  -- caller: of a server, say. PostgreSQL 15 and later give PUBLIC this right no more. Only the schema's owner can revoke it.
  IF has_schema_privilege('public', 'CREATE WITH GRANT OPTION') THEN
    REVOKE CREATE ON SCHEMA public FROM PUBLIC;
    FOREACH role IN ARRAY array_remove(ARRAY[support, numbers, application], NULL) || public.receiptd_client_roles() LOOP
      EXECUTE format('REVOKE CREATE ON SCHEMA public FROM %s CASCADE', role);
    END LOOP;
  END IF;

  -- Triggers need no right to their function.
  FOR entry IN
    SELECT p.oid::regprocedure AS signature, p.proname AS name, p.proacl AS acl, p.proowner AS owner FROM pg_proc p
    WHERE p.pronamespace = 'public'::regnamespace AND p.proname LIKE 'receiptd\_%' AND pg_has_role(p.proowner, 'USAGE')
  LOOP
    PERFORM public.receiptd_revoke_grant_options('FUNCTION ' || entry.signature::text, entry.acl, entry.owner);
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', entry.signature);
    -- Also from roles that receiptd does not know: some functions erase customers with the owner's rights.
    FOR role IN SELECT DISTINCT grantee::regrole FROM aclexplode(entry.acl) WHERE grantee NOT IN (0, entry.owner) LOOP
      EXECUTE format('REVOKE ALL ON FUNCTION %s FROM %s', entry.signature, role);
    END LOOP;
    -- Conditions of triggers call it with the rights of the statement's role.
    IF entry.name = 'receiptd_writes_premium' THEN
      EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO PUBLIC', entry.signature);
    END IF;
    IF application IS NOT NULL AND entry.name = ANY (served) THEN
      EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', entry.signature, application);
    END IF;
    -- The views of figures run with the rights of the role that reads them.
    FOREACH role IN ARRAY array_remove(ARRAY[support, numbers, service], NULL) LOOP
      IF entry.name = ANY (read) THEN
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', entry.signature, role);
      END IF;
    END LOOP;
  END LOOP;
END
$$;
COMMENT ON FUNCTION public.receiptd_set_common_rights() IS 'Gives each of receiptd''s roles that exists its rights on the schema and on receiptd''s functions, and revokes all others, also those on tables that do not exist yet.';

CREATE OR REPLACE FUNCTION public.receiptd_set_rights() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM public.receiptd_set_common_rights();
  PERFORM public.receiptd_set_rights(r.relation) FROM public.receiptd_rights() r;
END
$$;
COMMENT ON FUNCTION public.receiptd_set_rights() IS 'Gives each of receiptd''s roles that exists the rights of receiptd_rights(), and revokes all others, also those of clients of the database. For the owner of the tables; it can be repeated.';

CREATE OR REPLACE FUNCTION public.receiptd_open_to_application() RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT public.receiptd_set_rights()
$$;
COMMENT ON FUNCTION public.receiptd_open_to_application() IS 'The former name of receiptd_set_rights().';

-- PUBLIC may run a new function, and default privileges may open it and a new table to clients: close them at once.
SELECT public.receiptd_set_common_rights();
SELECT public.receiptd_set_rights('seen_users');

-- migrate: new transaction
SELECT public.receiptd_set_rights('customer_event_bytes');

-- migrate: new transaction
SELECT public.receiptd_set_rights('subscriptions');

-- migrate: new transaction
SELECT public.receiptd_set_rights('transactions');

-- migrate: new transaction
SELECT public.receiptd_set_rights('renewals');

-- migrate: new transaction
SELECT public.receiptd_set_rights('jws_headers');

-- migrate: new transaction
SELECT public.receiptd_set_rights('notifications');

-- migrate: new transaction
SELECT public.receiptd_set_rights('purchase_devices');

-- migrate: new transaction
SELECT public.receiptd_set_rights('trials');

-- migrate: new transaction
SELECT public.receiptd_set_rights('devices');

-- migrate: new transaction
SELECT public.receiptd_set_rights('device_secrets');

-- migrate: new transaction
SELECT public.receiptd_set_rights('grants');

-- migrate: new transaction
SELECT public.receiptd_set_rights('free_access');

-- migrate: new transaction
SELECT public.receiptd_set_rights('people');

-- migrate: new transaction
SELECT public.receiptd_set_rights('people_tokens');

-- migrate: new transaction
SELECT public.receiptd_set_rights('support_actions');

-- migrate: new transaction
SELECT public.receiptd_set_rights('reconcile_runs');

-- migrate: new transaction
SELECT public.receiptd_set_rights('store_orders');

-- migrate: new transaction
SELECT public.receiptd_set_rights('refused_attempts');

-- migrate: new transaction
SELECT public.receiptd_set_rights('reconcile_positions');

-- migrate: new transaction
SELECT public.receiptd_set_rights('configured_apps');

-- migrate: new transaction
SELECT public.receiptd_set_rights('outbox');

-- migrate: new transaction
SELECT public.receiptd_set_rights('outbox_destinations');

-- migrate: new transaction
SELECT public.receiptd_set_rights('lifecycle_events');

-- migrate: new transaction
SELECT public.receiptd_set_rights('store_calls');

-- migrate: new transaction
SELECT public.receiptd_set_rights('renewal_extensions');

-- migrate: new transaction
SELECT public.receiptd_set_rights('consents');

-- migrate: new transaction
SELECT public.receiptd_set_rights('entitlement_keys');

-- migrate: new transaction
SELECT public.receiptd_set_rights('log_keys');

-- migrate: new transaction
SELECT public.receiptd_set_rights('events');

-- migrate: new transaction
SELECT public.receiptd_set_rights('event_bytes_daily');

-- migrate: new transaction
SELECT public.receiptd_set_rights('kpi_days');

-- migrate: new transaction
SELECT public.receiptd_set_rights('kpi_daily_figures');

-- migrate: new transaction
SELECT public.receiptd_set_rights('kpi_daily_money');

-- migrate: new transaction
SELECT public.receiptd_set_rights('kpi_daily_cohorts');

-- migrate: new transaction
SELECT public.receiptd_set_rights('kpi_daily_trials');

-- migrate: new transaction
SELECT public.receiptd_set_rights('kpi_daily_value');

-- migrate: new transaction
SELECT public.receiptd_set_rights('kpi_daily_prices');

-- migrate: new transaction
SELECT public.receiptd_set_rights('kpi_losses_daily');

-- migrate: new transaction
SELECT public.receiptd_set_rights('kpi_late_facts');

-- migrate: new transaction
SELECT public.receiptd_set_rights('kpi_events_daily');

-- migrate: new transaction
SELECT public.receiptd_set_rights('retention_positions');

-- migrate: new transaction
SELECT public.receiptd_set_rights('client_write_modes');

-- migrate: new transaction
SELECT public.receiptd_set_rights('client_writes');

-- migrate: new transaction
SELECT public.receiptd_set_rights('adoptions');

-- migrate: new transaction
SELECT public.receiptd_set_rights('adoption_runs');

-- migrate: new transaction
SELECT public.receiptd_set_rights('added_profile_rows');

-- migrate: new transaction
SELECT public.receiptd_set_rights('schema_migrations');

-- migrate: new transaction
SELECT public.receiptd_set_rights('profiles');

-- migrate: new transaction
SELECT public.receiptd_set_rights('user_preferences');

-- migrate: new transaction
SELECT public.receiptd_set_rights('support_subscriptions');

-- migrate: new transaction
SELECT public.receiptd_set_rights('support_customers');

-- migrate: new transaction
SELECT public.receiptd_set_rights('support_timeline');

-- migrate: new transaction
SELECT public.receiptd_set_rights('support_transactions');

-- migrate: new transaction
SELECT public.receiptd_set_rights('support_outbox');

-- migrate: new transaction
SELECT public.receiptd_set_rights('support_waiting_notifications');

-- migrate: new transaction
SELECT public.receiptd_set_rights('kpi_daily');

-- migrate: new transaction
SELECT public.receiptd_set_rights('kpi_revenue_daily');

-- migrate: new transaction
SELECT public.receiptd_set_rights('kpi_cohorts');

-- migrate: new transaction
SELECT public.receiptd_set_rights('kpi_trial_cohorts');

-- migrate: new transaction
SELECT public.receiptd_set_rights('kpi_lifetime_value');

-- migrate: new transaction
SELECT public.receiptd_set_rights('kpi_price_changes');
