-- Clients and the premium columns of the app's own tables.
--
-- Supabase lets users update their own profile row. Triggers watch the premium columns when a role that acts for users writes
-- them; client_write_modes has the mode of each table:
--   accept   the client's values are written, and the write is counted: old builds go on as before.
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

-- These run with the owner's rights, because clients can read neither the modes nor the claims. The triggers' conditions see
-- the client's role.
CREATE OR REPLACE FUNCTION public.receiptd_guard_profiles() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  mode_now CONSTANT text := public.receiptd_client_write_mode('profiles');
  -- The row that an INSERT … ON CONFLICT DO UPDATE meets. NULLs: there is none.
  stored record;
BEGIN
  IF TG_OP = 'UPDATE' THEN
    stored := OLD;
  ELSE
    SELECT id, premium_expires_at, premium_product_id, premium_original_transaction_id INTO stored
    FROM public.profiles WHERE id = NEW.id;
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
  IF mode_now = 'observe' OR TG_OP = 'UPDATE' OR stored.id IS NULL THEN
    PERFORM public.receiptd_note_client_write('profiles', NEW.id, mode_now, NEW.premium_original_transaction_id,
      NEW.premium_product_id, NEW.premium_expires_at, NULL);
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
  is_new boolean := false;
BEGIN
  IF TG_OP = 'UPDATE' THEN
    stored := OLD;
  ELSE
    SELECT user_id, is_premium, bookmark_limit INTO stored FROM public.user_preferences WHERE user_id = NEW.user_id;
    IF stored.user_id IS NULL THEN
      is_new := true;
      SELECT NULL::uuid AS user_id, false AS is_premium, free_limit AS bookmark_limit INTO stored;
      -- 2 is the column's default.
      IF NEW.bookmark_limit = 2 AND NEW.is_premium IS NOT DISTINCT FROM false THEN
        NEW.bookmark_limit := free_limit;
      END IF;
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
  WHEN (current_user IN ('anon', 'authenticated')
    AND (NEW.premium_expires_at IS NOT NULL OR NEW.premium_product_id IS NOT NULL
      OR NEW.premium_original_transaction_id IS NOT NULL))
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
    'receiptd_client_write_mode(text)', 'receiptd_is_same_second(timestamptz, timestamptz)',
    'receiptd_touch_updated_at()', 'receiptd_keep_created_at()']
  LOOP
    EXECUTE format('REVOKE ALL ON FUNCTION public.%s FROM PUBLIC', signature);
    FOR client IN SELECT rolname FROM pg_roles WHERE rolname IN ('anon', 'authenticated', 'service_role') LOOP
      EXECUTE format('REVOKE ALL ON FUNCTION public.%s FROM %I', signature, client);
    END LOOP;
  END LOOP;
END
$$;
