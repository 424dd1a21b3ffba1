-- The date of the revocation that a reversal ends, in place of whether there was one: a revocation of another transaction of the
-- period that is later than it goes on.
ALTER TABLE receiptd.transactions ADD COLUMN IF NOT EXISTS latest_revocation timestamptz,
  ADD COLUMN IF NOT EXISTS app_account_token_changed boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN receiptd.transactions.app_account_token_changed IS 'Whether Apple has signed this transaction with two tokens: app_account_token is the later one, and counts for every transaction of the period. Known since this column was added.';
COMMENT ON COLUMN receiptd.transactions.latest_revocation IS 'The date of the latest revocation that Apple has signed, or of the notification that reversed one. Where revoked_at is NULL, Apple has reversed the revocations of the period up to it.';

-- migrate: new transaction
SELECT public.receiptd_set_rights('transactions');

-- Of the reversals that are known so far, the date of the signature is the nearest one. The former name, which servers of the
-- build before use, keeps its columns.
-- migrate: new transaction
DO $$
BEGIN
  IF EXISTS (
    SELECT FROM pg_attribute WHERE attrelid = 'receiptd.transactions'::regclass AND attname = 'was_revoked' AND NOT attisdropped)
  THEN
    UPDATE receiptd.transactions SET latest_revocation = signed_at
    WHERE was_revoked AND revoked_at IS NULL AND latest_revocation IS NULL;
  END IF;
  IF EXISTS (
    SELECT FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relname = 'transactions' AND relkind = 'v')
  THEN
    EXECUTE format('CREATE OR REPLACE VIEW public.transactions %s AS SELECT %s FROM receiptd.transactions%s',
      CASE WHEN current_setting('server_version_num')::integer >= 150000 THEN 'WITH (security_invoker = true)' ELSE '' END,
      (SELECT string_agg(CASE attname WHEN 'was_revoked' THEN 'false AS was_revoked' ELSE quote_ident(attname) END, ', ' ORDER BY place)
        FROM (
          SELECT attname, attnum AS place FROM pg_attribute WHERE attrelid = 'public.transactions'::regclass AND attnum > 0
          UNION ALL SELECT name, 10000 FROM unnest(ARRAY['latest_revocation', 'app_account_token_changed']) AS name
          WHERE NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'public.transactions'::regclass AND attname = name)) AS columns),
      CASE WHEN current_setting('server_version_num')::integer >= 150000 THEN '' ELSE ' OFFSET 0' END);
    COMMENT ON COLUMN public.transactions.app_account_token_changed IS 'Whether Apple has signed this transaction with two tokens: app_account_token is the later one, and counts for every transaction of the period. Known since this column was added.';
    COMMENT ON COLUMN public.transactions.latest_revocation IS 'The date of the latest revocation that Apple has signed, or of the notification that reversed one. Where revoked_at is NULL, Apple has reversed the revocations of the period up to it.';
  END IF;
END
$$;

-- migrate: new transaction
ALTER TABLE receiptd.transactions DROP COLUMN IF EXISTS was_revoked;

-- Every type of event stands in one list.
-- migrate: new transaction
COMMENT ON COLUMN receiptd.lifecycle_events.type IS 'The type of the event; docs/events.md lists them.';

-- Further words of receiptd in the details of support's actions: a client may choose one as the id of its device, and its
-- erasure must not rename it there.
-- migrate: new transaction
DO $$
DECLARE
  former CONSTANT text := pg_get_functiondef('public.receiptd_rename_in_details(jsonb,text,text,boolean)'::regprocedure);
  changed CONSTANT text := CASE WHEN former LIKE '%''proofAccount''%' THEN former
    ELSE replace(former, '''prefer'', ', '''prefer'', ''proof'', ''proofAccount'', ''queue'', ') END;
BEGIN
  IF changed NOT LIKE '%''proofAccount''%' THEN
    RAISE EXCEPTION 'receiptd_rename_in_details has another definition than receiptd gave it';
  END IF;
  EXECUTE changed;
END
$$;

-- migrate: new transaction
COMMENT ON COLUMN public.subscriptions.erased_tokens IS 'SHA-256 in hex of each appAccountToken of an erased customer, so that a later payload with the token names no owner; with the prefix before-erasure: that of another user, which names none for what was bought before erased_at. NULL: none.';
