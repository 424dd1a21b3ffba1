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
-- An UPDATE of the key, which moves a row to another user, counts as an INSERT of the row's premium values for that user. Where a
-- foreign key cascades to the key, the role of the statement that caused it counts.
--
-- This file may run again.

-- The tables may be live: see 20260413_roles.sql.
LOCK TABLE public.profiles, public.user_preferences IN ACCESS EXCLUSIVE MODE;

ALTER TABLE public.client_write_modes ADD COLUMN IF NOT EXISTS writers text[] NOT NULL DEFAULT '{}';
COMMENT ON COLUMN public.client_write_modes.writers IS 'Roles of the database that write premium columns as the server does: premiumWriters in the configuration, and the role of the server.';

-- The conditions of the triggers call it with the rights of the statement's role, so every role may run it. It reads the list
-- with the owner's rights.
CREATE OR REPLACE FUNCTION public.receiptd_writes_premium(relation regclass, role text) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  -- The owner of the table comes first: a server may sign in with it.
  RETURN coalesce((SELECT pg_has_role(role::name, c.relowner, 'USAGE') FROM pg_class c WHERE c.oid = relation)
    OR (
      SELECT r.rolbypassrls OR EXISTS (
        SELECT FROM pg_roles w
        WHERE (w.rolname IN ('receiptd_app', 'service_role') OR w.rolname = ANY (m.writers))
          AND pg_has_role(r.oid, w.oid, 'USAGE'))
      FROM pg_roles r CROSS JOIN pg_class c LEFT JOIN public.client_write_modes m ON m.table_name = c.relname
      WHERE r.rolname = receiptd_writes_premium.role AND c.oid = relation), false);
END
$$;
COMMENT ON FUNCTION public.receiptd_writes_premium(regclass, text) IS 'Whether a role writes the premium columns of one of the app''s own tables as the server does. All other roles are clients.';
GRANT EXECUTE ON FUNCTION public.receiptd_writes_premium(regclass, text) TO PUBLIC;

-- A backend that signs in with a role of its own learns why its write has no effect. PostgREST signs in with another role than
-- that of the statement.
CREATE OR REPLACE FUNCTION public.receiptd_warn_backend(relation text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF current_setting('role') = 'none'
    AND NOT public.receiptd_writes_premium(to_regclass('public.' || relation), session_user)
  THEN
    RAISE WARNING 'the premium status of % is not written: the role % is not in premiumWriters of receiptd''s configuration',
      relation, session_user;
  END IF;
END
$$;
COMMENT ON FUNCTION public.receiptd_warn_backend(text) IS 'Warns a backend whose role counts as a client.';

-- Five functions of 20260420_client_writes.sql, changed.
--
-- A row that moves to another user gets the current time: it is a new row of that user.
CREATE OR REPLACE FUNCTION public.receiptd_keep_created_at() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  key CONSTANT text := CASE TG_TABLE_NAME WHEN 'profiles' THEN 'id' ELSE 'user_id' END;
BEGIN
  -- The column belongs to the app: it may be missing, or be added later.
  IF NOT EXISTS (
    SELECT FROM pg_attribute
    WHERE attrelid = TG_RELID AND attname = 'created_at' AND NOT attisdropped AND attgenerated = ''
      AND atttypid IN ('timestamptz'::regtype, 'timestamp'::regtype, 'date'::regtype))
  THEN
    RETURN NEW;
  END IF;
  RETURN jsonb_populate_record(NEW, jsonb_build_object('created_at',
    CASE WHEN to_jsonb(OLD) -> key = to_jsonb(NEW) -> key THEN to_jsonb(OLD) -> 'created_at' ELSE to_jsonb(now()) END));
END
$$;

-- A write that claims no premium does not wipe an earlier claim of the note: the row may keep its premium values, and `adopt`
-- must know that a client claimed them.
CREATE OR REPLACE FUNCTION public.receiptd_note_client_write(
  relation text, customer uuid, mode_now text, claim text, product text, expires timestamptz, premium boolean
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  transaction_id text := CASE WHEN claim ~ '^[0-9]{1,20}$' THEN claim ELSE '' END;
  claims CONSTANT boolean := premium IS TRUE OR expires IS NOT NULL OR coalesce(product, '') <> '';
  -- Not now(): a transaction that began before the first `adopt` may write after it.
  instant CONSTANT timestamptz := clock_timestamp();
  today CONSTANT date := (instant AT TIME ZONE 'UTC')::date;
BEGIN
  -- Any further claim of a user with 20 is counted without its transaction.
  IF transaction_id <> '' AND (
    SELECT count(*) >= 20 AND bool_and(w.original_transaction_id <> transaction_id)
    FROM public.client_writes w WHERE w.user_id = customer AND w.table_name = relation)
  THEN
    transaction_id := '';
  END IF;
  INSERT INTO public.client_writes AS known (table_name, user_id, original_transaction_id, product_id, expires_at,
    is_premium, mode, last_at, next_attempt_at)
  VALUES (relation, customer, transaction_id, left(product, 255), expires, premium, mode_now, instant,
    CASE WHEN transaction_id <> '' THEN now() END)
  ON CONFLICT (user_id, table_name, original_transaction_id) DO UPDATE SET
    product_id = CASE WHEN claims THEN excluded.product_id ELSE known.product_id END,
    expires_at = CASE WHEN claims THEN excluded.expires_at ELSE known.expires_at END,
    is_premium = coalesce(known.is_premium OR excluded.is_premium, excluded.is_premium),
    mode = excluded.mode, writes = known.writes + 1, last_at = greatest(known.last_at, instant),
    daily_writes = CASE greatest(0, today - (known.last_at AT TIME ZONE 'UTC')::date)
      WHEN 0 THEN ARRAY[known.daily_writes[1] + 1] || known.daily_writes[2:31]
      ELSE (ARRAY[1] || array_fill(0, ARRAY[greatest(0,
        least(31, today - (known.last_at AT TIME ZONE 'UTC')::date) - 1)]) || known.daily_writes)[1:31]
      END,
    -- The App Store may learn of a purchase a little later than the client.
    next_attempt_at = CASE WHEN known.outcome = 'unknown' AND known.verified_at < now() - interval '1 hour' THEN now()
      ELSE known.next_attempt_at END;
END
$$;

-- Makes room for the row that a client inserts, if receiptd added the user's row and no client has written it since. After the
-- deletion the INSERT adds the client's own row, which PostgREST returns as it returns any; the caller keeps the premium status.
--
-- The row stays, and the INSERT fails with 23505, where a deletion would do more: rows of other tables that refer to the row, or
-- a trigger of the app that follows deletions. It stays too where the owner of receiptd's tables may not see the rows that refer to
-- it, or may not delete it.
CREATE OR REPLACE FUNCTION public.receiptd_make_room(relation text, customer uuid) RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  target CONSTANT regclass := format('public.%I', relation)::regclass;
  reference record;
  is_referred_to boolean;
  gone jsonb;
BEGIN
  IF coalesce(public.receiptd_caller(), customer::text) <> customer::text
    OR NOT EXISTS (SELECT FROM public.added_profile_rows a WHERE a.table_name = relation AND a.user_id = customer)
    OR EXISTS (
      SELECT FROM pg_trigger t
      WHERE t.tgrelid = target AND NOT t.tgisinternal AND t.tgtype & 8 <> 0 AND t.tgname NOT LIKE 'receiptd\_%')
    OR NOT (has_table_privilege(target, 'SELECT') AND has_table_privilege(target, 'DELETE'))
  THEN
    RETURN NULL;
  END IF;
  FOR reference IN
    SELECT c.conrelid::regclass AS referrer, a.attname AS name,
      cardinality(c.conkey) = 1 AND c.confkey[1] = k.attnum AS is_of_key
    FROM pg_constraint c JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
    JOIN pg_attribute k ON k.attrelid = target AND k.attname = CASE relation WHEN 'profiles' THEN 'id' ELSE 'user_id' END
    WHERE c.contype = 'f' AND c.confrelid = target
  LOOP
    -- A reference to another column, or to several: whether a row of it would go is not looked up.
    IF NOT reference.is_of_key OR row_security_active(reference.referrer)
      OR NOT has_column_privilege(reference.referrer, reference.name, 'SELECT')
    THEN
      RETURN NULL;
    END IF;
    EXECUTE format('SELECT EXISTS (SELECT FROM %s WHERE %I::text = $1)', reference.referrer, reference.name)
      INTO is_referred_to USING customer::text;
    IF is_referred_to THEN
      RETURN NULL;
    END IF;
  END LOOP;
  EXECUTE format('DELETE FROM %s AS old WHERE %I = $1 RETURNING to_jsonb(old)', target,
    CASE relation WHEN 'profiles' THEN 'id' ELSE 'user_id' END) INTO gone USING customer;
  RETURN gone;
END
$$;
-- A table that is emptied and filled from a copy has the app's rows alone.
CREATE OR REPLACE FUNCTION public.receiptd_forget_added_rows() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  DELETE FROM public.added_profile_rows WHERE table_name = TG_TABLE_NAME;
  RETURN NULL;
END
$$;
COMMENT ON FUNCTION public.receiptd_forget_added_rows() IS 'Forgets the rows that receiptd added to a table that is truncated.';

-- Whether a column that a statement does not name gets this value. Of defaults only constants are known; false for others.
CREATE OR REPLACE FUNCTION public.receiptd_is_default(relation regclass, name text, value text) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  expression CONSTANT text := (
    SELECT pg_get_expr(d.adbin, d.adrelid) FROM pg_attribute a
    JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attrelid = relation AND a.attname = receiptd_is_default.name);
  known text;
BEGIN
  IF expression IS NULL THEN
    RETURN value IS NULL;
  ELSIF expression !~ '^(''([^''\\]|'''')*''|[0-9]+|true|false|NULL)(::[a-z ]+)?$' THEN
    RETURN false;
  END IF;
  EXECUTE format('SELECT (%s)::text', expression) INTO known;
  RETURN known IS NOT DISTINCT FROM value;
END
$$;
COMMENT ON FUNCTION public.receiptd_is_default(regclass, text, text) IS 'Whether a value is the constant default of a column.';

-- The guards write a note in the transaction of the write that it tells of. Where a note cannot be written (a deadlock, a lock
-- timeout), they keep the stored premium values: `adopt` takes a premium row without a note for one from before receiptd.
--
-- In accept the guards leave an INSERT that meets a row to the guard of the ON CONFLICT's UPDATE, which notes the write. They
-- lock the row (FOR KEY SHARE) until the INSERT has failed or updated it: a DELETE in between would let the INSERT succeed
-- without a note. Where a DELETE is under way, they wait for it and see no row.
CREATE OR REPLACE FUNCTION public.receiptd_guard_profiles() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  mode_now text := public.receiptd_client_write_mode('profiles');
  -- The row that the statement changes, meets in an ON CONFLICT, or replaces. NULLs: there is none.
  stored record;
  replaced jsonb;
  -- Whether the row is written with these values unless an error ends the statement: not if it meets another row.
  is_written boolean;
  new_until timestamptz;
  stored_until timestamptz;
  known_until timestamptz;
BEGIN
  IF TG_OP = 'UPDATE' AND NEW.id IS NOT DISTINCT FROM OLD.id THEN
    stored := OLD;
  ELSE
    IF TG_OP = 'INSERT' THEN
      replaced := public.receiptd_make_room('profiles', NEW.id);
    END IF;
    IF replaced IS NULL THEN
      SELECT id, premium_expires_at, premium_product_id, premium_original_transaction_id INTO stored
      FROM public.profiles WHERE id = NEW.id AND TG_OP = 'INSERT' FOR KEY SHARE;
    ELSE
      stored := jsonb_populate_record(NULL::public.profiles, replaced);
    END IF;
    -- A sign-up has the columns' defaults, such as '' and 'free', which claim nothing. In accept the row keeps them, and a note.
    -- An upsert that writes back what the user's row has stays as it is: its ON CONFLICT would else change the row to NULL.
    IF TG_OP = 'INSERT' AND mode_now <> 'accept' AND NEW.premium_expires_at IS NULL
      AND NOT (stored.id IS NOT NULL AND (mode_now <> 'refuse' OR NEW.id::text IS NOT DISTINCT FROM public.receiptd_caller())
        AND stored.premium_expires_at IS NULL
        AND (NEW.premium_product_id, NEW.premium_original_transaction_id)
          IS NOT DISTINCT FROM (stored.premium_product_id, stored.premium_original_transaction_id))
      AND (coalesce(NEW.premium_product_id, '') = ''
        OR public.receiptd_is_default(TG_RELID, 'premium_product_id', NEW.premium_product_id))
      AND (coalesce(NEW.premium_original_transaction_id, '') = ''
        OR public.receiptd_is_default(TG_RELID, 'premium_original_transaction_id', NEW.premium_original_transaction_id))
    THEN
      NEW.premium_product_id := NULL;
      NEW.premium_original_transaction_id := NULL;
    END IF;
    -- An INSERT without a premium status claims none. Its ON CONFLICT meets the guard of the UPDATE.
    IF NEW.premium_expires_at IS NULL AND NEW.premium_product_id IS NULL AND NEW.premium_original_transaction_id IS NULL THEN
      IF replaced IS NOT NULL THEN
        NEW.premium_expires_at := stored.premium_expires_at;
        NEW.premium_product_id := stored.premium_product_id;
        NEW.premium_original_transaction_id := stored.premium_original_transaction_id;
        PERFORM set_config('receiptd.guarded_profiles', (NEW.id, NEW.premium_expires_at, NEW.premium_product_id,
          NEW.premium_original_transaction_id)::text, true);
      ELSIF stored.id IS NULL AND public.receiptd_known_until('profiles', NEW.id) IS NOT NULL THEN
        PERFORM public.receiptd_queue_status(NEW.id);
      END IF;
      RETURN NEW;
    END IF;
    -- The answer must tell nothing of another user's row, which row level security refuses only after this trigger.
    IF mode_now = 'refuse' AND NEW.id::text IS DISTINCT FROM public.receiptd_caller() THEN
      PERFORM public.receiptd_warn_backend(TG_TABLE_NAME);
      RAISE EXCEPTION 'the premium status of % is written by the server only', TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege';
    END IF;
  END IF;
  IF public.receiptd_is_same_second(NEW.premium_expires_at, stored.premium_expires_at)
    AND NEW.premium_product_id IS NOT DISTINCT FROM stored.premium_product_id
    AND NEW.premium_original_transaction_id IS NOT DISTINCT FROM stored.premium_original_transaction_id
  THEN
    NEW.premium_expires_at := stored.premium_expires_at;
    IF replaced IS NOT NULL THEN
      PERFORM set_config('receiptd.guarded_profiles', (NEW.id, NEW.premium_expires_at, NEW.premium_product_id,
        NEW.premium_original_transaction_id)::text, true);
    END IF;
    RETURN NEW;
  END IF;
  IF mode_now <> 'accept' THEN
    PERFORM public.receiptd_warn_backend(TG_TABLE_NAME);
  END IF;
  IF mode_now = 'refuse' THEN
    RAISE EXCEPTION 'the premium status of % is written by the server only', TG_TABLE_NAME
      USING ERRCODE = 'insufficient_privilege';
  END IF;
  -- In accept, the UPDATE of an INSERT … ON CONFLICT notes the write, and receiptd_guard_written_row() that of a row without a key.
  is_written := TG_OP = 'UPDATE' OR stored.id IS NULL OR replaced IS NOT NULL;
  IF mode_now = 'observe' OR is_written AND NEW.id IS NOT NULL THEN
    BEGIN
      PERFORM public.receiptd_note_client_write('profiles', NEW.id, mode_now, NEW.premium_original_transaction_id,
        NEW.premium_product_id, NEW.premium_expires_at, NULL);
    EXCEPTION WHEN OTHERS THEN
      RAISE LOG 'receiptd: a client write could not be noted, and was not accepted: % (%)', SQLERRM, SQLSTATE;
      mode_now := 'observe';
    END;
  END IF;
  IF mode_now = 'accept' AND is_written THEN
    -- An old build may write back a row that it read before a renewal, or clear it. A payer's status stays. A stored status
    -- that lasts longer than any known purchase is a client's own: the client may lower it, and the server writes what it knows.
    new_until := public.receiptd_profile_until(
      NEW.premium_expires_at, NEW.premium_product_id, NEW.premium_original_transaction_id);
    stored_until := public.receiptd_profile_until(
      stored.premium_expires_at, stored.premium_product_id, stored.premium_original_transaction_id);
    known_until := public.receiptd_known_until('profiles', NEW.id, stored.premium_original_transaction_id);
    IF new_until <= known_until - interval '1 second' THEN
      IF stored_until < known_until + interval '1 second' AND stored_until > new_until THEN
        NEW.premium_expires_at := stored.premium_expires_at;
        NEW.premium_product_id := stored.premium_product_id;
        NEW.premium_original_transaction_id := stored.premium_original_transaction_id;
      ELSE
        PERFORM public.receiptd_queue_status(NEW.id);
      END IF;
    END IF;
  END IF;
  IF mode_now = 'observe' THEN
    NEW.premium_expires_at := stored.premium_expires_at;
    NEW.premium_product_id := stored.premium_product_id;
    NEW.premium_original_transaction_id := stored.premium_original_transaction_id;
  END IF;
  IF is_written AND NEW.id IS NOT NULL THEN
    PERFORM set_config('receiptd.guarded_profiles', (NEW.id, NEW.premium_expires_at, NEW.premium_product_id,
      NEW.premium_original_transaction_id)::text, true);
  END IF;
  RETURN NEW;
END
$$;

CREATE OR REPLACE FUNCTION public.receiptd_guard_user_preferences() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  mode_now text := public.receiptd_client_write_mode('user_preferences');
  free_limit CONSTANT integer := coalesce((
    SELECT free_bookmark_limit FROM public.client_write_modes WHERE table_name = 'user_preferences'), 2);
  stored record;
  replaced jsonb;
  has_row boolean := true;
  is_new boolean := false;
  is_written boolean;
BEGIN
  IF TG_OP = 'UPDATE' AND NEW.user_id IS NOT DISTINCT FROM OLD.user_id THEN
    stored := OLD;
  ELSE
    IF TG_OP = 'INSERT' THEN
      replaced := public.receiptd_make_room('user_preferences', NEW.user_id);
    END IF;
    IF replaced IS NULL THEN
      SELECT user_id, is_premium, bookmark_limit INTO stored
      FROM public.user_preferences WHERE user_id = NEW.user_id AND TG_OP = 'INSERT' FOR KEY SHARE;
    ELSE
      stored := jsonb_populate_record(NULL::public.user_preferences, replaced);
    END IF;
    has_row := stored.user_id IS NOT NULL;
    is_new := NOT has_row OR replaced IS NOT NULL;
    IF NOT has_row THEN
      SELECT NULL::uuid AS user_id, false AS is_premium, free_limit AS bookmark_limit INTO stored;
    END IF;
    -- The values of a free user, which are the columns' defaults (2 is receiptd's for the limit, and the app may have its own),
    -- claim no premium. An ON CONFLICT meets the guard of the UPDATE.
    IF NEW.is_premium IS NOT TRUE AND (coalesce(NEW.bookmark_limit IN (2, free_limit), false)
      OR TG_OP = 'INSERT' AND public.receiptd_is_default(TG_RELID, 'bookmark_limit', NEW.bookmark_limit::text))
    THEN
      IF is_new THEN
        NEW.is_premium := stored.is_premium;
        IF has_row OR NEW.bookmark_limit IN (2, free_limit) THEN
          NEW.bookmark_limit := stored.bookmark_limit;
        END IF;
        PERFORM set_config('receiptd.guarded_user_preferences', (NEW.user_id, NEW.is_premium)::text, true);
      END IF;
      IF NOT has_row AND public.receiptd_known_until('user_preferences', NEW.user_id) IS NOT NULL THEN
        PERFORM public.receiptd_queue_status(NEW.user_id);
      END IF;
      RETURN NEW;
    END IF;
    -- The answer must tell nothing of another user's row, which row level security refuses only after this trigger.
    IF mode_now = 'refuse' AND NEW.user_id::text IS DISTINCT FROM public.receiptd_caller() THEN
      PERFORM public.receiptd_warn_backend(TG_TABLE_NAME);
      RAISE EXCEPTION 'the premium status of % is written by the server only', TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege';
    END IF;
  END IF;
  IF (NEW.is_premium, NEW.bookmark_limit) IS NOT DISTINCT FROM (stored.is_premium, stored.bookmark_limit) THEN
    IF replaced IS NOT NULL THEN
      PERFORM set_config('receiptd.guarded_user_preferences', (NEW.user_id, NEW.is_premium)::text, true);
    END IF;
    RETURN NEW;
  END IF;
  IF mode_now <> 'accept' THEN
    PERFORM public.receiptd_warn_backend(TG_TABLE_NAME);
  END IF;
  IF mode_now = 'refuse' THEN
    RAISE EXCEPTION 'the premium status of % is written by the server only', TG_TABLE_NAME
      USING ERRCODE = 'insufficient_privilege';
  END IF;
  is_written := TG_OP = 'UPDATE' OR is_new;
  IF mode_now = 'observe' OR is_written AND NEW.user_id IS NOT NULL THEN
    BEGIN
      PERFORM public.receiptd_note_client_write('user_preferences', NEW.user_id, mode_now, NULL, NULL, NULL, NEW.is_premium);
    EXCEPTION WHEN OTHERS THEN
      RAISE LOG 'receiptd: a client write could not be noted, and was not accepted: % (%)', SQLERRM, SQLSTATE;
      mode_now := 'observe';
    END;
  END IF;
  -- As for profiles: a client's write does not take a payer's status.
  IF mode_now = 'accept' AND is_written
    AND (NEW.is_premium IS NOT TRUE OR NEW.bookmark_limit < stored.bookmark_limit)
    AND public.receiptd_known_until('user_preferences', NEW.user_id) IS NOT NULL
  THEN
    IF stored.is_premium THEN
      NEW.is_premium := true;
      NEW.bookmark_limit := greatest(NEW.bookmark_limit, stored.bookmark_limit);
    ELSE
      PERFORM public.receiptd_queue_status(NEW.user_id);
    END IF;
  END IF;
  IF mode_now = 'observe' THEN
    NEW.is_premium := stored.is_premium;
    NEW.bookmark_limit := stored.bookmark_limit;
  END IF;
  IF is_written AND NEW.user_id IS NOT NULL THEN
    PERFORM set_config('receiptd.guarded_user_preferences', (NEW.user_id, NEW.is_premium)::text, true);
  END IF;
  RETURN NEW;
END
$$;
-- The app's own BEFORE triggers may change a row after the guard: set its user, say. Then the guard has decided about another user,
-- and may have left the note to an ON CONFLICT that does not come. The conditions of this function's triggers compare the written
-- row with the one that the guard decided about.
CREATE OR REPLACE FUNCTION public.receiptd_guard_written_row() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  mode_now CONSTANT text := public.receiptd_client_write_mode(TG_TABLE_NAME);
BEGIN
  IF mode_now <> 'accept' THEN
    RAISE EXCEPTION 'the premium status of % is written by the server only', TG_TABLE_NAME
      USING ERRCODE = 'insufficient_privilege',
        DETAIL = 'A trigger of the table changed the user or the premium status of the row after receiptd had checked the row.',
        HINT = 'Let the trigger run before receiptd''s: triggers run in the order of their names.';
  END IF;
  -- No premium row without a note: an error ends the statement.
  IF TG_TABLE_NAME = 'profiles' THEN
    PERFORM public.receiptd_note_client_write('profiles', NEW.id, mode_now, NEW.premium_original_transaction_id,
      NEW.premium_product_id, NEW.premium_expires_at, NULL);
  ELSE
    PERFORM public.receiptd_note_client_write('user_preferences', NEW.user_id, mode_now, NULL, NULL, NULL, NEW.is_premium);
  END IF;
  RETURN NULL;
END
$$;
COMMENT ON FUNCTION public.receiptd_guard_written_row() IS 'Notes or refuses a client''s premium row that is not the one about which the guard decided.';
COMMENT ON FUNCTION public.receiptd_forget_added_row() IS 'Forgets that receiptd added a row, once a client or the app has written it or it is gone.';
COMMENT ON FUNCTION public.receiptd_guard_profiles() IS 'Accepts, notes or refuses a change of the premium columns of profiles by a client.';
COMMENT ON FUNCTION public.receiptd_guard_user_preferences() IS 'Accepts, notes or refuses a change of the premium columns of user_preferences by a client.';
COMMENT ON COLUMN public.outbox.payload IS 'Empty: a delivery reads the customer''s state, the event or the notification when it sends it. {"erased": true}: it tells that the customer was erased, and the row is deleted after the delivery. With "returned": true it then tells the state, because the customer came back. {"decided": ["profiles"]} (profiles): in these tables the status replaces also a claim from before receiptd, because the user had a purchase or was erased.';

-- The triggers on the app's own tables. The guards run with the owner's rights and cannot see the role of the statement, but the
-- conditions of their triggers can, for each row and for each statement of another trigger.
DO $guards$
DECLARE
  relation text;
  key text;
  changed text;
  claimed text;
  claims text;
  is_client text;
  -- The role of an UPDATE. Conditions name a role as @role@.
  updating text;
  -- PostgREST signs in with one role and acts as another.
  acts CONSTANT text := 'session_user <> @role@';
  -- The columns of a row that receiptd added, and the one that receiptd_touch_updated_at() sets.
  served text[];
  -- The guard notes in a setting which row it has decided about. Each row begins without the note of another one.
  forgets text;
  is_other text;
  entry record;
BEGIN
  FOR relation, key, changed, claimed, claims IN VALUES
    ('profiles', 'id', '(OLD.id, OLD.premium_expires_at, OLD.premium_product_id, OLD.premium_original_transaction_id) '
      'IS DISTINCT FROM (NEW.id, NEW.premium_expires_at, NEW.premium_product_id, NEW.premium_original_transaction_id)',
      '(NEW.id, NEW.premium_expires_at, NEW.premium_product_id, NEW.premium_original_transaction_id)',
      'NOT (NEW.premium_expires_at IS NULL AND NEW.premium_product_id IS NULL AND NEW.premium_original_transaction_id IS NULL)'),
    ('user_preferences', 'user_id', '(OLD.user_id, OLD.is_premium, OLD.bookmark_limit) IS DISTINCT FROM '
      '(NEW.user_id, NEW.is_premium, NEW.bookmark_limit)',
      '(NEW.user_id, NEW.is_premium)', 'NEW.is_premium')
  LOOP
    -- A foreign key that cascades changes the key with the rights of the table's owner: then the role of the statement counts.
    updating := format($sql$(CASE WHEN pg_trigger_depth() > 0 AND OLD.%1$I IS DISTINCT FROM NEW.%1$I
      THEN coalesce(nullif(current_setting('role'), 'none')::name, session_user) ELSE current_user END)$sql$, key);
    -- The usual roles of servers and of Supabase's clients need no look-up.
    is_client := format($sql$(@role@ IN ('anon', 'authenticated')
      OR @role@ NOT IN ('receiptd_app', 'service_role')
        AND NOT public.receiptd_writes_premium('public.%I'::regclass, @role@::text))$sql$, relation);
    forgets := format($sql$set_config('receiptd.guarded_%s', '', true) IS NOT NULL$sql$, relation);
    -- NULL: no guard ran in this session, so no client wrote.
    is_other := format($sql$current_setting('receiptd.guarded_%s', true) <> %s::text$sql$, relation, claimed);
    served := CASE relation
      WHEN 'profiles' THEN ARRAY['premium_expires_at', 'premium_product_id', 'premium_original_transaction_id', 'updated_at']
      ELSE ARRAY['is_premium', 'bookmark_limit', 'updated_at'] END;
    FOR entry IN
      SELECT name, moment, procedure,
        replace(condition, '@role@', CASE WHEN moment LIKE '% UPDATE' THEN updating ELSE 'current_user' END) AS condition
      FROM (VALUES
        ('receiptd_guard_premium_insert', 'BEFORE INSERT', 'receiptd_guard_' || relation,
          format('%s AND %s', is_client, forgets)),
        ('receiptd_guard_premium_update', 'BEFORE UPDATE', 'receiptd_guard_' || relation,
          format('%s AND %s AND %s', is_client, forgets, changed)),
        -- The app's own triggers run after the guards and may change the row.
        ('receiptd_guard_written_insert', 'AFTER INSERT', 'receiptd_guard_written_row',
          format('%s AND %s AND %s', claims, is_other, is_client)),
        ('receiptd_guard_written_update', 'AFTER UPDATE', 'receiptd_guard_written_row',
          format('%s AND %s IS DISTINCT FROM %s AND %s AND %s', claims,
            replace(claimed, 'NEW.', 'OLD.'), claimed, is_other, is_client)),
        -- A backend that signs in with a role of its own may write created_at: it copies users from elsewhere.
        ('receiptd_keep_created_at', 'BEFORE INSERT', 'receiptd_keep_created_at',
          format($sql$@role@ IN ('anon', 'authenticated') OR %s AND %s$sql$, acts, is_client)),
        ('receiptd_keep_created_at_update', 'BEFORE UPDATE', 'receiptd_keep_created_at',
          format($sql$@role@ IN ('anon', 'authenticated') OR %s AND %s$sql$, acts, is_client)),
        -- A row with a value of the app or of a client is theirs: an INSERT or an erasure must not delete it. A server may sign
        -- in as the owner, or with a role of its own, and writes only its columns.
        ('receiptd_forget_added_update', 'AFTER UPDATE', 'receiptd_forget_added_row',
          format($sql$@role@ IN ('anon', 'authenticated', 'service_role') OR @role@ <> 'receiptd_app'
            AND (%s OR to_jsonb(OLD) - %L::text[] IS DISTINCT FROM to_jsonb(NEW) - %L::text[])$sql$, acts, served, served))
      ) AS wanted (name, moment, procedure, condition)
    LOOP
      EXECUTE format('DROP TRIGGER IF EXISTS %I ON public.%I', entry.name, relation);
      EXECUTE format('CREATE TRIGGER %I %s ON public.%I FOR EACH ROW WHEN (%s) EXECUTE FUNCTION public.%I()',
        entry.name, entry.moment, relation, entry.condition, entry.procedure);
    END LOOP;
    EXECUTE format('DROP TRIGGER IF EXISTS receiptd_forget_added_truncate ON public.%I', relation);
    EXECUTE format('CREATE TRIGGER receiptd_forget_added_truncate AFTER TRUNCATE ON public.%I '
      'EXECUTE FUNCTION public.receiptd_forget_added_rows()', relation);
  END LOOP;
END
$guards$;
