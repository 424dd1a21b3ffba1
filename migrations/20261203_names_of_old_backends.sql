-- The SQL of the apps' old backends names indexes, defaults and a column. On a database without their tables the names are the same, so
-- that it finds them, and running it again adds nothing. On a database with them the indexes have these names already.
DO $$
DECLARE
  former text;
  name text;
BEGIN
  FOR former, name IN VALUES
    ('profiles_premium_expires_at_idx', 'idx_profiles_premium_expires_at'),
    ('subscriptions_device_id_idx', 'idx_device_id'),
    ('subscriptions_original_transaction_id_key', 'idx_original_transaction_id'),
    ('subscriptions_status_idx', 'idx_status')
  LOOP
    IF to_regclass('public.' || former) IS NOT NULL AND to_regclass('public.' || name) IS NULL THEN
      EXECUTE format('ALTER INDEX public.%I RENAME TO %I', former, name);
    END IF;
  END LOOP;
END
$$;

-- migrate: new transaction

-- receiptd's own statements name these columns.
ALTER TABLE public.subscriptions ALTER COLUMN auto_renew_enabled SET DEFAULT true,
  ALTER COLUMN last_validated_at SET DEFAULT now();

-- migrate: new transaction

-- Clients of a live app may write premium columns that did not exist, and ignore the error: their table starts as `observe`. A table that
-- receiptd made has its columns alone. Where a server has started already, the mode stays.
ALTER TABLE receiptd.client_write_modes ADD COLUMN IF NOT EXISTS had_clients boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN receiptd.client_write_modes.had_clients IS 'Whether the table existed before receiptd, with or without premium columns.';
UPDATE receiptd.client_write_modes AS modes SET had_clients = existed_before OR mode IS NULL AND EXISTS (
  SELECT FROM pg_attribute
  WHERE attrelid = to_regclass('public.' || modes.table_name) AND attnum > 0 AND NOT attisdropped
    AND attname NOT IN ('id', 'user_id', 'premium_expires_at', 'premium_product_id', 'premium_original_transaction_id',
      'is_premium', 'bookmark_limit'));

DO $$
DECLARE
  changed CONSTANT text := replace(pg_get_functiondef('receiptd.receiptd_client_write_mode(text)'::regprocedure),
    'CASE WHEN existed_before THEN ''accept'' ELSE', 'CASE WHEN existed_before THEN ''accept'' WHEN had_clients THEN ''observe'' ELSE');
BEGIN
  IF position('had_clients' IN changed) = 0 THEN
    RAISE EXCEPTION 'receiptd_client_write_mode does not read the modes';
  END IF;
  EXECUTE changed;
END
$$;
SELECT public.receiptd_set_rights('client_write_modes');

-- migrate: new transaction

-- A table that receiptd made has its columns alone. Its rows of before tell no date.
DO $$
BEGIN
  IF EXISTS (SELECT FROM receiptd.client_write_modes WHERE table_name = 'user_preferences' AND NOT existed_before)
    AND NOT EXISTS (
      SELECT FROM pg_attribute
      WHERE attrelid = 'public.user_preferences'::regclass AND attnum > 0 AND NOT attisdropped
        AND attname NOT IN ('user_id', 'is_premium', 'bookmark_limit'))
  THEN
    ALTER TABLE public.user_preferences ADD COLUMN created_at timestamptz;
    ALTER TABLE public.user_preferences ALTER COLUMN created_at SET DEFAULT now();
    COMMENT ON COLUMN public.user_preferences.created_at IS 'When the row was added. NULL: before this column.';
  END IF;
END
$$;

-- migrate: new transaction
SELECT public.receiptd_set_rights('user_preferences');
