-- Customers beside their purchases: trials, paired devices, shared purchases, grants, device secrets.

CREATE TABLE public.trials (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  bundle_id text NOT NULL,
  device_id text NOT NULL,
  app_transaction_id text,
  environment text NOT NULL DEFAULT 'Production',
  started_at timestamptz NOT NULL,
  ends_at timestamptz NOT NULL,
  extended_days integer NOT NULL DEFAULT 0,
  continues uuid REFERENCES public.trials (id) ON DELETE CASCADE
);
-- A device and an Apple Account have one trial in each environment, so that a tester's trial in the sandbox does not use up
-- the one in production.
CREATE UNIQUE INDEX trials_bundle_id_device_id_key
  ON public.trials (bundle_id, device_id, environment);
CREATE UNIQUE INDEX trials_app_transaction_id_key
  ON public.trials (bundle_id, app_transaction_id, environment) WHERE app_transaction_id IS NOT NULL;
CREATE INDEX trials_device_id_idx ON public.trials (device_id);
CREATE INDEX trials_continues_idx ON public.trials (continues) WHERE continues IS NOT NULL;
CREATE INDEX trials_started_at_idx ON public.trials (started_at) WHERE continues IS NULL;
CREATE INDEX trials_ends_at_idx ON public.trials (ends_at) WHERE continues IS NULL;
COMMENT ON TABLE public.trials IS 'The app''s own trials, one per device and one per Apple Account in each environment.';
COMMENT ON COLUMN public.trials.id IS 'The row''s own id.';
COMMENT ON COLUMN public.trials.bundle_id IS 'The app.';
COMMENT ON COLUMN public.trials.device_id IS 'The device that started the trial.';
COMMENT ON COLUMN public.trials.app_transaction_id IS 'Apple''s appTransactionId: the same Apple Account, also after a reinstall.';
COMMENT ON COLUMN public.trials.environment IS 'The environment of the app transaction that started the trial: Production, or Sandbox, which counts for testers only.';
COMMENT ON COLUMN public.trials.started_at IS 'When the trial began. If continues is set, the other trial''s date counts.';
COMMENT ON COLUMN public.trials.ends_at IS 'When the trial ends, extensions included. If continues is set, the other trial''s date counts.';
COMMENT ON COLUMN public.trials.extended_days IS 'How many days support added.';
COMMENT ON COLUMN public.trials.continues IS 'The trial that this device continues, because the same Apple Account started it on another device. NULL: the device has a trial of its own.';

CREATE TABLE public.devices (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  bundle_id text NOT NULL,
  device_id text NOT NULL,
  child_device_id text NOT NULL,
  name text,
  paired_at timestamptz NOT NULL DEFAULT now(),
  UNIQUE (bundle_id, device_id, child_device_id)
);
CREATE INDEX devices_device_id_idx ON public.devices (device_id);
CREATE INDEX devices_child_device_id_idx ON public.devices (bundle_id, child_device_id);
COMMENT ON TABLE public.devices IS 'Devices that are paired with a customer''s device.';
COMMENT ON COLUMN public.devices.id IS 'The row''s own id.';
COMMENT ON COLUMN public.devices.bundle_id IS 'The app.';
COMMENT ON COLUMN public.devices.device_id IS 'The customer: the parent''s device.';
COMMENT ON COLUMN public.devices.child_device_id IS 'The paired device.';
COMMENT ON COLUMN public.devices.name IS 'The name that the app gave the paired device.';
COMMENT ON COLUMN public.devices.paired_at IS 'When it was paired. If a limit shrinks, the devices paired first stay active.';

CREATE TABLE public.purchase_devices (
  original_transaction_id text NOT NULL,
  device_id text NOT NULL,
  bundle_id text NOT NULL,
  since timestamptz NOT NULL,
  proved_at timestamptz NOT NULL,
  is_barred boolean NOT NULL,
  is_proven boolean NOT NULL DEFAULT true,
  PRIMARY KEY (original_transaction_id, device_id)
);
CREATE INDEX purchase_devices_device_id_idx ON public.purchase_devices (device_id);
CREATE INDEX purchase_devices_bundle_id_idx ON public.purchase_devices (bundle_id);
COMMENT ON TABLE public.purchase_devices IS 'Devices that share a purchase, in apps with devicesPerPurchase above 1: the one in subscriptions.device_id, and all others.';
COMMENT ON COLUMN public.purchase_devices.original_transaction_id IS 'The purchase.';
COMMENT ON COLUMN public.purchase_devices.device_id IS 'The device.';
COMMENT ON COLUMN public.purchase_devices.bundle_id IS 'The app.';
COMMENT ON COLUMN public.purchase_devices.since IS 'When the device got the purchase.';
COMMENT ON COLUMN public.purchase_devices.proved_at IS 'When the device last proved the purchase. 1970: before purchases were shared.';
COMMENT ON COLUMN public.purchase_devices.is_barred IS 'Whether support took the purchase away from the device. A proof of the device does not bring it back.';
COMMENT ON COLUMN public.purchase_devices.is_proven IS 'Whether the device ever proved the purchase. One that only named the transaction''s id displaces no device that did.';

CREATE TABLE public.grants (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  bundle_id text NOT NULL,
  user_id uuid,
  device_id text,
  tier text NOT NULL,
  environment text NOT NULL DEFAULT 'Production',
  is_counted boolean NOT NULL DEFAULT true,
  starts_at timestamptz NOT NULL,
  ends_at timestamptz,
  reason text NOT NULL,
  granted_by text NOT NULL,
  app_transaction_id text,
  created_at timestamptz NOT NULL DEFAULT now(),
  revoked_at timestamptz,
  revoked_by text,
  next_change_at timestamptz GENERATED ALWAYS AS (coalesce(revoked_at, ends_at)) STORED,
  followed_until timestamptz,
  CHECK ((user_id IS NULL) <> (device_id IS NULL))
);
CREATE INDEX grants_user_id_idx ON public.grants (user_id) WHERE user_id IS NOT NULL;
CREATE INDEX grants_device_id_idx ON public.grants (device_id) WHERE device_id IS NOT NULL;
CREATE INDEX grants_customer_idx ON public.grants ((coalesce(user_id::text, device_id)));
-- An Apple Account and a user get one award in each environment, ever: an award that support revoked is not given again.
CREATE UNIQUE INDEX grants_app_transaction_id_key
  ON public.grants (bundle_id, app_transaction_id, environment) WHERE app_transaction_id IS NOT NULL;
CREATE UNIQUE INDEX grants_grandfathered_user_key
  ON public.grants (bundle_id, user_id, environment) WHERE granted_by = 'grandfather';
-- The sweep looks for grants that began or ended since it last followed them, and for grants that it followed ahead of time.
CREATE INDEX grants_beginning_idx ON public.grants (starts_at)
  WHERE followed_until IS NULL OR followed_until < starts_at;
CREATE INDEX grants_ending_idx ON public.grants (next_change_at)
  WHERE followed_until IS NULL OR followed_until < next_change_at;
CREATE INDEX grants_followed_until_idx
  ON public.grants (followed_until) WHERE followed_until IS NOT NULL;
COMMENT ON TABLE public.grants IS 'Access that support or a rule of the app gave to a customer without a purchase.';
COMMENT ON COLUMN public.grants.id IS 'The grant''s own id.';
COMMENT ON COLUMN public.grants.bundle_id IS 'The app.';
COMMENT ON COLUMN public.grants.user_id IS 'The user that has the grant. NULL: a device has it.';
COMMENT ON COLUMN public.grants.device_id IS 'The device that has the grant. NULL: a user has it.';
COMMENT ON COLUMN public.grants.tier IS 'The tier that the grant gives access to.';
COMMENT ON COLUMN public.grants.environment IS 'The environment of the app transaction for which it was given: Production, or Sandbox for testers. Production also if it was given for another reason.';
COMMENT ON COLUMN public.grants.is_counted IS 'Whether it can give access: the configuration has its tier, and a sandbox grant belongs to a tester. Each server writes it when it reads its configuration, and with the customer''s profile.';
COMMENT ON COLUMN public.grants.starts_at IS 'When access begins.';
COMMENT ON COLUMN public.grants.ends_at IS 'When access ends. NULL: never.';
COMMENT ON COLUMN public.grants.reason IS 'The reason for the grant.';
COMMENT ON COLUMN public.grants.granted_by IS 'The person or rule that gave it.';
COMMENT ON COLUMN public.grants.app_transaction_id IS 'Apple''s appTransactionId of an award to an owner of the app from before a date. NULL: it was given for another reason.';
COMMENT ON COLUMN public.grants.created_at IS 'When it was given.';
COMMENT ON COLUMN public.grants.revoked_at IS 'When it was revoked. NULL: it was not.';
COMMENT ON COLUMN public.grants.revoked_by IS 'The person that revoked it.';
COMMENT ON COLUMN public.grants.next_change_at IS 'When it ends or ended: revoked_at, else ends_at.';
COMMENT ON COLUMN public.grants.followed_until IS 'The instant up to which the customer''s profile follows the grant.';

-- A device id is a name: without a secret, any caller that knows the id can act for the device.
CREATE TABLE public.device_secrets (
  bundle_id text NOT NULL,
  device_id text NOT NULL,
  secret_hash bytea NOT NULL CHECK (octet_length(secret_hash) = 32),
  set_at timestamptz NOT NULL,
  PRIMARY KEY (bundle_id, device_id)
);
COMMENT ON TABLE public.device_secrets IS 'Devices that have set a secret: the server serves their routes only with it. For the server''s role only, not for support.';
COMMENT ON COLUMN public.device_secrets.bundle_id IS 'The app.';
COMMENT ON COLUMN public.device_secrets.device_id IS 'The device.';
COMMENT ON COLUMN public.device_secrets.secret_hash IS 'SHA-256 of the 32 random bytes in the header Receiptd-Device-Secret.';
COMMENT ON COLUMN public.device_secrets.set_at IS 'When the device set this secret.';

-- What old builds of clients write to the premium columns of the app's own tables. The triggers of 20260420_client_writes.sql
-- write it. One row for each user and claim, and at most 20 for a user, so that no client can fill the table.
CREATE TABLE public.consents (
  bundle_id text NOT NULL,
  customer text NOT NULL,
  is_given boolean NOT NULL,
  changed_at timestamptz NOT NULL,
  given_at timestamptz,
  withdrawn_at timestamptz,
  PRIMARY KEY (bundle_id, customer)
);
COMMENT ON TABLE public.consents IS 'Consents of customers to tell the App Store about their use of a purchase when they request a refund.';
COMMENT ON COLUMN public.consents.bundle_id IS 'The app.';
COMMENT ON COLUMN public.consents.customer IS 'The id of the user or device.';
COMMENT ON COLUMN public.consents.is_given IS 'Whether the customer consents now.';
COMMENT ON COLUMN public.consents.changed_at IS 'Since when.';
COMMENT ON COLUMN public.consents.given_at IS 'When the customer last gave the consent. NULL: never.';
COMMENT ON COLUMN public.consents.withdrawn_at IS 'When the customer last refused or withdrew the consent. NULL: never.';

CREATE TABLE public.client_writes (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  table_name text NOT NULL,
  user_id uuid NOT NULL,
  original_transaction_id text NOT NULL DEFAULT '',
  product_id text,
  expires_at timestamptz,
  is_premium boolean,
  mode text NOT NULL,
  writes bigint NOT NULL DEFAULT 1,
  daily_writes integer[] NOT NULL DEFAULT '{1}',
  first_at timestamptz NOT NULL DEFAULT now(),
  last_at timestamptz NOT NULL DEFAULT now(),
  attempts integer NOT NULL DEFAULT 0,
  next_attempt_at timestamptz,
  verified_at timestamptz,
  outcome text,
  UNIQUE (user_id, table_name, original_transaction_id)
);
CREATE INDEX client_writes_due_idx ON public.client_writes (next_attempt_at) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX client_writes_last_at_idx ON public.client_writes (last_at);
CREATE INDEX client_writes_claim_idx ON public.client_writes (original_transaction_id)
  WHERE original_transaction_id <> '';
COMMENT ON TABLE public.client_writes IS 'What clients wrote to the premium columns of the app''s own tables, and what the App Store says of it. A claim gives nothing until it is verified.';
COMMENT ON COLUMN public.client_writes.id IS 'The row''s own id.';
COMMENT ON COLUMN public.client_writes.table_name IS 'profiles or user_preferences.';
COMMENT ON COLUMN public.client_writes.user_id IS 'The user whose row was written.';
COMMENT ON COLUMN public.client_writes.original_transaction_id IS 'The originalTransactionId that the client claims. Empty: it claims none.';
COMMENT ON COLUMN public.client_writes.product_id IS 'The product that the client claims.';
COMMENT ON COLUMN public.client_writes.expires_at IS 'The expiry that the client claims.';
COMMENT ON COLUMN public.client_writes.is_premium IS 'is_premium as the client wrote it. NULL: the table has no such column.';
COMMENT ON COLUMN public.client_writes.mode IS 'The mode at the last write: accept (the row has the client''s values) or observe (it keeps the server''s).';
COMMENT ON COLUMN public.client_writes.writes IS 'How many times the client wrote this.';
COMMENT ON COLUMN public.client_writes.daily_writes IS 'The writes on the day (UTC) of last_at, on the day before, and so on: at most 31 days.';
COMMENT ON COLUMN public.client_writes.first_at IS 'The first write.';
COMMENT ON COLUMN public.client_writes.last_at IS 'The last write.';
COMMENT ON COLUMN public.client_writes.attempts IS 'How many times receiptd asked the App Store.';
COMMENT ON COLUMN public.client_writes.next_attempt_at IS 'When receiptd asks the App Store again. NULL: there is nothing to ask.';
COMMENT ON COLUMN public.client_writes.verified_at IS 'When the claim was decided. NULL: it was not.';
COMMENT ON COLUMN public.client_writes.outcome IS 'The decision: bound, expired, refunded, not_counted, another_customer, claimed_twice or unknown (to the App Store). NULL: none yet.';

-- The rows of the app's own tables that receiptd added, and that no client has written since. The app adds a row when a user
-- signs up; the triggers of 20260420_client_writes.sql let it do so although there is one.
CREATE TABLE public.added_profile_rows (
  table_name text NOT NULL,
  user_id uuid NOT NULL,
  added_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (table_name, user_id)
);
COMMENT ON TABLE public.added_profile_rows IS 'The rows of the app''s own tables that receiptd added, because the user had none. The client''s own INSERT replaces such a row and keeps its premium status.';
COMMENT ON COLUMN public.added_profile_rows.table_name IS 'profiles or user_preferences.';
COMMENT ON COLUMN public.added_profile_rows.user_id IS 'The user whose row it is.';
COMMENT ON COLUMN public.added_profile_rows.added_at IS 'When receiptd added the row.';

CREATE TABLE public.adoption_runs (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  bundle_id text NOT NULL,
  started_at timestamptz NOT NULL DEFAULT now(),
  finished_at timestamptz
);
COMMENT ON TABLE public.adoption_runs IS 'The runs of receiptd adopt. A run that was stopped is continued by the next one.';
COMMENT ON COLUMN public.adoption_runs.id IS 'The row''s own id.';
COMMENT ON COLUMN public.adoption_runs.bundle_id IS 'The app.';
COMMENT ON COLUMN public.adoption_runs.started_at IS 'When it began.';
COMMENT ON COLUMN public.adoption_runs.finished_at IS 'When it ended. NULL: it runs, or was stopped.';

-- `receiptd adopt` writes a row for each claim of the legacy tables that it has decided, so that a run that was stopped goes on
-- where it was.
CREATE TABLE public.adoptions (
  bundle_id text NOT NULL,
  customer text NOT NULL,
  original_transaction_id text NOT NULL DEFAULT '',
  source text NOT NULL,
  outcome text NOT NULL,
  detail text,
  purchase_id text,
  grant_id uuid,
  run_id bigint NOT NULL,
  at timestamptz NOT NULL,
  PRIMARY KEY (bundle_id, customer, original_transaction_id)
);
COMMENT ON TABLE public.adoptions IS 'The claims of legacy tables and imported files that receiptd adopt has decided.';
COMMENT ON COLUMN public.adoptions.bundle_id IS 'The app.';
COMMENT ON COLUMN public.adoptions.customer IS 'The user or device that makes the claim.';
COMMENT ON COLUMN public.adoptions.original_transaction_id IS 'The transaction id that is claimed. Empty: the claim names none.';
COMMENT ON COLUMN public.adoptions.source IS 'Where the claim was found: profiles, user_preferences, subscriptions or file.';
COMMENT ON COLUMN public.adoptions.outcome IS 'The decision: bound, expired, refunded, not_counted, another_customer, claimed_twice, unknown (to the App Store), awarded, unknown_customer (the file names no user of the app), or failed: the next run tries again.';
COMMENT ON COLUMN public.adoptions.detail IS 'The reason in words. NULL: the outcome says all.';
COMMENT ON COLUMN public.adoptions.purchase_id IS 'The originalTransactionId of the purchase that the claimed transaction belongs to. NULL: there is none, or none is known.';
COMMENT ON COLUMN public.adoptions.grant_id IS 'The award, if the claim names no transaction. NULL: there is none.';
COMMENT ON COLUMN public.adoptions.run_id IS 'The run that decided it: adoption_runs.id.';
COMMENT ON COLUMN public.adoptions.at IS 'When it was decided.';
