-- Households: a child's device has what its parent's plan opens. It joins with a one-time code.
ALTER TABLE receiptd.devices ADD COLUMN IF NOT EXISTS confirmed_at timestamptz;
COMMENT ON COLUMN receiptd.devices.confirmed_at IS 'When the child''s device joined with a code of the parent. NULL: the parent named it, and it did not confirm.';

CREATE TABLE IF NOT EXISTS receiptd.pairing_codes (
  bundle_id text NOT NULL,
  code_hash bytea NOT NULL,
  device_id text NOT NULL,
  created_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL,
  used_at timestamptz,
  PRIMARY KEY (bundle_id, code_hash)
);
CREATE INDEX IF NOT EXISTS pairing_codes_device_id_idx ON receiptd.pairing_codes (bundle_id, device_id);
CREATE INDEX IF NOT EXISTS pairing_codes_expires_at_idx ON receiptd.pairing_codes (expires_at);
COMMENT ON TABLE receiptd.pairing_codes IS 'One-time codes with which children''s devices join a parent''s device. Deleted a day after their end.';
COMMENT ON COLUMN receiptd.pairing_codes.bundle_id IS 'The app.';
COMMENT ON COLUMN receiptd.pairing_codes.code_hash IS 'SHA-256 of the code.';
COMMENT ON COLUMN receiptd.pairing_codes.device_id IS 'The parent''s device.';
COMMENT ON COLUMN receiptd.pairing_codes.created_at IS 'When it was made.';
COMMENT ON COLUMN receiptd.pairing_codes.expires_at IS 'Until when a child can use it.';
COMMENT ON COLUMN receiptd.pairing_codes.used_at IS 'When a child used it. NULL: it is open, or it expired.';

-- A code is worth nothing once it was used, but its hash is short enough to be searched for while it is open: the server alone reads it.
DO $$
DECLARE
  rights CONSTANT text := pg_get_functiondef('public.receiptd_rights()'::regprocedure);
  secrets CONSTANT text := pg_get_functiondef('public.receiptd_secret_columns()'::regprocedure);
BEGIN
  IF position('pairing_codes' IN rights) = 0 THEN
    EXECUTE replace(rights, '(''devices'', ', '(''pairing_codes'', ''SELECT, INSERT, UPDATE, DELETE'', NULL),
    (''devices'', ');
    EXECUTE replace(secrets, '(''log_keys'', ''key'')', '(''log_keys'', ''key''), (''pairing_codes'', ''code_hash'')');
  END IF;
END
$$;

-- migrate: new transaction
SELECT public.receiptd_set_rights('devices');

-- migrate: new transaction
SELECT public.receiptd_set_rights('pairing_codes');
SELECT public.receiptd_set_common_rights();

COMMENT ON TABLE receiptd.lifecycle_events IS 'Events in the life of purchases, trials and households, for the webhooks of apps that receive them, each once. Kept for 90 days.';
COMMENT ON COLUMN receiptd.lifecycle_events.type IS 'trial.started, trial.ending, trial.ended, subscription.started, renewed, cancelled, billing_issue, grace.started, grace.ending, recovered, expired, refunded, refund_reversed, product_changed, price_increase, paused_devices, child.paired, child.unpaired or transferred.';
COMMENT ON COLUMN receiptd.lifecycle_events.child_device_ids IS 'paused_devices: the ids of the paired devices that are paused; child.paired and child.unpaired: the child''s device; as a JSON array. NULL: another type.';
COMMENT ON COLUMN receiptd.lifecycle_events.original_transaction_id IS 'The purchase. NULL: the event is about a trial or a pairing.';
COMMENT ON COLUMN receiptd.lifecycle_events.transaction_id IS 'The transaction: the purchase, renewal or refund that the event is about, otherwise the current one. NULL: the event is about a trial or a pairing.';
COMMENT ON COLUMN receiptd.lifecycle_events.trial_id IS 'The row of trials. NULL: the event is about a purchase or a pairing.';

-- As in 20261130_backend_writes.sql, for servers of the build before.
DO $$
DECLARE
  role regrole;
BEGIN
  IF to_regclass('public.pairing_codes') IS NOT NULL OR NOT EXISTS (
    SELECT FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relname = 'outbox' AND relkind = 'v')
  THEN
    RETURN;
  END IF;
  EXECUTE 'CREATE VIEW public.pairing_codes WITH (security_invoker = true) AS SELECT * FROM receiptd.pairing_codes';
  EXECUTE format('ALTER VIEW public.pairing_codes OWNER TO %s',
    (SELECT relowner::regrole FROM pg_class WHERE oid = 'receiptd.pairing_codes'::regclass));
  COMMENT ON VIEW public.pairing_codes IS 'The former name of receiptd.pairing_codes, for servers of the build before. receiptd_drop_former_names() drops it.';
  COMMENT ON COLUMN public.pairing_codes.bundle_id IS 'The app.';
  COMMENT ON COLUMN public.pairing_codes.code_hash IS 'SHA-256 of the code.';
  COMMENT ON COLUMN public.pairing_codes.device_id IS 'The parent''s device.';
  COMMENT ON COLUMN public.pairing_codes.created_at IS 'When it was made.';
  COMMENT ON COLUMN public.pairing_codes.expires_at IS 'Until when a child can use it.';
  COMMENT ON COLUMN public.pairing_codes.used_at IS 'When a child used it. NULL: it is open, or it expired.';
  REVOKE ALL ON public.pairing_codes FROM PUBLIC;
  FOR role IN
    SELECT DISTINCT granted.grantee::regrole FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) AS granted
    WHERE c.oid = 'public.pairing_codes'::regclass AND granted.grantee NOT IN (0, c.relowner)
  LOOP
    EXECUTE format('REVOKE ALL ON public.pairing_codes FROM %s', role);
  END LOOP;
END
$$;
