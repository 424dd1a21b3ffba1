-- The Apple Account of a child's device, so that no other account gets its secret; and the purchase with which a child moved, so that it
-- comes back with it.
ALTER TABLE receiptd.device_secrets ADD COLUMN IF NOT EXISTS account_hash bytea;
ALTER TABLE receiptd.devices ADD COLUMN IF NOT EXISTS moved_by text;
CREATE INDEX IF NOT EXISTS devices_moved_by_idx ON receiptd.devices (moved_by) WHERE moved_by IS NOT NULL;
COMMENT ON COLUMN receiptd.device_secrets.account_hash IS 'SHA-256 of the Apple Account with which the device joined a parent (its environment, /, Apple''s appTransactionId). NULL: it did not join, or showed none.';
COMMENT ON COLUMN receiptd.devices.moved_by IS 'The purchase (originalTransactionId) with which the child moved to another parent''s device that took the place of the former one. Where support transfers the purchase, the child goes with it. NULL: it did not move with a purchase.';

-- migrate: new transaction
SELECT public.receiptd_set_rights('devices');

-- migrate: new transaction
SELECT public.receiptd_set_rights('device_secrets');
