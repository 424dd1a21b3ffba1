-- Short conditions for the triggers on the app's own tables.
--
-- PostgreSQL reads the conditions of a table's triggers anew for each statement. Those of an UPDATE of profiles had 55 kB. Now most
-- conditions decide about the role of the statement alone, by one call. What the row must be like stands in the triggers' functions,
-- which PostgreSQL compiles once for each session.
LOCK TABLE public.profiles, public.user_preferences IN ACCESS EXCLUSIVE MODE;

-- Conditions call it with the rights of the statement's role. Its name is that of the function below, which PUBLIC may run. A foreign
-- key that cascades changes the key with the rights of the table's owner: then the role of the statement that caused it counts.
CREATE OR REPLACE FUNCTION public.receiptd_writes_premium(relation regclass, acting name, moves boolean) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF moves AND pg_trigger_depth() > 0 THEN
    acting := coalesce(nullif(current_setting('role'), 'none')::name, session_user);
  END IF;
  -- The usual roles of servers and of Supabase's clients need no look-up.
  IF acting IN ('anon', 'authenticated') THEN
    RETURN false;
  ELSIF acting IN ('receiptd_app', 'service_role') THEN
    RETURN true;
  END IF;
  -- The owner of the table comes first: a server may sign in with it.
  RETURN coalesce((SELECT pg_has_role(acting, c.relowner, 'USAGE') FROM pg_class c WHERE c.oid = relation)
    OR (
      SELECT r.rolbypassrls OR EXISTS (
        SELECT FROM pg_roles w
        WHERE (w.rolname IN ('receiptd_app', 'service_role') OR w.rolname = ANY (m.writers))
          AND pg_has_role(r.oid, w.oid, 'USAGE'))
      FROM pg_roles r CROSS JOIN pg_class c LEFT JOIN receiptd.client_write_modes m ON m.table_name = c.relname
      WHERE r.rolname = acting AND c.oid = relation), false);
END
$$;
COMMENT ON FUNCTION public.receiptd_writes_premium(regclass, name, boolean) IS 'Whether a statement of a role writes the premium columns of one of the app''s own tables as the server does, where `moves` tells that it moves a row to another user. All other roles are clients.';

CREATE OR REPLACE FUNCTION public.receiptd_writes_premium(relation regclass, role text) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN public.receiptd_writes_premium(relation, role::name, false);
END
$$;

-- A client's created_at: the stored one, or now for a row that is new to its user. The guards call it in place of a trigger of its own.
-- A backend that signs in with a role of its own may write created_at: it copies users from elsewhere. PostgREST signs in with one role
-- and acts as another.
CREATE OR REPLACE FUNCTION receiptd.receiptd_kept_created_at(relation regclass, old_row jsonb, new_row jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  key CONSTANT text := CASE relation WHEN 'public.profiles'::regclass THEN 'id' ELSE 'user_id' END;
BEGIN
  -- The column belongs to the app: it may be missing, or be added later.
  IF current_setting('role') IN ('none', session_user) AND session_user NOT IN ('anon', 'authenticated') OR NOT EXISTS (
    SELECT FROM pg_attribute
    WHERE attrelid = relation AND attname = 'created_at' AND NOT attisdropped AND attgenerated = ''
      AND atttypid IN ('timestamptz'::regtype, 'timestamp'::regtype, 'date'::regtype))
  THEN
    RETURN '{}';
  END IF;
  RETURN jsonb_build_object('created_at',
    CASE WHEN old_row -> key = new_row -> key THEN old_row -> 'created_at' ELSE to_jsonb(now()) END);
END
$$;
COMMENT ON FUNCTION receiptd.receiptd_kept_created_at(regclass, jsonb, jsonb) IS 'What created_at becomes in a row that a client writes: an object with the column, or without.';
REVOKE ALL ON FUNCTION receiptd.receiptd_kept_created_at(regclass, jsonb, jsonb) FROM PUBLIC;

-- The guards run with the rights of their owner, who may be another role than the one that migrates.
DO $$
DECLARE
  owner name := (SELECT pg_get_userbyid(proowner) FROM pg_proc WHERE oid = 'receiptd.receiptd_guard_profiles()'::regprocedure);
BEGIN
  IF owner <> current_user THEN
    EXECUTE format('ALTER FUNCTION receiptd.receiptd_kept_created_at(regclass, jsonb, jsonb) OWNER TO %I', owner);
  END IF;
END
$$;

-- The guards note in a setting which row they have decided about. Each row of a client begins without the note of another one.
DO $$
DECLARE
  relation text;
  unchanged text;
  guard text;
  changed text;
BEGIN
  FOR relation, unchanged IN VALUES
    ('profiles', '(NEW.id, NEW.premium_expires_at, NEW.premium_product_id, NEW.premium_original_transaction_id)
    IS NOT DISTINCT FROM (OLD.id, OLD.premium_expires_at, OLD.premium_product_id, OLD.premium_original_transaction_id)'),
    ('user_preferences', '(NEW.user_id, NEW.is_premium, NEW.bookmark_limit)
    IS NOT DISTINCT FROM (OLD.user_id, OLD.is_premium, OLD.bookmark_limit)')
  LOOP
    guard := pg_get_functiondef(format('receiptd.receiptd_guard_%s()', relation)::regprocedure);
    changed := regexp_replace(guard, '\nBEGIN\n', format($begin$
BEGIN
  PERFORM set_config('receiptd.guarded_%s', '', true);
  NEW := jsonb_populate_record(NEW, receiptd.receiptd_kept_created_at(TG_RELID, to_jsonb(OLD), to_jsonb(NEW)));
  IF TG_OP = 'UPDATE' AND %s
  THEN
    RETURN NEW;
  END IF;
$begin$, relation, unchanged));
    IF changed = guard THEN
      RAISE EXCEPTION 'the guard of % has no BEGIN', relation;
    END IF;
    EXECUTE changed;
  END LOOP;
END
$$;

CREATE OR REPLACE FUNCTION receiptd.receiptd_guard_written_row() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  mode_now text;
BEGIN
  -- A row without premium, or with the premium that it had.
  IF TG_TABLE_NAME = 'profiles' THEN
    IF (NEW.premium_expires_at, NEW.premium_product_id, NEW.premium_original_transaction_id) IS NULL
      OR TG_OP = 'UPDATE' AND (NEW.id, NEW.premium_expires_at, NEW.premium_product_id, NEW.premium_original_transaction_id)
        IS NOT DISTINCT FROM (OLD.id, OLD.premium_expires_at, OLD.premium_product_id, OLD.premium_original_transaction_id)
    THEN
      RETURN NULL;
    END IF;
  ELSIF NEW.is_premium IS NOT TRUE
    OR TG_OP = 'UPDATE' AND (NEW.user_id, NEW.is_premium) IS NOT DISTINCT FROM (OLD.user_id, OLD.is_premium)
  THEN
    RETURN NULL;
  END IF;
  mode_now := receiptd.receiptd_client_write_mode(TG_TABLE_NAME);
  IF mode_now <> 'accept' THEN
    RAISE EXCEPTION 'the premium status of % is written by the server only', TG_TABLE_NAME
      USING ERRCODE = 'insufficient_privilege',
        DETAIL = 'A trigger of the table changed the user or the premium status of the row after receiptd had checked the row.',
        HINT = 'Let the trigger run before receiptd''s: triggers run in the order of their names.';
  END IF;
  -- No premium row without a note: an error ends the statement.
  IF TG_TABLE_NAME = 'profiles' THEN
    PERFORM receiptd.receiptd_note_client_write('profiles', NEW.id, mode_now, NEW.premium_original_transaction_id,
      NEW.premium_product_id, NEW.premium_expires_at, NULL);
  ELSE
    PERFORM receiptd.receiptd_note_client_write('user_preferences', NEW.user_id, mode_now, NULL, NULL, NULL, NEW.is_premium);
  END IF;
  RETURN NULL;
END
$$;

-- It runs with the rights of the statement's role, and sees it.
CREATE OR REPLACE FUNCTION receiptd.receiptd_touch_updated_at() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  kind regtype;
BEGIN
  IF current_user IN ('anon', 'authenticated') THEN
    RETURN NEW;
  ELSIF TG_TABLE_NAME = 'profiles' THEN
    IF (NEW.premium_expires_at, NEW.premium_product_id, NEW.premium_original_transaction_id)
      IS NOT DISTINCT FROM (OLD.premium_expires_at, OLD.premium_product_id, OLD.premium_original_transaction_id)
    THEN
      RETURN NEW;
    END IF;
  ELSIF (NEW.is_premium, NEW.bookmark_limit) IS NOT DISTINCT FROM (OLD.is_premium, OLD.bookmark_limit) THEN
    RETURN NEW;
  END IF;
  kind := (
    SELECT atttypid FROM pg_attribute
    WHERE attrelid = TG_RELID AND attname = 'updated_at' AND NOT attisdropped AND attgenerated = '');
  IF kind = 'timestamptz'::regtype THEN
    RETURN jsonb_populate_record(NEW, jsonb_build_object('updated_at', now()));
  ELSIF kind = 'timestamp'::regtype THEN
    RETURN jsonb_populate_record(NEW, jsonb_build_object('updated_at', now() AT TIME ZONE 'UTC'));
  END IF;
  RETURN NEW;
END
$$;

-- The note must not fail the write: without one the row gets no award.
CREATE OR REPLACE FUNCTION receiptd.receiptd_note_backend_write() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF TG_TABLE_NAME = 'profiles' THEN
    IF (NEW.premium_expires_at, NEW.premium_product_id, NEW.premium_original_transaction_id) IS NULL
      OR TG_OP = 'UPDATE' AND (NEW.id, NEW.premium_expires_at, NEW.premium_product_id, NEW.premium_original_transaction_id)
        IS NOT DISTINCT FROM (OLD.id, OLD.premium_expires_at, OLD.premium_product_id, OLD.premium_original_transaction_id)
    THEN
      RETURN NULL;
    END IF;
  ELSIF NEW.is_premium IS NOT TRUE
    OR TG_OP = 'UPDATE' AND (NEW.user_id, NEW.is_premium) IS NOT DISTINCT FROM (OLD.user_id, OLD.is_premium)
  THEN
    RETURN NULL;
  END IF;
  INSERT INTO receiptd.backend_writes AS known (table_name, user_id, last_at)
  VALUES (TG_TABLE_NAME, (to_jsonb(NEW) ->> CASE TG_TABLE_NAME WHEN 'profiles' THEN 'id' ELSE 'user_id' END)::uuid,
    clock_timestamp())
  ON CONFLICT (table_name, user_id) DO UPDATE SET last_at = greatest(known.last_at, excluded.last_at);
  RETURN NULL;
EXCEPTION WHEN OTHERS THEN
  RAISE LOG 'receiptd: a backend''s write could not be noted: % (%)', SQLERRM, SQLSTATE;
  RETURN NULL;
END
$$;

-- The note, and a claim of the first adoption that is still open, are of the premium that the row has. They end with it: when it ends, or
-- when a client or the server changes `is_premium`: a row of user_preferences does not say what made it premium.
CREATE OR REPLACE FUNCTION receiptd.receiptd_forget_backend_write() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  forgotten text;
BEGIN
  IF TG_TABLE_NAME = 'profiles' THEN
    IF NOT (NEW.premium_expires_at, NEW.premium_product_id, NEW.premium_original_transaction_id) IS NULL
      OR (OLD.premium_expires_at, OLD.premium_product_id, OLD.premium_original_transaction_id) IS NULL
    THEN
      RETURN NULL;
    END IF;
  ELSIF (NEW.user_id, NEW.is_premium) IS NOT DISTINCT FROM (OLD.user_id, OLD.is_premium) THEN
    RETURN NULL;
  END IF;
  forgotten := to_jsonb(OLD) ->> CASE TG_TABLE_NAME WHEN 'profiles' THEN 'id' ELSE 'user_id' END;
  DELETE FROM receiptd.backend_writes b WHERE b.table_name = TG_TABLE_NAME AND b.user_id = forgotten::uuid;
  DELETE FROM receiptd.adoptions a
  WHERE a.customer = forgotten AND a.original_transaction_id = '' AND a.outcome = 'failed'
    AND a.source = TG_TABLE_NAME;
  RETURN NULL;
END
$$;

DO $triggers$
DECLARE
  relation text;
  key text;
  writes text;
  claimed text;
  -- A server with the usual role needs no look-up.
  is_client text;
  -- The row is not the one about which the guard decided. NULL: no guard ran in this session, so no client wrote.
  is_other text;
  -- The server writes with receiptd.serves, as the app's backend does not.
  is_backend text;
  -- The columns of a row that receiptd added, and the one that receiptd_touch_updated_at() sets.
  served text;
  entry record;
BEGIN
  FOR relation, key, claimed, served IN VALUES
    ('profiles', 'id', '(NEW.id, NEW.premium_expires_at, NEW.premium_product_id, NEW.premium_original_transaction_id)',
      '{premium_expires_at,premium_product_id,premium_original_transaction_id,updated_at}'),
    ('user_preferences', 'user_id', '(NEW.user_id, NEW.is_premium)', '{is_premium,bookmark_limit,updated_at}')
  LOOP
    writes := format('public.receiptd_writes_premium(%L::regclass, current_user, @moves@)', 'public.' || relation);
    is_client := '(current_user <> ''receiptd_app'' OR @moves@) AND NOT ' || writes;
    is_other := format('current_setting(%L, true) <> %s::text AND NOT %s', 'receiptd.guarded_' || relation, claimed, writes);
    is_backend := 'current_setting(''receiptd.serves'', true) IS DISTINCT FROM ''on'' AND ' || writes;
    FOR entry IN
      SELECT name, moment, procedure, replace(condition, '@moves@',
        CASE WHEN moment LIKE '% UPDATE' THEN format('OLD.%1$I IS DISTINCT FROM NEW.%1$I', key) ELSE 'false' END) AS condition
      FROM (VALUES
        ('receiptd_guard_premium_insert', 'BEFORE INSERT', 'receiptd_guard_' || relation, is_client),
        ('receiptd_guard_premium_update', 'BEFORE UPDATE', 'receiptd_guard_' || relation, is_client),
        -- The app's own triggers run after the guards and may change the row.
        ('receiptd_guard_written_insert', 'AFTER INSERT', 'receiptd_guard_written_row', is_other),
        ('receiptd_guard_written_update', 'AFTER UPDATE', 'receiptd_guard_written_row', is_other),
        ('receiptd_touch_updated_at', 'BEFORE UPDATE', 'receiptd_touch_updated_at', NULL),
        -- A row with a value of the app or of a client is theirs: an INSERT or an erasure must not delete it. A server may sign in as
        -- the owner, or with a role of its own, and writes only its columns.
        ('receiptd_forget_added_update', 'AFTER UPDATE', 'receiptd_forget_added_row',
          format($sql$current_user <> 'receiptd_app' AND (session_user <> current_user
            OR current_user IN ('anon', 'authenticated', 'service_role')
            OR to_jsonb(OLD) - %L::text[] IS DISTINCT FROM to_jsonb(NEW) - %L::text[])$sql$, served, served)),
        ('receiptd_note_backend_insert', 'AFTER INSERT', 'receiptd_note_backend_write', is_backend),
        ('receiptd_note_backend_update', 'AFTER UPDATE', 'receiptd_note_backend_write', is_backend),
        ('receiptd_forget_backend_update', 'AFTER UPDATE', 'receiptd_forget_backend_write', CASE relation
          WHEN 'profiles' THEN 'NEW.premium_expires_at IS NULL' ELSE format('NOT (NEW.is_premium AND %s)', is_backend) END)
      ) AS wanted (name, moment, procedure, condition)
    LOOP
      EXECUTE format('DROP TRIGGER IF EXISTS %I ON public.%I', entry.name, relation);
      EXECUTE format('CREATE TRIGGER %I %s ON public.%I FOR EACH ROW %s EXECUTE FUNCTION receiptd.%I()', entry.name, entry.moment,
        relation, 'WHEN (' || entry.condition || ')', entry.procedure);
    END LOOP;
    EXECUTE format('DROP TRIGGER IF EXISTS receiptd_keep_created_at ON public.%I', relation);
    EXECUTE format('DROP TRIGGER IF EXISTS receiptd_keep_created_at_update ON public.%I', relation);
  END LOOP;
END
$triggers$;
DROP FUNCTION IF EXISTS receiptd.receiptd_keep_created_at();

-- receiptd_set_guards() makes them too: see 20261126_schema.sql.
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

-- migrate: new transaction
SELECT public.receiptd_set_common_rights();
