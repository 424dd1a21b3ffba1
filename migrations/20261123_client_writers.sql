-- The roles that may write the premium columns of the app's own tables. Every other role is a client, under the mode of the
-- table: PostgREST acts as any role that an access token names.
--
-- A writer is the owner of the table, a superuser or a role with BYPASSRLS, receiptd_app, service_role, a role in the column
-- `writers`, or a member of one of them that inherits its rights. The column has the roles of the key `premiumWriters` in the
-- configuration, for the app's own backend, and the role of the server.
--
-- The role of a statement is current_user: PostgREST sets it (SET LOCAL ROLE), and a backend signs in with it. Within a function
-- that is SECURITY DEFINER it is the owner of the function, in which the app decides what clients may do.
--
-- This file may run again.

-- The tables may be live: see 20260413_roles.sql.
LOCK TABLE public.profiles, public.user_preferences IN ACCESS EXCLUSIVE MODE;

ALTER TABLE public.client_write_modes ADD COLUMN IF NOT EXISTS writers text[] NOT NULL DEFAULT '{}';
COMMENT ON COLUMN public.client_write_modes.writers IS 'Roles of the database that write premium columns as the server does: premiumWriters in the configuration, and the role of the server.';

CREATE OR REPLACE FUNCTION public.receiptd_writes_premium(relation regclass, role text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce((
    SELECT r.rolbypassrls OR pg_has_role(r.oid, c.relowner, 'USAGE')
      OR EXISTS (
        SELECT FROM pg_roles w
        WHERE (w.rolname IN ('receiptd_app', 'service_role') OR w.rolname = ANY (m.writers))
          AND pg_has_role(r.oid, w.oid, 'USAGE'))
    FROM pg_roles r CROSS JOIN pg_class c LEFT JOIN public.client_write_modes m ON m.table_name = c.relname
    WHERE r.rolname = receiptd_writes_premium.role AND c.oid = relation), false)
$$;
COMMENT ON FUNCTION public.receiptd_writes_premium(regclass, text) IS 'Whether a role writes the premium columns of one of the app''s own tables as the server does. All other roles are clients.';

-- The guards run with the owner's rights and cannot see the role of the statement, but the condition of a trigger can. The
-- condition of this function's triggers passes the role on, and the function decides. Triggers run in the order of their
-- names, so it runs right before the guard, for each row. Without its decision the guard sees a client.
CREATE OR REPLACE FUNCTION public.receiptd_guard_caller() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  role CONSTANT text := current_setting('receiptd.premium_writer');
  writes CONSTANT boolean := public.receiptd_writes_premium(TG_RELID, role);
  written CONSTANT jsonb := to_jsonb(NEW);
BEGIN
  -- A backend that signs in with a role of its own learns why its write has no effect. PostgREST signs in with another role
  -- than that of the statement.
  IF NOT writes AND role = session_user AND public.receiptd_client_write_mode(TG_TABLE_NAME) <> 'accept'
    AND (TG_OP = 'UPDATE' OR (written ->> 'is_premium')::boolean OR coalesce(written ->> 'premium_expires_at',
      written ->> 'premium_product_id', written ->> 'premium_original_transaction_id') IS NOT NULL)
  THEN
    RAISE WARNING 'the premium status of % is not written: the role % is not in premiumWriters of receiptd''s configuration',
      TG_TABLE_NAME, role;
  END IF;
  PERFORM set_config('receiptd.premium_writer', CASE WHEN writes THEN '(server)' ELSE '(client)' END, true);
  RETURN NEW;
END
$$;
COMMENT ON FUNCTION public.receiptd_guard_caller() IS 'Decides whether the statement is a client''s, for the guard of the premium columns, which runs next.';

CREATE OR REPLACE FUNCTION public.receiptd_set_trigger(relation text, name text, moment text, procedure text, condition text)
RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  EXECUTE format('DROP TRIGGER IF EXISTS %I ON public.%I', name, relation);
  EXECUTE format('CREATE TRIGGER %I %s ON public.%I FOR EACH ROW WHEN (%s) EXECUTE FUNCTION public.%I()',
    name, moment, relation, condition, procedure);
END
$$;

DO $$
DECLARE
  relation text;
  changed text;
  -- The server's usual roles and Supabase's clients need no decision.
  asks CONSTANT text := $sql$current_user NOT IN ('anon', 'authenticated', 'receiptd_app', 'service_role')$sql$;
  passes_on CONSTANT text := $sql$set_config('receiptd.premium_writer', current_user::text, true) IS NOT NULL$sql$;
  is_client CONSTANT text := $sql$(current_user IN ('anon', 'authenticated')
    OR current_user NOT IN ('receiptd_app', 'service_role')
      AND current_setting('receiptd.premium_writer', true) IS DISTINCT FROM '(server)')$sql$;
  -- PostgREST signs in with one role and acts as another.
  acts CONSTANT text := 'session_user <> current_user';
BEGIN
  FOR relation, changed IN VALUES
    ('profiles', '(OLD.premium_expires_at, OLD.premium_product_id, OLD.premium_original_transaction_id) IS DISTINCT FROM '
      '(NEW.premium_expires_at, NEW.premium_product_id, NEW.premium_original_transaction_id)'),
    ('user_preferences', '(OLD.is_premium, OLD.bookmark_limit) IS DISTINCT FROM (NEW.is_premium, NEW.bookmark_limit)')
  LOOP
    PERFORM public.receiptd_set_trigger(relation, 'receiptd_guard_caller_insert', 'BEFORE INSERT',
      'receiptd_guard_caller', format('%s AND %s', asks, passes_on));
    PERFORM public.receiptd_set_trigger(relation, 'receiptd_guard_caller_update', 'BEFORE UPDATE',
      'receiptd_guard_caller', format('%s AND (%s OR %s) AND %s', asks, acts, changed, passes_on));
    PERFORM public.receiptd_set_trigger(relation, 'receiptd_guard_premium_insert', 'BEFORE INSERT',
      'receiptd_guard_' || relation, is_client);
    PERFORM public.receiptd_set_trigger(relation, 'receiptd_guard_premium_update', 'BEFORE UPDATE',
      'receiptd_guard_' || relation, format('%s AND %s', is_client, changed));
    -- A backend that signs in with a role of its own may write created_at: it copies users from elsewhere.
    PERFORM public.receiptd_set_trigger(relation, 'receiptd_keep_created_at', 'BEFORE INSERT OR UPDATE',
      'receiptd_keep_created_at', format($sql$current_user IN ('anon', 'authenticated') OR %s AND %s$sql$, acts, is_client));
    PERFORM public.receiptd_set_trigger(relation, 'receiptd_forget_added_update', 'AFTER UPDATE',
      'receiptd_forget_added_row', format($sql$current_user IN ('anon', 'authenticated', 'service_role')
        OR %s AND current_user <> 'receiptd_app'$sql$, acts));
  END LOOP;
END
$$;
DROP FUNCTION public.receiptd_set_trigger(text, text, text, text, text);

COMMENT ON FUNCTION public.receiptd_guard_profiles() IS 'Accepts, notes or refuses a change of the premium columns of profiles by a client.';
COMMENT ON FUNCTION public.receiptd_guard_user_preferences() IS 'Accepts, notes or refuses a change of the premium columns of user_preferences by a client.';
