-- Supabase grants users the right to update their own profile row. Without this, that right includes
-- making oneself premium. What these roles send is refused; the server and service_role write on.

CREATE OR REPLACE FUNCTION public.receiptd_refuse_premium_change() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the premium status of % is written by the server only', TG_TABLE_NAME
    USING ERRCODE = 'insufficient_privilege';
END
$$;
COMMENT ON FUNCTION public.receiptd_refuse_premium_change() IS
  'Refuses a change of the premium status by a role that speaks for a user.';

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
