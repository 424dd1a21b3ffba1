-- Customers beside their purchases: trials, paired devices, what support gave, what is to be sent.

CREATE TABLE public.trials (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  bundle_id text NOT NULL,
  device_id text NOT NULL,
  app_transaction_id text,
  started_at timestamptz NOT NULL,
  ends_at timestamptz NOT NULL,
  extended_days integer NOT NULL DEFAULT 0,
  UNIQUE (bundle_id, device_id)
);
CREATE UNIQUE INDEX trials_app_transaction_id_key
  ON public.trials (bundle_id, app_transaction_id) WHERE app_transaction_id IS NOT NULL;
COMMENT ON TABLE public.trials IS 'The app''s own free time, once per device and once per Apple Account.';
COMMENT ON COLUMN public.trials.id IS 'The row''s own identity.';
COMMENT ON COLUMN public.trials.bundle_id IS 'The app.';
COMMENT ON COLUMN public.trials.device_id IS 'The device that started it.';
COMMENT ON COLUMN public.trials.app_transaction_id IS 'Apple''s appTransactionId: the same Apple Account, also after a reinstall.';
COMMENT ON COLUMN public.trials.started_at IS 'When it began.';
COMMENT ON COLUMN public.trials.ends_at IS 'When it ends, extensions included.';
COMMENT ON COLUMN public.trials.extended_days IS 'How many days support added.';

CREATE TABLE public.devices (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  bundle_id text NOT NULL,
  device_id text NOT NULL,
  child_device_id text NOT NULL,
  name text,
  paired_at timestamptz NOT NULL DEFAULT now(),
  UNIQUE (bundle_id, device_id, child_device_id)
);
COMMENT ON TABLE public.devices IS 'Devices paired to a customer''s device.';
COMMENT ON COLUMN public.devices.id IS 'The row''s own identity.';
COMMENT ON COLUMN public.devices.bundle_id IS 'The app.';
COMMENT ON COLUMN public.devices.device_id IS 'The customer: the parent''s device.';
COMMENT ON COLUMN public.devices.child_device_id IS 'The paired device.';
COMMENT ON COLUMN public.devices.name IS 'The name that the app gave it.';
COMMENT ON COLUMN public.devices.paired_at IS 'When it was paired: the earliest stay active when a limit shrinks.';

CREATE TABLE public.grants (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  bundle_id text NOT NULL,
  user_id uuid,
  device_id text,
  tier text NOT NULL,
  starts_at timestamptz NOT NULL,
  ends_at timestamptz,
  reason text NOT NULL,
  granted_by text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  revoked_at timestamptz,
  revoked_by text,
  CHECK ((user_id IS NULL) <> (device_id IS NULL))
);
CREATE INDEX grants_user_id_idx ON public.grants (user_id) WHERE user_id IS NOT NULL;
CREATE INDEX grants_device_id_idx ON public.grants (device_id) WHERE device_id IS NOT NULL;
COMMENT ON TABLE public.grants IS 'Access that was given, not bought.';
COMMENT ON COLUMN public.grants.id IS 'The grant''s own identity.';
COMMENT ON COLUMN public.grants.bundle_id IS 'The app.';
COMMENT ON COLUMN public.grants.user_id IS 'The user it was given to.';
COMMENT ON COLUMN public.grants.device_id IS 'The device it was given to.';
COMMENT ON COLUMN public.grants.tier IS 'What it opens.';
COMMENT ON COLUMN public.grants.starts_at IS 'From when.';
COMMENT ON COLUMN public.grants.ends_at IS 'Until when. NULL: for good.';
COMMENT ON COLUMN public.grants.reason IS 'Why it was given.';
COMMENT ON COLUMN public.grants.granted_by IS 'Who gave it.';
COMMENT ON COLUMN public.grants.created_at IS 'When it was given.';
COMMENT ON COLUMN public.grants.revoked_at IS 'When it was taken back.';
COMMENT ON COLUMN public.grants.revoked_by IS 'Who took it back.';

CREATE TABLE public.support_actions (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at timestamptz NOT NULL DEFAULT now(),
  action text NOT NULL,
  bundle_id text,
  original_transaction_id text,
  from_customer text,
  to_customer text,
  by text NOT NULL,
  reason text NOT NULL,
  details jsonb
);
CREATE INDEX support_actions_original_transaction_id_idx
  ON public.support_actions (original_transaction_id) WHERE original_transaction_id IS NOT NULL;
CREATE INDEX support_actions_from_customer_idx
  ON public.support_actions (from_customer) WHERE from_customer IS NOT NULL;
CREATE INDEX support_actions_to_customer_idx
  ON public.support_actions (to_customer) WHERE to_customer IS NOT NULL;
COMMENT ON TABLE public.support_actions IS 'What people, and policies in their name, did to customers: never changed, never deleted.';
COMMENT ON COLUMN public.support_actions.id IS 'In the order in which they were done.';
COMMENT ON COLUMN public.support_actions.at IS 'When.';
COMMENT ON COLUMN public.support_actions.action IS 'What: transfer, grant, revoke-grant, extend-trial, free-access, replay, ...';
COMMENT ON COLUMN public.support_actions.bundle_id IS 'The app.';
COMMENT ON COLUMN public.support_actions.original_transaction_id IS 'The subscription it was done to.';
COMMENT ON COLUMN public.support_actions.from_customer IS 'The user or device that lost something.';
COMMENT ON COLUMN public.support_actions.to_customer IS 'The user or device that gained something.';
COMMENT ON COLUMN public.support_actions.by IS 'The person, or policy:<name> for the app''s own rule.';
COMMENT ON COLUMN public.support_actions.reason IS 'Why.';
COMMENT ON COLUMN public.support_actions.details IS 'What else belongs to it.';

CREATE TABLE public.outbox (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  destination text NOT NULL,
  key text NOT NULL,
  payload jsonb NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  attempts integer NOT NULL DEFAULT 0,
  next_attempt_at timestamptz NOT NULL DEFAULT now(),
  last_error text,
  done_at timestamptz,
  dead_at timestamptz
);
CREATE INDEX outbox_due_idx ON public.outbox (next_attempt_at) WHERE done_at IS NULL AND dead_at IS NULL;
COMMENT ON TABLE public.outbox IS 'What is to be written elsewhere: in the same commit as the row that it follows from.';
COMMENT ON COLUMN public.outbox.id IS 'In the order in which they came.';
COMMENT ON COLUMN public.outbox.destination IS 'Where it goes: cloudkit, webhook, profiles, ...';
COMMENT ON COLUMN public.outbox.key IS 'What it is about: of several for one key only the last matters.';
COMMENT ON COLUMN public.outbox.payload IS 'What is to be written.';
COMMENT ON COLUMN public.outbox.created_at IS 'When it came.';
COMMENT ON COLUMN public.outbox.attempts IS 'How often it was tried.';
COMMENT ON COLUMN public.outbox.next_attempt_at IS 'When it is tried next.';
COMMENT ON COLUMN public.outbox.last_error IS 'What the last attempt met.';
COMMENT ON COLUMN public.outbox.done_at IS 'When it was delivered.';
COMMENT ON COLUMN public.outbox.dead_at IS 'When it was given up; support can requeue it.';
