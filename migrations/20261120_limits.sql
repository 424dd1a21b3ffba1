-- Limits on what clients can make the database keep: the moves of a purchase or a trial, the replacements of a device's secret,
-- the secrets of devices with nothing on record, and the events in one customer's name.
--
-- The new columns have no default or a constant one, so no row is written for them.

ALTER TABLE public.subscriptions
  ADD COLUMN IF NOT EXISTS counted_moves integer,
  ADD COLUMN IF NOT EXISTS counted_moves_since timestamptz,
  ADD COLUMN IF NOT EXISTS counted_unproven_moves integer,
  ADD COLUMN IF NOT EXISTS counted_unproven_moves_since timestamptz;
COMMENT ON COLUMN public.subscriptions.counted_moves IS 'How many times the app''s rules moved the purchase to another customer or device with a proof within 24 hours from counted_moves_since. NULL: never.';
COMMENT ON COLUMN public.subscriptions.counted_moves_since IS 'The first of these moves. 24 hours later a new count begins. NULL: there was none.';
COMMENT ON COLUMN public.subscriptions.counted_unproven_moves IS 'The same for customers and devices that only named the transaction''s id, within 24 hours from counted_unproven_moves_since. NULL: never.';
COMMENT ON COLUMN public.subscriptions.counted_unproven_moves_since IS 'The first of these moves. 24 hours later a new count begins. NULL: there was none.';

-- migrate: new transaction

ALTER TABLE public.purchase_devices
  ADD COLUMN IF NOT EXISTS displaced_device_id text,
  ADD COLUMN IF NOT EXISTS displaced_at timestamptz,
  ADD COLUMN IF NOT EXISTS next_displaced_device_id text,
  ADD COLUMN IF NOT EXISTS next_displaced_at timestamptz;
COMMENT ON COLUMN public.purchase_devices.displaced_device_id IS 'The device that lost this place to the device or to one before it, and may have it back within 30 days. NULL: none.';
COMMENT ON COLUMN public.purchase_devices.displaced_at IS 'When it lost the place. NULL: displaced_device_id is NULL.';
COMMENT ON COLUMN public.purchase_devices.next_displaced_device_id IS 'The device that lost this place next, and may have it back within 30 days. NULL: none.';
COMMENT ON COLUMN public.purchase_devices.next_displaced_at IS 'When it lost the place. NULL: next_displaced_device_id is NULL.';
-- Erasing looks for the device.
CREATE INDEX IF NOT EXISTS purchase_devices_displaced_device_id_idx ON public.purchase_devices (displaced_device_id)
  WHERE displaced_device_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS purchase_devices_next_displaced_device_id_idx ON public.purchase_devices (next_displaced_device_id)
  WHERE next_displaced_device_id IS NOT NULL;

-- migrate: new transaction

ALTER TABLE public.trials
  ADD COLUMN IF NOT EXISTS displaced_device_id text,
  ADD COLUMN IF NOT EXISTS displaced_at timestamptz,
  ADD COLUMN IF NOT EXISTS next_displaced_device_id text,
  ADD COLUMN IF NOT EXISTS next_displaced_at timestamptz,
  ADD COLUMN IF NOT EXISTS joined_at timestamptz,
  ADD COLUMN IF NOT EXISTS counted_moves integer,
  ADD COLUMN IF NOT EXISTS counted_moves_since timestamptz;
COMMENT ON COLUMN public.trials.device_id IS 'The device that has the trial: it began it, joined it, or replaced the device that joined it longest ago.';
COMMENT ON COLUMN public.trials.displaced_device_id IS 'The device that lost this place to the device or to one before it, and may have it back within 30 days. NULL: none.';
COMMENT ON COLUMN public.trials.displaced_at IS 'When it lost the place. NULL: displaced_device_id is NULL.';
COMMENT ON COLUMN public.trials.next_displaced_device_id IS 'The device that lost this place next, and may have it back within 30 days. NULL: none.';
COMMENT ON COLUMN public.trials.next_displaced_at IS 'When it lost the place. NULL: next_displaced_device_id is NULL.';
CREATE INDEX IF NOT EXISTS trials_displaced_device_id_idx ON public.trials (displaced_device_id)
  WHERE displaced_device_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS trials_next_displaced_device_id_idx ON public.trials (next_displaced_device_id)
  WHERE next_displaced_device_id IS NOT NULL;
COMMENT ON COLUMN public.trials.joined_at IS 'When the device joined the trial. NULL: it began the trial, or joined before 20261120_limits.sql.';
COMMENT ON COLUMN public.trials.counted_moves IS 'How many devices replaced another one in this trial within 24 hours from counted_moves_since. NULL: none, or continues is set.';
COMMENT ON COLUMN public.trials.counted_moves_since IS 'The first of these replacements. 24 hours later a new count begins. NULL: there was none.';
-- The account of a trial stands in the row of the device that began it. An earlier version let a device that had joined the trial of
-- one account add another account, which thereby lost its own trial.
UPDATE public.trials SET app_transaction_id = NULL WHERE continues IS NOT NULL AND app_transaction_id IS NOT NULL;

-- migrate: new transaction

ALTER TABLE public.device_secrets
  ADD COLUMN IF NOT EXISTS replacements integer,
  ADD COLUMN IF NOT EXISTS replacements_since timestamptz;
COMMENT ON COLUMN public.device_secrets.replacements IS 'How many times the secret was replaced within 24 hours from replacements_since. NULL: never.';
COMMENT ON COLUMN public.device_secrets.replacements_since IS 'The first of these replacements. 24 hours later a new count begins. NULL: there was none.';
-- Retention looks for old secrets.
CREATE INDEX IF NOT EXISTS device_secrets_set_at_idx ON public.device_secrets (set_at);

-- migrate: new transaction

ALTER TABLE public.event_bytes_daily
  ADD COLUMN IF NOT EXISTS device_secrets bigint NOT NULL DEFAULT 0;
COMMENT ON TABLE public.event_bytes_daily IS 'What clients made each app keep without a purchase on each of the last 90 days. Beyond the app''s eventBytesPerDay, events are refused; beyond 20,000, no secret of a device with nothing on record is kept.';
COMMENT ON COLUMN public.event_bytes_daily.device_secrets IS 'The secrets that were stored for devices with nothing on record, their pairings, and the records in support_actions that such a secret was replaced or forgotten.';

-- The same for one customer: the export and the erasure of a customer read all events with the customer's id, and any client may
-- send them. A row of yesterday has no use but for servers whose clocks differ.
CREATE TABLE IF NOT EXISTS public.customer_event_bytes (
  day date NOT NULL,
  bundle_id text NOT NULL,
  customer_digest bytea NOT NULL,
  bytes bigint NOT NULL,
  PRIMARY KEY (day, bundle_id, customer_digest)
);
COMMENT ON TABLE public.customer_event_bytes IS 'How many bytes of events were stored under each customer''s id today, so that no client stores too many in the name of a customer.';
COMMENT ON COLUMN public.customer_event_bytes.day IS 'The day (UTC) on which the events arrived, by the server''s clock. Days before yesterday are deleted.';
COMMENT ON COLUMN public.customer_event_bytes.bundle_id IS 'The app.';
COMMENT ON COLUMN public.customer_event_bytes.customer_digest IS 'The SHA-256 of the customer''s id, as reported by the client.';
COMMENT ON COLUMN public.customer_event_bytes.bytes IS 'The sizes of the events and of their index entries, before compression. A retry is charged again.';

-- Retention deletes consents of devices with nothing on record.
DO $$
BEGIN
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'receiptd_app') THEN
    GRANT DELETE ON public.consents TO receiptd_app;
  END IF;
END
$$;
