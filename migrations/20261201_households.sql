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
