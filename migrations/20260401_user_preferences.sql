-- The premium status, for apps that read it from `user_preferences`. An app may have the table already.

INSERT INTO public.client_write_modes (table_name, existed_before)
VALUES ('user_preferences', EXISTS (
  SELECT FROM pg_attribute
  WHERE attrelid = to_regclass('public.user_preferences') AND attname = 'is_premium' AND NOT attisdropped))
ON CONFLICT DO NOTHING;

DO $$
BEGIN
  IF to_regclass('public.user_preferences') IS NULL AND to_regclass('auth.users') IS NOT NULL THEN
    CREATE TABLE public.user_preferences (
      user_id uuid PRIMARY KEY REFERENCES auth.users (id) ON DELETE CASCADE,
      is_premium boolean DEFAULT false,
      bookmark_limit integer DEFAULT 2
    );
    ALTER TABLE public.user_preferences ENABLE ROW LEVEL SECURITY;
    IF to_regprocedure('auth.uid()') IS NOT NULL THEN
      CREATE POLICY "Users read their own preferences" ON public.user_preferences
        FOR SELECT USING ((SELECT auth.uid()) = user_id);
    END IF;
  END IF;
END
$$;

CREATE TABLE IF NOT EXISTS public.user_preferences (
  user_id uuid PRIMARY KEY,
  is_premium boolean DEFAULT false,
  bookmark_limit integer DEFAULT 2
);

ALTER TABLE public.user_preferences
  ADD COLUMN IF NOT EXISTS is_premium boolean DEFAULT false,
  ADD COLUMN IF NOT EXISTS bookmark_limit integer DEFAULT 2;

COMMENT ON TABLE public.user_preferences IS 'The premium status of each user, for apps that read it from this table.';
COMMENT ON COLUMN public.user_preferences.user_id IS 'The user: the sub of an access token.';
COMMENT ON COLUMN public.user_preferences.is_premium IS 'Whether the user has paid access. Written by receiptd only.';
COMMENT ON COLUMN public.user_preferences.bookmark_limit IS 'How many bookmarks the user may keep: userPreferences in the configuration; by default 999 with premium, 2 without. Written by receiptd only.';
