-- The premium status on user profiles.
--
-- Each step checks first whether it is needed, so it is safe to run the file again, also by hand. It works on plain
-- PostgreSQL 13 or later and on Supabase, where `profiles` exists already and references auth.users. `receiptd migrate` ends a
-- transaction at the comment `migrate: new transaction`, so that the index is made without the lock of ALTER TABLE.

DO $$
BEGIN
  IF to_regclass('public.profiles') IS NULL THEN
    IF to_regclass('auth.users') IS NOT NULL THEN
      CREATE TABLE public.profiles (
        id uuid PRIMARY KEY REFERENCES auth.users (id) ON DELETE CASCADE
      );
      ALTER TABLE public.profiles ENABLE ROW LEVEL SECURITY;
      IF to_regprocedure('auth.uid()') IS NOT NULL THEN
        CREATE POLICY "Users read their own profile" ON public.profiles
          FOR SELECT USING ((SELECT auth.uid()) = id);
      END IF;
    ELSE
      CREATE TABLE public.profiles (id uuid PRIMARY KEY);
    END IF;
    COMMENT ON TABLE public.profiles IS 'One row per user of the app.';
    COMMENT ON COLUMN public.profiles.id IS 'The user: the sub of an access token.';
  END IF;
END
$$;

ALTER TABLE public.profiles
  ADD COLUMN IF NOT EXISTS premium_expires_at timestamptz,
  ADD COLUMN IF NOT EXISTS premium_product_id text,
  ADD COLUMN IF NOT EXISTS premium_original_transaction_id text;

COMMENT ON COLUMN public.profiles.premium_expires_at IS
  'When premium access ends: the end of the paid time or of Apple''s billing grace. In the past: premium has ended. NULL: free, or lifetime if premium_product_id is set. Written by receiptd only.';
COMMENT ON COLUMN public.profiles.premium_product_id IS
  'The product that gives premium access, by its name in App Store Connect. NULL: free. Written by receiptd only.';
COMMENT ON COLUMN public.profiles.premium_original_transaction_id IS
  'Apple''s originalTransactionId of the purchase that gives premium access: the key to subscriptions and transactions. Written by receiptd only.';

-- migrate: new transaction

-- Support looks for users whose premium ends soon or ended lately. Most users have no expiry and need no entry. An equal index
-- under another name will do.
DO $$
BEGIN
  IF NOT EXISTS (
    SELECT FROM pg_index i
    CROSS JOIN LATERAL pg_get_indexdef(i.indexrelid) AS whole
    WHERE i.indrelid = 'public.profiles'::regclass AND i.indisvalid
      AND substr(whole, strpos(whole, ' USING ') + 1) IN (
        'USING btree (premium_expires_at) WHERE (premium_expires_at IS NOT NULL)', 'USING btree (premium_expires_at)'))
  THEN
    CREATE INDEX profiles_premium_expires_at_idx ON public.profiles (premium_expires_at)
      WHERE premium_expires_at IS NOT NULL;
  END IF;
END
$$;
