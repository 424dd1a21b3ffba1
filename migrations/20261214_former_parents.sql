-- The devices that had a child before it moved to another one: a transfer gives it back to one of them alone.
ALTER TABLE receiptd.devices ADD COLUMN IF NOT EXISTS former_parents text[] NOT NULL DEFAULT '{}';
CREATE INDEX IF NOT EXISTS devices_former_parents_idx ON receiptd.devices USING gin (former_parents) WHERE former_parents <> '{}';
COMMENT ON COLUMN receiptd.devices.former_parents IS 'The parents'' devices that had the child before another device took their place, the first one first; at most 20. Where support transfers the purchase to one of them, the child goes with it.';
COMMENT ON COLUMN receiptd.devices.moved_by IS 'The first purchase (originalTransactionId) with which the child moved to another parent''s device that took the place of the former one. Where support transfers the purchase to a device that had the child, the child goes with it. NULL: it did not move with a purchase.';

-- migrate: new transaction
SELECT public.receiptd_set_rights('devices');
