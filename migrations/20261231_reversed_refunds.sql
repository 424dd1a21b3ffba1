-- Whether Apple has ever signed a transaction as revoked. A reversed refund ends the revocations of all transactions of the
-- period that were signed before it, and a transaction that is not revoked now does not tell whether it ever was.
ALTER TABLE receiptd.transactions ADD COLUMN IF NOT EXISTS was_revoked boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN receiptd.transactions.was_revoked IS 'Whether an earlier signature of Apple had a revocation: where revoked_at is NULL, Apple has reversed it. Known since this column was added.';

-- migrate: new transaction
SELECT public.receiptd_set_rights('transactions');

-- The former name, which servers of the build before use.
-- migrate: new transaction
DO $$
BEGIN
  IF EXISTS (
    SELECT FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relname = 'transactions' AND relkind = 'v')
  THEN
    EXECUTE format('CREATE OR REPLACE VIEW public.transactions %s AS SELECT * FROM receiptd.transactions%s',
      CASE WHEN current_setting('server_version_num')::integer >= 150000 THEN 'WITH (security_invoker = true)' ELSE '' END,
      CASE WHEN current_setting('server_version_num')::integer >= 150000 THEN '' ELSE ' OFFSET 0' END);
    COMMENT ON COLUMN public.transactions.was_revoked IS 'Whether an earlier signature of Apple had a revocation: where revoked_at is NULL, Apple has reversed it. Known since this column was added.';
  END IF;
END
$$;

-- When a device kept a secret because support had reset the former one. Parts of its record that are older may be another
-- account's, so they do not prove it.
-- migrate: new transaction
ALTER TABLE receiptd.device_secrets ADD COLUMN IF NOT EXISTS kept_at timestamptz;
COMMENT ON COLUMN receiptd.device_secrets.kept_at IS 'When the device kept a first secret within seven days after support''s reset. NULL: it had none of these.';
COMMENT ON COLUMN receiptd.device_secrets.account_hash IS 'SHA-256 of the Apple Account with which the device joined a parent, or which it proved first with a secret of kept_at. NULL: none.';

-- migrate: new transaction
SELECT public.receiptd_set_rights('device_secrets');
