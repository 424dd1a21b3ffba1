-- The triggers on the app's own tables turn no whole row into JSON.
--
-- A client may write megabytes into a column of its own row, or a value that jsonb does not take. A row as JSON then took longer than
-- the server's statement may take, so that the row kept its premium after a refund.
LOCK TABLE public.profiles, public.user_preferences IN ACCESS EXCLUSIVE MODE;

-- The column belongs to the app: it may be missing, or be added later. A backend that signs in with a role of its own may write
-- created_at: it copies users from elsewhere. PostgREST signs in with one role and acts as another.
CREATE OR REPLACE FUNCTION receiptd.receiptd_keeps_created_at(relation regclass) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN NOT (current_setting('role') IN ('none', session_user) AND session_user NOT IN ('anon', 'authenticated')) AND EXISTS (
    SELECT FROM pg_attribute
    WHERE attrelid = relation AND attname = 'created_at' AND NOT attisdropped AND attgenerated = ''
      AND atttypid IN ('timestamptz'::regtype, 'timestamp'::regtype, 'date'::regtype));
END
$$;
COMMENT ON FUNCTION receiptd.receiptd_keeps_created_at(regclass) IS 'Whether a row that a client writes keeps created_at, or gets the current time where it is new to its user.';
REVOKE ALL ON FUNCTION receiptd.receiptd_keeps_created_at(regclass) FROM PUBLIC;

-- The guards run with the rights of their owner, who may be another role than the one that migrates.
DO $$
DECLARE
  owner name := (SELECT pg_get_userbyid(proowner) FROM pg_proc WHERE oid = 'receiptd.receiptd_guard_profiles()'::regprocedure);
BEGIN
  IF owner <> current_user THEN
    EXECUTE format('ALTER FUNCTION receiptd.receiptd_keeps_created_at(regclass) OWNER TO %I', owner);
  END IF;
END
$$;

DO $$
DECLARE
  relation text;
  key text;
  guard text;
  changed text;
BEGIN
  FOR relation, key IN VALUES ('profiles', 'id'), ('user_preferences', 'user_id') LOOP
    guard := pg_get_functiondef(format('receiptd.receiptd_guard_%s()', relation)::regprocedure);
    CONTINUE WHEN strpos(guard, 'receiptd_keeps_created_at') > 0;
    changed := replace(guard,
      'NEW := jsonb_populate_record(NEW, receiptd.receiptd_kept_created_at(TG_RELID, to_jsonb(OLD), to_jsonb(NEW)));',
      format($code$IF receiptd.receiptd_keeps_created_at(TG_RELID) THEN
    created := now()::text;
    IF TG_OP = 'UPDATE' AND OLD.%1$I = NEW.%1$I THEN
      -- PostgreSQL keeps the type of an expression for the session, and the app may change the column's.
      EXECUTE 'SELECT ($1).created_at::text' INTO created USING OLD;
    END IF;
    NEW.created_at := created;
  END IF;$code$, key));
    changed := replace(changed, E'\n  is_written boolean;', E'\n  is_written boolean;\n  created text;');
    IF changed = guard THEN
      RAISE EXCEPTION 'the guard of % does not keep created_at', relation;
    END IF;
    EXECUTE changed;
  END LOOP;
END
$$;
DROP FUNCTION IF EXISTS receiptd.receiptd_kept_created_at(regclass, jsonb, jsonb);

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
    NEW.updated_at := now();
  ELSIF kind = 'timestamp'::regtype THEN
    NEW.updated_at := now() AT TIME ZONE 'UTC';
  END IF;
  RETURN NEW;
END
$$;

-- The note must not fail the write: without one the row gets no award.
CREATE OR REPLACE FUNCTION receiptd.receiptd_note_backend_write() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  customer uuid;
BEGIN
  IF TG_TABLE_NAME = 'profiles' THEN
    IF (NEW.premium_expires_at, NEW.premium_product_id, NEW.premium_original_transaction_id) IS NULL
      OR TG_OP = 'UPDATE' AND (NEW.id, NEW.premium_expires_at, NEW.premium_product_id, NEW.premium_original_transaction_id)
        IS NOT DISTINCT FROM (OLD.id, OLD.premium_expires_at, OLD.premium_product_id, OLD.premium_original_transaction_id)
    THEN
      RETURN NULL;
    END IF;
    customer := NEW.id;
  ELSE
    IF NEW.is_premium IS NOT TRUE
      OR TG_OP = 'UPDATE' AND (NEW.user_id, NEW.is_premium) IS NOT DISTINCT FROM (OLD.user_id, OLD.is_premium)
    THEN
      RETURN NULL;
    END IF;
    customer := NEW.user_id;
  END IF;
  INSERT INTO receiptd.backend_writes AS known (table_name, user_id, last_at)
  VALUES (TG_TABLE_NAME, customer, clock_timestamp())
  ON CONFLICT (table_name, user_id) DO UPDATE SET last_at = greatest(known.last_at, excluded.last_at);
  RETURN NULL;
EXCEPTION WHEN OTHERS THEN
  RAISE LOG 'receiptd: a backend''s write could not be noted: % (%)', SQLERRM, SQLSTATE;
  RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION receiptd.receiptd_forget_backend_write() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  forgotten uuid;
BEGIN
  IF TG_TABLE_NAME = 'profiles' THEN
    IF NOT (NEW.premium_expires_at, NEW.premium_product_id, NEW.premium_original_transaction_id) IS NULL
      OR (OLD.premium_expires_at, OLD.premium_product_id, OLD.premium_original_transaction_id) IS NULL
    THEN
      RETURN NULL;
    END IF;
    forgotten := OLD.id;
  ELSE
    IF (NEW.user_id, NEW.is_premium) IS NOT DISTINCT FROM (OLD.user_id, OLD.is_premium) THEN
      RETURN NULL;
    END IF;
    forgotten := OLD.user_id;
  END IF;
  DELETE FROM receiptd.backend_writes b WHERE b.table_name = TG_TABLE_NAME AND b.user_id = forgotten;
  DELETE FROM receiptd.adoptions a
  WHERE a.customer = forgotten::text AND a.original_transaction_id = '' AND a.outcome = 'failed'
    AND a.source = TG_TABLE_NAME;
  RETURN NULL;
END
$$;

-- With an argument: only where a column has changed that the server does not write.
CREATE OR REPLACE FUNCTION receiptd.receiptd_forget_added_row() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  forgotten uuid;
  is_gone boolean := true;
  former record;
  present record;
BEGIN
  IF TG_NARGS > 0 THEN
    former := OLD;
    present := NEW;
    -- NULL has no type of its own: the app may change a column's.
    IF TG_TABLE_NAME = 'profiles' THEN
      former.premium_expires_at := NULL;
      former.premium_product_id := NULL;
      former.premium_original_transaction_id := NULL;
      present.premium_expires_at := NULL;
      present.premium_product_id := NULL;
      present.premium_original_transaction_id := NULL;
    ELSE
      former.is_premium := NULL;
      former.bookmark_limit := NULL;
      present.is_premium := NULL;
      present.bookmark_limit := NULL;
    END IF;
    -- receiptd_touch_updated_at() sets it.
    IF EXISTS (
      SELECT FROM pg_attribute
      WHERE attrelid = TG_RELID AND attname = 'updated_at' AND NOT attisdropped AND attgenerated = ''
        AND atttypid IN ('timestamptz'::regtype, 'timestamp'::regtype))
    THEN
      former.updated_at := NULL;
      present.updated_at := NULL;
    END IF;
    IF former *= present THEN
      RETURN NULL;
    END IF;
  END IF;
  IF TG_TABLE_NAME = 'profiles' THEN
    forgotten := OLD.id;
    IF TG_OP = 'UPDATE' THEN
      is_gone := NEW.id IS DISTINCT FROM OLD.id;
    END IF;
  ELSE
    forgotten := OLD.user_id;
    IF TG_OP = 'UPDATE' THEN
      is_gone := NEW.user_id IS DISTINCT FROM OLD.user_id;
    END IF;
  END IF;
  DELETE FROM receiptd.added_profile_rows WHERE table_name = TG_TABLE_NAME AND user_id = forgotten;
  IF is_gone THEN
    DELETE FROM receiptd.backend_writes WHERE table_name = TG_TABLE_NAME AND user_id = forgotten;
    DELETE FROM receiptd.adoptions
    WHERE customer = forgotten::text AND original_transaction_id = '' AND outcome = 'failed' AND source = TG_TABLE_NAME;
  END IF;
  RETURN NULL;
END
$$;

-- A row with a value of the app or of a client is theirs: an INSERT or an erasure must not delete it. A server may sign in as the owner,
-- or with a role of its own, and writes only its columns.
DO $$
DECLARE
  relation text;
  is_client CONSTANT text := '(session_user <> current_user OR current_user IN (''anon'', ''authenticated'', ''service_role''))';
BEGIN
  FOREACH relation IN ARRAY ARRAY['profiles', 'user_preferences'] LOOP
    EXECUTE format('DROP TRIGGER IF EXISTS receiptd_forget_added_update ON public.%I', relation);
    EXECUTE format('CREATE TRIGGER receiptd_forget_added_update AFTER UPDATE ON public.%I FOR EACH ROW '
      'WHEN (current_user <> ''receiptd_app'' AND %s) EXECUTE FUNCTION receiptd.receiptd_forget_added_row()', relation, is_client);
    EXECUTE format('DROP TRIGGER IF EXISTS receiptd_forget_added_change ON public.%I', relation);
    EXECUTE format('CREATE TRIGGER receiptd_forget_added_change AFTER UPDATE ON public.%I FOR EACH ROW '
      'WHEN (current_user <> ''receiptd_app'' AND NOT %s) EXECUTE FUNCTION receiptd.receiptd_forget_added_row(''changed'')', relation,
      is_client);
  END LOOP;
END
$$;

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
