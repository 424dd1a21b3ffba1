-- Clients and the premium columns of the app's own tables.
--
-- Supabase lets users update their own profile row. Triggers watch the premium columns when a role that acts for users writes
-- them; client_write_modes has the mode of each table:
--   accept   the client's values are written, and the write is counted: old builds go on as before. A weaker status than the one
--            that the server knows is not written.
--   observe  the rest of the statement is applied, the premium columns keep the server's values, and the claim is noted.
--   refuse   the statement fails (42501), so that no user can grant premium to their own account.
-- Values that are the stored ones, up to a second, are no change in any mode: apps write back whole rows, with timestamps of
-- another precision. The server and service_role may write these columns.
--
-- This is the last migration, so that a migrate that fails halfway leaves the old clients alone.

-- Both tables may be live: see 20260413_roles.sql.
LOCK TABLE public.profiles, public.user_preferences IN ACCESS EXCLUSIVE MODE;

-- Notes what a client wrote. It never fails, because that would fail the client's statement.
CREATE OR REPLACE FUNCTION public.receiptd_note_client_write(
  relation text, customer uuid, mode_now text, claim text, product text, expires timestamptz, premium boolean
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  transaction_id text := CASE WHEN claim ~ '^[0-9]{1,20}$' THEN claim ELSE '' END;
  today CONSTANT date := (now() AT TIME ZONE 'UTC')::date;
BEGIN
  -- Any further claim of a user with 20 is counted without its transaction.
  IF transaction_id <> '' AND (
    SELECT count(*) >= 20 AND bool_and(w.original_transaction_id <> transaction_id)
    FROM public.client_writes w WHERE w.user_id = customer AND w.table_name = relation)
  THEN
    transaction_id := '';
  END IF;
  INSERT INTO public.client_writes AS known (table_name, user_id, original_transaction_id, product_id, expires_at,
    is_premium, mode, next_attempt_at)
  VALUES (relation, customer, transaction_id, left(product, 255), expires, premium, mode_now,
    CASE WHEN transaction_id <> '' THEN now() END)
  ON CONFLICT (user_id, table_name, original_transaction_id) DO UPDATE SET
    product_id = excluded.product_id, expires_at = excluded.expires_at, is_premium = excluded.is_premium,
    mode = excluded.mode, writes = known.writes + 1, last_at = now(),
    daily_writes = CASE today - (known.last_at AT TIME ZONE 'UTC')::date
      WHEN 0 THEN ARRAY[known.daily_writes[1] + 1] || known.daily_writes[2:31]
      ELSE (ARRAY[1] || array_fill(0, ARRAY[greatest(0,
        least(31, today - (known.last_at AT TIME ZONE 'UTC')::date) - 1)]) || known.daily_writes)[1:31]
      END,
    -- The App Store may learn of a purchase a little later than the client.
    next_attempt_at = CASE WHEN known.outcome = 'unknown' AND known.verified_at < now() - interval '1 hour' THEN now()
      ELSE known.next_attempt_at END;
EXCEPTION WHEN OTHERS THEN
  RAISE LOG 'receiptd: a client write could not be noted: % (%)', SQLERRM, SQLSTATE;
END
$$;
COMMENT ON FUNCTION public.receiptd_note_client_write(text, uuid, text, text, text, timestamptz, boolean) IS 'Notes in client_writes what a client wrote to a premium column.';

CREATE OR REPLACE FUNCTION public.receiptd_client_write_mode(relation text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce((
    SELECT coalesce(mode, CASE WHEN existed_before THEN 'accept' ELSE 'refuse' END)
    FROM public.client_write_modes WHERE table_name = relation), 'refuse')
$$;
COMMENT ON FUNCTION public.receiptd_client_write_mode(text) IS 'The mode in which clients may write the premium columns of a table.';

-- Whether two times are the same for a client that keeps whole seconds.
CREATE OR REPLACE FUNCTION public.receiptd_is_same_second(a timestamptz, b timestamptz) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE WHEN isfinite(a) AND isfinite(b) THEN a - b > interval '-1 second' AND a - b < interval '1 second'
    ELSE a IS NOT DISTINCT FROM b END
$$;
COMMENT ON FUNCTION public.receiptd_is_same_second(timestamptz, timestamptz) IS 'Whether two times differ by less than a second, or are both NULL.';

-- Until when a user has premium by the purchases and grants that receiptd knows. NULL: the user has none that gives access now.
CREATE OR REPLACE FUNCTION public.receiptd_known_until(relation text, customer uuid) RETURNS timestamptz
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH app AS (SELECT unnest(bundle_ids) AS bundle_id FROM public.client_write_modes WHERE table_name = relation)
  SELECT max(until) FROM (
    SELECT coalesce(greatest(s.expiry_date, s.grace_expires_at), 'infinity') AS until
    FROM public.subscriptions s JOIN app USING (bundle_id)
    WHERE s.user_id = customer AND s.is_counted AND s.status IN ('active', 'grace')
    UNION ALL
    SELECT coalesce(g.ends_at, 'infinity') FROM public.grants g JOIN app USING (bundle_id)
    WHERE g.user_id = customer AND g.is_counted AND g.revoked_at IS NULL AND g.starts_at <= now()) AS known
  WHERE until > now()
$$;
COMMENT ON FUNCTION public.receiptd_known_until(text, uuid) IS 'Until when a user has premium by known purchases and grants. NULL: none gives access now.';

-- Until when a row of profiles says that its user has premium.
CREATE OR REPLACE FUNCTION public.receiptd_profile_until(expires timestamptz, product text, transaction_id text)
RETURNS timestamptz
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(expires, CASE WHEN product <> '' OR transaction_id <> '' THEN 'infinity' ELSE '-infinity' END::timestamptz)
$$;
COMMENT ON FUNCTION public.receiptd_profile_until(timestamptz, text, text) IS 'Until when a row of profiles says that its user has premium.';

-- Has the server write the status of a user within seconds. It never fails, because that would fail the client's statement.
CREATE OR REPLACE FUNCTION public.receiptd_queue_status(customer uuid) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO public.outbox (destination, key, payload)
  SELECT 'profiles', customer::text, '{}'
  WHERE NOT EXISTS (
    SELECT FROM public.outbox
    WHERE destination = 'profiles' AND key = customer::text AND done_at IS NULL AND dead_at IS NULL);
EXCEPTION WHEN OTHERS THEN
  RAISE LOG 'receiptd: the status of a user could not be queued: % (%)', SQLERRM, SQLSTATE;
END
$$;
COMMENT ON FUNCTION public.receiptd_queue_status(uuid) IS 'Queues the premium status of a user, which the server then writes to the app''s own tables.';

-- The user for whom PostgREST runs the statement. NULL: the statement carries no user.
CREATE OR REPLACE FUNCTION public.receiptd_caller() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT lower(coalesce(nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'sub',
    nullif(current_setting('request.jwt.claim.sub', true), '')))
$$;
COMMENT ON FUNCTION public.receiptd_caller() IS 'The user for whom PostgREST runs the statement, by the claims of the access token.';

-- Makes room for the row that a client inserts, if receiptd added the user's row and no client has written it since. After the
-- deletion the INSERT adds the client's own row, which PostgREST returns as it returns any; the caller keeps the premium status.
--
-- The row stays, and the INSERT fails with 23505, where a deletion would do more: rows of other tables that refer to the row, or
-- a trigger of the app that follows deletions.
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
    IF NOT reference.is_of_key THEN
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
COMMENT ON FUNCTION public.receiptd_make_room(text, uuid) IS 'Deletes and returns a user''s row that receiptd added, so that the client can insert its own. NULL: the row stays, or there is none.';

CREATE OR REPLACE FUNCTION public.receiptd_forget_added_row() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  DELETE FROM public.added_profile_rows
  WHERE table_name = TG_TABLE_NAME
    AND user_id = (to_jsonb(OLD) ->> CASE TG_TABLE_NAME WHEN 'profiles' THEN 'id' ELSE 'user_id' END)::uuid;
  RETURN NULL;
END
$$;
COMMENT ON FUNCTION public.receiptd_forget_added_row() IS 'Forgets that receiptd added a row, once a client has written it or it is gone.';

-- These run with the owner's rights, because clients can read neither the modes nor the claims. The triggers' conditions see
-- the client's role.
CREATE OR REPLACE FUNCTION public.receiptd_guard_profiles() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  mode_now CONSTANT text := public.receiptd_client_write_mode('profiles');
  -- The row that the statement changes, meets in an ON CONFLICT, or replaces. NULLs: there is none.
  stored record;
  replaced jsonb;
  new_until timestamptz;
  stored_until timestamptz;
  known_until timestamptz;
BEGIN
  IF TG_OP = 'UPDATE' THEN
    stored := OLD;
  ELSE
    replaced := public.receiptd_make_room('profiles', NEW.id);
    IF replaced IS NULL THEN
      SELECT id, premium_expires_at, premium_product_id, premium_original_transaction_id INTO stored
      FROM public.profiles WHERE id = NEW.id;
    ELSE
      stored := jsonb_populate_record(NULL::public.profiles, replaced);
    END IF;
    -- An INSERT without a premium status claims none. Its ON CONFLICT meets the guard of the UPDATE.
    IF NEW.premium_expires_at IS NULL AND NEW.premium_product_id IS NULL AND NEW.premium_original_transaction_id IS NULL THEN
      IF replaced IS NOT NULL THEN
        NEW.premium_expires_at := stored.premium_expires_at;
        NEW.premium_product_id := stored.premium_product_id;
        NEW.premium_original_transaction_id := stored.premium_original_transaction_id;
      ELSIF stored.id IS NULL AND public.receiptd_known_until('profiles', NEW.id) IS NOT NULL THEN
        PERFORM public.receiptd_queue_status(NEW.id);
      END IF;
      RETURN NEW;
    END IF;
    -- The answer must tell nothing of another user's row, which row level security refuses only after this trigger.
    IF mode_now = 'refuse' AND NEW.id::text IS DISTINCT FROM public.receiptd_caller() THEN
      RAISE EXCEPTION 'the premium status of % is written by the server only', TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege';
    END IF;
  END IF;
  IF public.receiptd_is_same_second(NEW.premium_expires_at, stored.premium_expires_at)
    AND NEW.premium_product_id IS NOT DISTINCT FROM stored.premium_product_id
    AND NEW.premium_original_transaction_id IS NOT DISTINCT FROM stored.premium_original_transaction_id
  THEN
    NEW.premium_expires_at := stored.premium_expires_at;
    RETURN NEW;
  END IF;
  IF mode_now = 'refuse' THEN
    RAISE EXCEPTION 'the premium status of % is written by the server only', TG_TABLE_NAME
      USING ERRCODE = 'insufficient_privilege';
  END IF;
  -- In accept, the UPDATE of an INSERT … ON CONFLICT notes the write.
  IF mode_now = 'observe' OR TG_OP = 'UPDATE' OR stored.id IS NULL OR replaced IS NOT NULL THEN
    PERFORM public.receiptd_note_client_write('profiles', NEW.id, mode_now, NEW.premium_original_transaction_id,
      NEW.premium_product_id, NEW.premium_expires_at, NULL);
  END IF;
  IF mode_now = 'accept' AND (TG_OP = 'UPDATE' OR stored.id IS NULL OR replaced IS NOT NULL) THEN
    -- An old build may write back a row that it read before a renewal, or clear it. A payer's status stays. A stored status
    -- that lasts longer than any known purchase is a client's own: the client may lower it, and the server writes what it knows.
    new_until := public.receiptd_profile_until(
      NEW.premium_expires_at, NEW.premium_product_id, NEW.premium_original_transaction_id);
    stored_until := public.receiptd_profile_until(
      stored.premium_expires_at, stored.premium_product_id, stored.premium_original_transaction_id);
    known_until := public.receiptd_known_until('profiles', NEW.id);
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
  RETURN NEW;
END
$$;
COMMENT ON FUNCTION public.receiptd_guard_profiles() IS 'Accepts, notes or refuses a change of the premium columns of profiles by a role that acts for a user.';

CREATE OR REPLACE FUNCTION public.receiptd_guard_user_preferences() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  mode_now CONSTANT text := public.receiptd_client_write_mode('user_preferences');
  free_limit CONSTANT integer := coalesce((
    SELECT free_bookmark_limit FROM public.client_write_modes WHERE table_name = 'user_preferences'), 2);
  stored record;
  replaced jsonb;
  has_row boolean := true;
  is_new boolean := false;
BEGIN
  IF TG_OP = 'UPDATE' THEN
    stored := OLD;
  ELSE
    replaced := public.receiptd_make_room('user_preferences', NEW.user_id);
    IF replaced IS NULL THEN
      SELECT user_id, is_premium, bookmark_limit INTO stored FROM public.user_preferences WHERE user_id = NEW.user_id;
    ELSE
      stored := jsonb_populate_record(NULL::public.user_preferences, replaced);
    END IF;
    has_row := stored.user_id IS NOT NULL;
    is_new := NOT has_row OR replaced IS NOT NULL;
    IF NOT has_row THEN
      SELECT NULL::uuid AS user_id, false AS is_premium, free_limit AS bookmark_limit INTO stored;
    END IF;
    -- The values of a free user, which are the columns' defaults (2 is that of the limit), claim no premium. An ON CONFLICT
    -- meets the guard of the UPDATE.
    IF NEW.is_premium IS NOT DISTINCT FROM false AND NEW.bookmark_limit IN (2, free_limit) THEN
      IF is_new THEN
        NEW.is_premium := stored.is_premium;
        NEW.bookmark_limit := stored.bookmark_limit;
      END IF;
      IF NOT has_row AND public.receiptd_known_until('user_preferences', NEW.user_id) IS NOT NULL THEN
        PERFORM public.receiptd_queue_status(NEW.user_id);
      END IF;
      RETURN NEW;
    END IF;
    -- The answer must tell nothing of another user's row, which row level security refuses only after this trigger.
    IF mode_now = 'refuse' AND NEW.user_id::text IS DISTINCT FROM public.receiptd_caller() THEN
      RAISE EXCEPTION 'the premium status of % is written by the server only', TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege';
    END IF;
  END IF;
  IF (NEW.is_premium, NEW.bookmark_limit) IS NOT DISTINCT FROM (stored.is_premium, stored.bookmark_limit) THEN
    RETURN NEW;
  END IF;
  IF mode_now = 'refuse' THEN
    RAISE EXCEPTION 'the premium status of % is written by the server only', TG_TABLE_NAME
      USING ERRCODE = 'insufficient_privilege';
  END IF;
  IF mode_now = 'observe' OR TG_OP = 'UPDATE' OR is_new THEN
    PERFORM public.receiptd_note_client_write('user_preferences', NEW.user_id, mode_now, NULL, NULL, NULL, NEW.is_premium);
  END IF;
  -- As for profiles: a client's write does not take a payer's status.
  IF mode_now = 'accept' AND (TG_OP = 'UPDATE' OR is_new)
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
  RETURN NEW;
END
$$;
COMMENT ON FUNCTION public.receiptd_guard_user_preferences() IS 'Accepts, notes or refuses a change of the premium columns of user_preferences by a role that acts for a user.';

DROP TRIGGER IF EXISTS receiptd_guard_premium_update ON public.profiles;
CREATE TRIGGER receiptd_guard_premium_update
  BEFORE UPDATE ON public.profiles FOR EACH ROW
  WHEN (current_user IN ('anon', 'authenticated')
    AND (OLD.premium_expires_at, OLD.premium_product_id, OLD.premium_original_transaction_id)
      IS DISTINCT FROM
      (NEW.premium_expires_at, NEW.premium_product_id, NEW.premium_original_transaction_id))
  EXECUTE FUNCTION public.receiptd_guard_profiles();

DROP TRIGGER IF EXISTS receiptd_guard_premium_insert ON public.profiles;
CREATE TRIGGER receiptd_guard_premium_insert
  BEFORE INSERT ON public.profiles FOR EACH ROW
  WHEN (current_user IN ('anon', 'authenticated'))
  EXECUTE FUNCTION public.receiptd_guard_profiles();

DROP TRIGGER IF EXISTS receiptd_guard_premium_update ON public.user_preferences;
CREATE TRIGGER receiptd_guard_premium_update
  BEFORE UPDATE ON public.user_preferences FOR EACH ROW
  WHEN (current_user IN ('anon', 'authenticated')
    AND (OLD.is_premium, OLD.bookmark_limit) IS DISTINCT FROM (NEW.is_premium, NEW.bookmark_limit))
  EXECUTE FUNCTION public.receiptd_guard_user_preferences();

DROP TRIGGER IF EXISTS receiptd_guard_premium_insert ON public.user_preferences;
CREATE TRIGGER receiptd_guard_premium_insert
  BEFORE INSERT ON public.user_preferences FOR EACH ROW
  WHEN (current_user IN ('anon', 'authenticated'))
  EXECUTE FUNCTION public.receiptd_guard_user_preferences();

DO $$
DECLARE
  relation text;
BEGIN
  FOREACH relation IN ARRAY ARRAY['profiles', 'user_preferences'] LOOP
    EXECUTE format('DROP TRIGGER IF EXISTS receiptd_forget_added_update ON public.%I', relation);
    EXECUTE format('CREATE TRIGGER receiptd_forget_added_update AFTER UPDATE ON public.%I FOR EACH ROW '
      'WHEN (current_user IN (''anon'', ''authenticated'', ''service_role'')) '
      'EXECUTE FUNCTION public.receiptd_forget_added_row()', relation);
    EXECUTE format('DROP TRIGGER IF EXISTS receiptd_forget_added_delete ON public.%I', relation);
    EXECUTE format('CREATE TRIGGER receiptd_forget_added_delete AFTER DELETE ON public.%I FOR EACH ROW '
      'EXECUTE FUNCTION public.receiptd_forget_added_row()', relation);
  END LOOP;
END
$$;

-- Clients that pull rows by `updated_at` see a change of the premium status only if the column changes with it. The column
-- belongs to the app, and the server may not have the right to write it; a trigger needs none.
CREATE OR REPLACE FUNCTION public.receiptd_touch_updated_at() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  kind regtype := (
    SELECT atttypid FROM pg_attribute
    WHERE attrelid = TG_RELID AND attname = 'updated_at' AND NOT attisdropped AND attgenerated = '');
BEGIN
  IF kind = 'timestamptz'::regtype THEN
    RETURN jsonb_populate_record(NEW, jsonb_build_object('updated_at', now()));
  ELSIF kind = 'timestamp'::regtype THEN
    RETURN jsonb_populate_record(NEW, jsonb_build_object('updated_at', now() AT TIME ZONE 'UTC'));
  END IF;
  RETURN NEW;
END
$$;
COMMENT ON FUNCTION public.receiptd_touch_updated_at() IS 'Sets updated_at, if the table has it, when the server changes the premium status.';

DROP TRIGGER IF EXISTS receiptd_touch_updated_at ON public.profiles;
CREATE TRIGGER receiptd_touch_updated_at
  BEFORE UPDATE ON public.profiles FOR EACH ROW
  WHEN (current_user NOT IN ('anon', 'authenticated')
    AND (OLD.premium_expires_at, OLD.premium_product_id, OLD.premium_original_transaction_id)
      IS DISTINCT FROM
      (NEW.premium_expires_at, NEW.premium_product_id, NEW.premium_original_transaction_id))
  EXECUTE FUNCTION public.receiptd_touch_updated_at();

DROP TRIGGER IF EXISTS receiptd_touch_updated_at ON public.user_preferences;
CREATE TRIGGER receiptd_touch_updated_at
  BEFORE UPDATE ON public.user_preferences FOR EACH ROW
  WHEN (current_user NOT IN ('anon', 'authenticated')
    AND (OLD.is_premium, OLD.bookmark_limit) IS DISTINCT FROM (NEW.is_premium, NEW.bookmark_limit))
  EXECUTE FUNCTION public.receiptd_touch_updated_at();

-- `receiptd grandfather` uses the date of the app's own row if it knows no better one, so a client must not change it. The
-- trigger keeps the date and does not refuse the write: apps write back whole rows, with a rounded or a new date.
CREATE OR REPLACE FUNCTION public.receiptd_keep_created_at() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
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
    CASE TG_OP WHEN 'UPDATE' THEN to_jsonb(OLD) -> 'created_at' ELSE to_jsonb(now()) END));
END
$$;
COMMENT ON FUNCTION public.receiptd_keep_created_at() IS 'Keeps created_at when a role that acts for a user writes the row; a new row gets the current time.';

DROP TRIGGER IF EXISTS receiptd_keep_created_at ON public.profiles;
CREATE TRIGGER receiptd_keep_created_at
  BEFORE INSERT OR UPDATE ON public.profiles FOR EACH ROW
  WHEN (current_user IN ('anon', 'authenticated'))
  EXECUTE FUNCTION public.receiptd_keep_created_at();

DROP TRIGGER IF EXISTS receiptd_keep_created_at ON public.user_preferences;
CREATE TRIGGER receiptd_keep_created_at
  BEFORE INSERT OR UPDATE ON public.user_preferences FOR EACH ROW
  WHEN (current_user IN ('anon', 'authenticated'))
  EXECUTE FUNCTION public.receiptd_keep_created_at();

-- Supabase grants clients the right to run every function in `public`; triggers need no such right.
DO $$
DECLARE
  signature text;
  client text;
BEGIN
  FOREACH signature IN ARRAY ARRAY['receiptd_guard_profiles()', 'receiptd_guard_user_preferences()',
    'receiptd_note_client_write(text, uuid, text, text, text, timestamptz, boolean)',
    'receiptd_client_write_mode(text)', 'receiptd_known_until(text, uuid)',
    'receiptd_profile_until(timestamptz, text, text)', 'receiptd_queue_status(uuid)', 'receiptd_caller()', 'receiptd_make_room(text, uuid)',
    'receiptd_forget_added_row()', 'receiptd_is_same_second(timestamptz, timestamptz)',
    'receiptd_touch_updated_at()', 'receiptd_keep_created_at()']
  LOOP
    EXECUTE format('REVOKE ALL ON FUNCTION public.%s FROM PUBLIC', signature);
    FOR client IN SELECT rolname FROM pg_roles WHERE rolname IN ('anon', 'authenticated', 'service_role') LOOP
      EXECUTE format('REVOKE ALL ON FUNCTION public.%s FROM %I', signature, client);
    END LOOP;
  END LOOP;
END
$$;
