-- The guards of the premium columns. This is the last migration: as long as an earlier one has not been applied, clients that
-- write these columns themselves go on as before.
--
-- Supabase lets users update their own profile row. Triggers refuse a change of the premium columns by the roles that act
-- for users, so that a user cannot grant premium to their own account. The server and service_role may write these columns.

-- Both tables may be live: see 20260413_roles.sql.
LOCK TABLE public.profiles, public.user_preferences IN ACCESS EXCLUSIVE MODE;

CREATE OR REPLACE FUNCTION public.receiptd_refuse_premium_change() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the premium status of % is written by the server only', TG_TABLE_NAME
    USING ERRCODE = 'insufficient_privilege';
END
$$;
COMMENT ON FUNCTION public.receiptd_refuse_premium_change() IS 'Refuses a change of the premium status by a role that acts for a user.';

DROP TRIGGER IF EXISTS receiptd_guard_premium_update ON public.profiles;
CREATE TRIGGER receiptd_guard_premium_update
  BEFORE UPDATE ON public.profiles FOR EACH ROW
  WHEN (current_user IN ('anon', 'authenticated')
    AND (OLD.premium_expires_at, OLD.premium_product_id, OLD.premium_original_transaction_id)
      IS DISTINCT FROM
      (NEW.premium_expires_at, NEW.premium_product_id, NEW.premium_original_transaction_id))
  EXECUTE FUNCTION public.receiptd_refuse_premium_change();

DROP TRIGGER IF EXISTS receiptd_guard_premium_insert ON public.profiles;
CREATE TRIGGER receiptd_guard_premium_insert
  BEFORE INSERT ON public.profiles FOR EACH ROW
  WHEN (current_user IN ('anon', 'authenticated')
    AND (NEW.premium_expires_at IS NOT NULL OR NEW.premium_product_id IS NOT NULL
      OR NEW.premium_original_transaction_id IS NOT NULL))
  EXECUTE FUNCTION public.receiptd_refuse_premium_change();

DROP TRIGGER IF EXISTS receiptd_guard_premium_update ON public.user_preferences;
CREATE TRIGGER receiptd_guard_premium_update
  BEFORE UPDATE ON public.user_preferences FOR EACH ROW
  WHEN (current_user IN ('anon', 'authenticated')
    AND (OLD.is_premium, OLD.bookmark_limit) IS DISTINCT FROM (NEW.is_premium, NEW.bookmark_limit))
  EXECUTE FUNCTION public.receiptd_refuse_premium_change();

DROP TRIGGER IF EXISTS receiptd_guard_premium_insert ON public.user_preferences;
CREATE TRIGGER receiptd_guard_premium_insert
  BEFORE INSERT ON public.user_preferences FOR EACH ROW
  WHEN (current_user IN ('anon', 'authenticated')
    AND (NEW.is_premium IS DISTINCT FROM false OR NEW.bookmark_limit IS DISTINCT FROM 2))
  EXECUTE FUNCTION public.receiptd_refuse_premium_change();

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

-- Supabase grants functions in `public` to its roles, which could call them over the API.
DO $$
DECLARE
  role text;
BEGIN
  FOR role IN
    SELECT 'PUBLIC' UNION ALL
    SELECT quote_ident(rolname) FROM pg_roles WHERE rolname IN ('anon', 'authenticated', 'service_role')
  LOOP
    EXECUTE format('REVOKE ALL ON FUNCTION public.receiptd_refuse_premium_change(), public.receiptd_keep_created_at() FROM %s',
      role);
  END LOOP;
END
$$;
