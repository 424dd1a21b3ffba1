-- The app's own tables as receiptd needs them. Each of them may be live: it has rows, other columns, indexes under other
-- names, and readers that must not wait.
--
-- A comment `migrate: new transaction` ends a transaction, so that no lock is held while the next step works. Each step checks
-- first whether it is needed, because an attempt that fails runs all of them again. A step that needs an exclusive lock does
-- nothing that takes time in proportion to the rows, with the exceptions that docs/operations.md names.

-- Helpers for this file, dropped at its end.

-- Gives columns the types that receiptd needs, and lets them be NULL, in one ALTER TABLE. `wanted` has types by column;
-- columns in `required` keep NOT NULL.
--
-- A timestamp without time zone is UTC. With that time zone PostgreSQL 12 and later converts the column without a rewrite; it
-- does not rewrite for varchar to text either.
CREATE OR REPLACE FUNCTION public.receiptd_fit_columns(relation regclass, wanted jsonb, required text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
  changes text;
  reason text;
  view_or_rule text;
BEGIN
  SELECT string_agg(change, ', ' ORDER BY attnum, change DESC) INTO changes FROM (
    SELECT a.attnum, format('ALTER COLUMN %1$I TYPE %2$s USING %1$I::%2$s', a.attname, w.type) AS change
    FROM jsonb_each_text(wanted) AS w (name, type)
    JOIN pg_attribute a ON a.attrelid = relation AND a.attname = w.name AND NOT a.attisdropped
    JOIN pg_type t ON t.oid = a.atttypid
    WHERE (a.atttypid <> w.type::regtype OR a.atttypmod <> -1)
      -- Any type of number does.
      AND NOT (w.type IN ('integer', 'bigint') AND t.typcategory = 'N')
    UNION ALL
    SELECT a.attnum, format('ALTER COLUMN %I DROP NOT NULL', a.attname)
    FROM pg_attribute a
    WHERE a.attrelid = relation AND a.attnotnull AND NOT a.attisdropped
      AND wanted ? a.attname AND a.attname <> ALL (required)
      AND NOT EXISTS (
        SELECT FROM pg_index i WHERE i.indrelid = relation AND i.indisprimary AND a.attnum = ANY (i.indkey))
  ) AS needed;
  IF changes IS NOT NULL THEN
    EXECUTE format('ALTER TABLE %s %s', relation, changes);
  END IF;
EXCEPTION
  WHEN feature_not_supported THEN
    GET STACKED DIAGNOSTICS reason = MESSAGE_TEXT, view_or_rule = PG_EXCEPTION_DETAIL;
    RAISE EXCEPTION '%: %', relation, reason USING ERRCODE = 'feature_not_supported', DETAIL = view_or_rule,
      HINT = 'drop that object, run receiptd migrate again, and create it again';
END
$$;

-- Creates an index unless the table has an equal one under any name, or one of the same columns without the WHERE clause.
CREATE OR REPLACE FUNCTION public.receiptd_fit_index(
  relation regclass, name text, definition text, is_unique boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF EXISTS (
    SELECT FROM pg_index i
    CROSS JOIN LATERAL pg_get_indexdef(i.indexrelid) AS whole
    WHERE i.indrelid = relation AND i.indisvalid AND (NOT is_unique OR i.indisunique AND i.indimmediate)
      AND substr(whole, strpos(whole, ' USING ') + 1) IN (definition, split_part(definition, ' WHERE ', 1)))
  THEN
    RETURN;
  END IF;
  IF to_regclass(format('public.%I', name)) IS NOT NULL THEN
    RAISE EXCEPTION 'the index % of % is not valid, or not the one that receiptd needs (%)', name, relation, definition
      USING ERRCODE = 'duplicate_table', HINT = format('DROP INDEX CONCURRENTLY public.%I, and run receiptd migrate again', name);
  END IF;
  EXECUTE format(
    'CREATE %sINDEX %I ON %s %s', CASE WHEN is_unique THEN 'UNIQUE ' ELSE '' END, name, relation, definition);
END
$$;

-- migrate: new transaction

SELECT public.receiptd_fit_columns('public.profiles',
  '{"premium_expires_at": "timestamptz", "premium_product_id": "text", "premium_original_transaction_id": "text"}', '{}');

-- migrate: new transaction

SELECT public.receiptd_fit_columns('public.user_preferences',
  '{"is_premium": "boolean", "bookmark_limit": "integer"}', '{is_premium,bookmark_limit}');

-- migrate: new transaction

CREATE TABLE IF NOT EXISTS public.subscriptions (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  device_id text,
  original_transaction_id text NOT NULL,
  transaction_id text,
  product_id text,
  tier text,
  status text,
  purchase_date timestamptz,
  expiry_date timestamptz,
  auto_renew_enabled boolean,
  last_validated_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE public.subscriptions
  ADD COLUMN IF NOT EXISTS device_id text,
  ADD COLUMN IF NOT EXISTS transaction_id text,
  ADD COLUMN IF NOT EXISTS product_id text,
  ADD COLUMN IF NOT EXISTS tier text,
  ADD COLUMN IF NOT EXISTS status text,
  ADD COLUMN IF NOT EXISTS purchase_date timestamptz,
  ADD COLUMN IF NOT EXISTS expiry_date timestamptz,
  ADD COLUMN IF NOT EXISTS auto_renew_enabled boolean,
  ADD COLUMN IF NOT EXISTS last_validated_at timestamptz,
  ADD COLUMN IF NOT EXISTS created_at timestamptz DEFAULT now(),
  ADD COLUMN IF NOT EXISTS updated_at timestamptz DEFAULT now(),
  ADD COLUMN IF NOT EXISTS bundle_id text,
  ADD COLUMN IF NOT EXISTS environment text,
  ADD COLUMN IF NOT EXISTS user_id uuid,
  ADD COLUMN IF NOT EXISTS store_status text,
  ADD COLUMN IF NOT EXISTS status_since timestamptz,
  ADD COLUMN IF NOT EXISTS ownership text,
  ADD COLUMN IF NOT EXISTS grace_expires_at timestamptz,
  ADD COLUMN IF NOT EXISTS revoked_at timestamptz,
  ADD COLUMN IF NOT EXISTS price_milliunits bigint,
  ADD COLUMN IF NOT EXISTS currency text,
  ADD COLUMN IF NOT EXISTS signed_at timestamptz,
  ADD COLUMN IF NOT EXISTS kind text,
  ADD COLUMN IF NOT EXISTS renews_as text,
  ADD COLUMN IF NOT EXISTS upcoming_product_id text,
  ADD COLUMN IF NOT EXISTS upcoming_tier text,
  ADD COLUMN IF NOT EXISTS owned_because text,
  ADD COLUMN IF NOT EXISTS taken_from text,
  ADD COLUMN IF NOT EXISTS app_account_token uuid,
  ADD COLUMN IF NOT EXISTS app_transaction_id text,
  ADD COLUMN IF NOT EXISTS is_counted boolean,
  ADD COLUMN IF NOT EXISTS phase_starts timestamptz[],
  ADD COLUMN IF NOT EXISTS phase_statuses text[],
  ADD COLUMN IF NOT EXISTS phase_store_statuses text[],
  ADD COLUMN IF NOT EXISTS next_change_at timestamptz,
  ADD COLUMN IF NOT EXISTS store_asked_at timestamptz,
  ADD COLUMN IF NOT EXISTS erased_as text,
  ADD COLUMN IF NOT EXISTS erased_at timestamptz,
  ADD COLUMN IF NOT EXISTS erased_tokens text[];
SELECT public.receiptd_fit_columns('public.subscriptions', '{
    "original_transaction_id": "text", "device_id": "text", "transaction_id": "text", "product_id": "text",
    "tier": "text", "status": "text", "purchase_date": "timestamptz", "expiry_date": "timestamptz",
    "auto_renew_enabled": "boolean", "last_validated_at": "timestamptz", "created_at": "timestamptz",
    "updated_at": "timestamptz", "bundle_id": "text", "environment": "text", "user_id": "uuid",
    "store_status": "text", "status_since": "timestamptz", "ownership": "text", "grace_expires_at": "timestamptz",
    "revoked_at": "timestamptz", "price_milliunits": "bigint", "currency": "text", "signed_at": "timestamptz",
    "kind": "text", "renews_as": "text", "upcoming_product_id": "text", "upcoming_tier": "text",
    "owned_because": "text", "taken_from": "text", "app_account_token": "uuid", "app_transaction_id": "text",
    "is_counted": "boolean", "phase_starts": "timestamptz[]", "phase_statuses": "text[]",
    "phase_store_statuses": "text[]", "next_change_at": "timestamptz", "store_asked_at": "timestamptz",
    "erased_as": "text", "erased_at": "timestamptz", "erased_tokens": "text[]"}',
  '{original_transaction_id,created_at,updated_at}');

-- receiptd inserts rows and names its own columns only.
DO $$
DECLARE
  name text;
BEGIN
  FOR name IN
    SELECT a.attname FROM pg_attribute a
    WHERE a.attrelid = 'public.subscriptions'::regclass AND a.attnum > 0 AND NOT a.attisdropped
      AND a.attnotnull AND NOT a.atthasdef AND a.attidentity = ''
      AND a.attname NOT IN ('id', 'original_transaction_id', 'created_at', 'updated_at')
      AND NOT EXISTS (
        SELECT FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisprimary AND a.attnum = ANY (i.indkey))
  LOOP
    EXECUTE format('ALTER TABLE public.subscriptions ALTER COLUMN %I DROP NOT NULL', name);
  END LOOP;
  IF EXISTS (
    SELECT FROM pg_attribute a
    WHERE a.attrelid = 'public.subscriptions'::regclass AND a.attname = 'id' AND NOT a.attisdropped
      AND a.atttypid = 'uuid'::regtype AND NOT a.atthasdef)
  THEN
    ALTER TABLE public.subscriptions ALTER COLUMN id SET DEFAULT gen_random_uuid();
  END IF;
END
$$;

COMMENT ON TABLE public.subscriptions IS 'One row per subscription or lifetime purchase (originalTransactionId), computed from the signed facts in transactions and renewals. Do not edit it by hand: the next fact overwrites it. Of a row without a bundle_id no fact is known yet: it is from before receiptd or, with erased_at, may only record the erasure of a user whom only notifications named.';
COMMENT ON COLUMN public.subscriptions.id IS 'The row''s own id.';
COMMENT ON COLUMN public.subscriptions.device_id IS 'The device that owns it, in apps whose customers are devices. Of a row from before receiptd: the device that the former server named, which stays the owner until a proof or support decides otherwise.';
COMMENT ON COLUMN public.subscriptions.original_transaction_id IS 'Apple''s originalTransactionId: the same for every period.';
COMMENT ON COLUMN public.subscriptions.transaction_id IS 'Apple''s transactionId of the latest purchase.';
COMMENT ON COLUMN public.subscriptions.product_id IS 'The product that gives access as of updated_at, by the catalog''s name (by Apple''s name if the catalog does not know it).';
COMMENT ON COLUMN public.subscriptions.tier IS 'The tier that the product gives access to. NULL: the catalog does not know the product, so it gives none.';
COMMENT ON COLUMN public.subscriptions.status IS 'active, grace, expired or cancelled, as of updated_at; support_subscriptions shows it as of now.';
COMMENT ON COLUMN public.subscriptions.purchase_date IS 'When the customer bought the latest period.';
COMMENT ON COLUMN public.subscriptions.expiry_date IS 'The end of the paid time. NULL: it never expires.';
COMMENT ON COLUMN public.subscriptions.auto_renew_enabled IS 'Whether the App Store intends to charge again.';
COMMENT ON COLUMN public.subscriptions.last_validated_at IS 'When a client last proved the purchase.';
COMMENT ON COLUMN public.subscriptions.created_at IS 'When receiptd first saw the purchase.';
COMMENT ON COLUMN public.subscriptions.updated_at IS 'When receiptd last wrote this row.';
COMMENT ON COLUMN public.subscriptions.bundle_id IS 'The app. NULL: the row is from before receiptd, and its values are those of the former server; with erased_at, it may only record an erasure.';
COMMENT ON COLUMN public.subscriptions.environment IS 'Production, or Sandbox for testers.';
COMMENT ON COLUMN public.subscriptions.user_id IS 'The user that owns it, in apps whose customers are users. NULL: no user has claimed it.';
COMMENT ON COLUMN public.subscriptions.store_status IS 'The status by the App Store''s rules, as of updated_at: active, billingRetry, billingGrace, expired or revoked.';
COMMENT ON COLUMN public.subscriptions.status_since IS 'When the values of status, store_status and product_id began. NULL: at the beginning of the purchase. In the future: a server with a fast clock wrote the row, and the sweep corrects it.';
COMMENT ON COLUMN public.subscriptions.ownership IS 'PURCHASED, or FAMILY_SHARED for a family member.';
COMMENT ON COLUMN public.subscriptions.grace_expires_at IS 'The end of Apple''s billing grace for the latest period.';
COMMENT ON COLUMN public.subscriptions.revoked_at IS 'When Apple refunded or revoked the latest purchase.';
COMMENT ON COLUMN public.subscriptions.price_milliunits IS 'The configured price in thousandths of the currency''s unit (4.99 is 4990); not the proceeds.';
COMMENT ON COLUMN public.subscriptions.currency IS 'ISO 4217.';
COMMENT ON COLUMN public.subscriptions.signed_at IS 'The latest signedDate among the facts from which this row was computed.';
COMMENT ON COLUMN public.subscriptions.kind IS 'Apple''s type: Auto-Renewable Subscription, Non-Consumable, ...';
COMMENT ON COLUMN public.subscriptions.renews_as IS 'The product of the next period. NULL: no period follows.';
COMMENT ON COLUMN public.subscriptions.upcoming_product_id IS 'The product of the latest purchase, if the App Store charged it ahead of time and it differs: it gives access from purchase_date on. NULL: product_id is the product of the latest purchase.';
COMMENT ON COLUMN public.subscriptions.upcoming_tier IS 'The tier of upcoming_product_id.';
COMMENT ON COLUMN public.subscriptions.owned_because IS 'The rule that decided the owner: app_account_token, first_claim, unproven_claim (the customer named the transaction''s id, and the first proof takes the purchase), transfer or support.';
COMMENT ON COLUMN public.subscriptions.taken_from IS 'The customer from whom support moved the purchase. A proof of this customer does not move it back.';
COMMENT ON COLUMN public.subscriptions.app_account_token IS 'The last appAccountToken that decided the owner.';
COMMENT ON COLUMN public.subscriptions.app_transaction_id IS 'Apple''s appTransactionId: identifies an Apple Account and an app.';
COMMENT ON COLUMN public.subscriptions.is_counted IS 'Whether it can give access: the catalog knows its product, and a sandbox purchase belongs to a tester.';
COMMENT ON COLUMN public.subscriptions.phase_starts IS 'When each phase begins; the first is NULL: from the beginning. The status at an instant is that of the last phase that has begun.';
COMMENT ON COLUMN public.subscriptions.phase_statuses IS 'The status in each phase.';
COMMENT ON COLUMN public.subscriptions.phase_store_statuses IS 'The store status in each phase.';
COMMENT ON COLUMN public.subscriptions.next_change_at IS 'When the status next changes with time alone.';
COMMENT ON COLUMN public.subscriptions.store_asked_at IS 'When receiptd last asked the App Store about it, because a renewal was overdue and no notification had come.';
COMMENT ON COLUMN public.subscriptions.erased_as IS 'The pseudonym of the customer that owned it and was erased. NULL: none was. The purchase has no owner until a signed transaction proves it again. With bundle_id NULL: only notifications that waited told of the purchase.';
COMMENT ON COLUMN public.subscriptions.erased_at IS 'When that customer was erased.';
COMMENT ON COLUMN public.subscriptions.erased_tokens IS 'SHA-256 in hex of each appAccountToken of an erased customer, so that a later payload with the token names no owner. NULL: none.';

-- Indexes, each in a transaction of its own: readers go on, writers wait for one index at a time. The definitions are in the
-- words of pg_get_indexdef().

-- migrate: new transaction

SELECT public.receiptd_fit_index('public.subscriptions', 'subscriptions_original_transaction_id_key',
  'USING btree (original_transaction_id)', is_unique => true);

-- migrate: new transaction

-- Whether two users claim one purchase.
SELECT public.receiptd_fit_index('public.profiles', 'profiles_premium_original_transaction_id_idx',
  'USING btree (premium_original_transaction_id) WHERE (premium_original_transaction_id IS NOT NULL)');

-- migrate: new transaction

SELECT public.receiptd_fit_index('public.subscriptions', 'subscriptions_user_id_idx',
  'USING btree (user_id) WHERE (user_id IS NOT NULL)');

-- migrate: new transaction

SELECT public.receiptd_fit_index('public.subscriptions', 'subscriptions_device_id_idx',
  'USING btree (device_id) WHERE (device_id IS NOT NULL)');

-- migrate: new transaction

-- Support lists the subscriptions of a status.
SELECT public.receiptd_fit_index('public.subscriptions', 'subscriptions_status_idx',
  'USING btree (status)');

-- migrate: new transaction

-- Support looks for the transaction on the customer's receipt, and for a customer by the id of a user or a device.
SELECT public.receiptd_fit_index('public.subscriptions', 'subscriptions_transaction_id_idx',
  'USING btree (transaction_id)');

-- migrate: new transaction

SELECT public.receiptd_fit_index('public.subscriptions', 'subscriptions_customer_idx',
  'USING btree (COALESCE((user_id)::text, device_id)) WHERE ((user_id IS NOT NULL) OR (device_id IS NOT NULL))');

-- migrate: new transaction

SELECT public.receiptd_fit_index('public.subscriptions', 'subscriptions_app_transaction_id_idx',
  'USING btree (app_transaction_id) WHERE (app_transaction_id IS NOT NULL)');

-- migrate: new transaction

SELECT public.receiptd_fit_index('public.subscriptions', 'subscriptions_expiry_date_idx',
  'USING btree (expiry_date) WHERE (expiry_date IS NOT NULL)');

-- migrate: new transaction

-- The sweep looks for rows whose status has changed with time alone, and for rows that a server with a fast clock wrote.
SELECT public.receiptd_fit_index('public.subscriptions', 'subscriptions_next_change_at_idx',
  'USING btree (next_change_at) WHERE (next_change_at IS NOT NULL)');

-- migrate: new transaction

SELECT public.receiptd_fit_index('public.subscriptions', 'subscriptions_status_since_idx',
  'USING btree (status_since) WHERE (status_since IS NOT NULL)');

-- migrate: new transaction

-- Reconciling looks for renewals that are overdue, app by app.
SELECT public.receiptd_fit_index('public.subscriptions', 'subscriptions_renewal_due_idx',
  'USING btree (bundle_id, environment, expiry_date) WHERE ((revoked_at IS NULL) AND (expiry_date IS NOT NULL))');

-- migrate: new transaction

-- The trial of an erased customer belongs to the purchase of the same pseudonym.
SELECT public.receiptd_fit_index('public.subscriptions', 'subscriptions_erased_as_idx',
  'USING btree (erased_as) WHERE (erased_as IS NOT NULL)');

-- migrate: new transaction

-- A server reads these when it starts or reads its configuration again.
SELECT public.receiptd_fit_index('public.subscriptions', 'subscriptions_sandbox_idx',
  'USING btree (bundle_id, original_transaction_id) WHERE (environment = ''Sandbox''::text)');

-- migrate: new transaction

DROP FUNCTION public.receiptd_fit_columns(regclass, jsonb, text[]);
DROP FUNCTION public.receiptd_fit_index(regclass, text, text, boolean);
