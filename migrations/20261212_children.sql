-- The Apple Account of a child's device, so that no other account gets its secret; and where a child came from, so that it goes back.
ALTER TABLE receiptd.devices ADD COLUMN IF NOT EXISTS child_account_hash bytea;
ALTER TABLE receiptd.devices ADD COLUMN IF NOT EXISTS moved_from text;
CREATE INDEX IF NOT EXISTS devices_moved_from_idx ON receiptd.devices (moved_from) WHERE moved_from IS NOT NULL;
COMMENT ON COLUMN receiptd.devices.child_account_hash IS 'SHA-256 of the Apple Account with which the child''s device joined (its environment, /, Apple''s appTransactionId). NULL: it showed none.';
COMMENT ON COLUMN receiptd.devices.moved_from IS 'The device that was the child''s parent before another one took its place in the purchase or trial. The child goes back to it when support transfers the purchase back. NULL: the child did not move.';

-- migrate: new transaction
SELECT public.receiptd_set_rights('devices');
