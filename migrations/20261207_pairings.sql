-- The pairings of a parent's device and day have a number, and the erasure of a customer finds events by indexes.
ALTER TABLE receiptd.customer_event_bytes ADD COLUMN IF NOT EXISTS pairings integer NOT NULL DEFAULT 0;
COMMENT ON TABLE receiptd.customer_event_bytes IS 'How many bytes of events were stored under each customer''s id today, and how many children''s devices it paired, so that no client stores too many in the name of a customer.';
COMMENT ON COLUMN receiptd.customer_event_bytes.pairings IS 'The children''s devices that the device paired on the day. Beyond 20 and the number that its plan allows, pairings are refused.';

-- migrate: new transaction
SELECT public.receiptd_set_rights('customer_event_bytes');

-- migrate: new transaction
CREATE INDEX IF NOT EXISTS lifecycle_events_former_user_id_idx ON receiptd.lifecycle_events (former_user_id)
  WHERE former_user_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS lifecycle_events_former_device_id_idx ON receiptd.lifecycle_events (former_device_id)
  WHERE former_device_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS lifecycle_events_child_device_ids_idx ON receiptd.lifecycle_events USING gin (child_device_ids)
  WHERE child_device_ids IS NOT NULL;
