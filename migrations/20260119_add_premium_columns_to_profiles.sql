-- The premium status on user profiles.
--
-- Each step checks first whether it is needed, so it is safe to run the file again, also by hand. It works on plain
-- PostgreSQL 13 or later and on Supabase, where `profiles` exists already and references auth.users. `receiptd migrate` ends a
-- transaction at the comment `migrate: new transaction`, so that the index is made without the lock of ALTER TABLE.

-- Whether clients may write the premium columns of a table; the triggers of 20260420_client_writes.sql read it. Where the
-- columns existed before receiptd, old builds of clients write them. No client may read or write this table, so row level
-- security is on from the start: Supabase grants clients everything in `public`.
CREATE TABLE IF NOT EXISTS public.client_write_modes (
  table_name text PRIMARY KEY,
  existed_before boolean NOT NULL,
  mode text CHECK (mode IN ('accept', 'observe', 'refuse')),
  free_bookmark_limit integer NOT NULL DEFAULT 2,
  bundle_ids text[] NOT NULL DEFAULT '{}',
  counted_since timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE public.client_write_modes ENABLE ROW LEVEL SECURITY;
COMMENT ON TABLE public.client_write_modes IS 'The mode in which clients may write the premium columns of each of the app''s own tables. Each server writes it when it starts and when it reads its configuration again.';
COMMENT ON COLUMN public.client_write_modes.table_name IS 'profiles or user_preferences.';
COMMENT ON COLUMN public.client_write_modes.existed_before IS 'Whether the table had premium columns before receiptd: then old builds of clients may write them.';
COMMENT ON COLUMN public.client_write_modes.mode IS 'accept, observe or refuse (clientWrites in the configuration). NULL: no server has started yet; accept where the columns existed before, else refuse.';
COMMENT ON COLUMN public.client_write_modes.free_bookmark_limit IS 'The bookmark_limit of a user without premium, for user_preferences.';
COMMENT ON COLUMN public.client_write_modes.bundle_ids IS 'The apps that write their status to the table. Empty: no server has started yet.';
COMMENT ON COLUMN public.client_write_modes.counted_since IS 'Since when client writes are counted.';
INSERT INTO public.client_write_modes (table_name, existed_before)
VALUES ('profiles', EXISTS (
  SELECT FROM pg_attribute
  WHERE attrelid = to_regclass('public.profiles') AND attname = 'premium_expires_at' AND NOT attisdropped))
ON CONFLICT DO NOTHING;

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
