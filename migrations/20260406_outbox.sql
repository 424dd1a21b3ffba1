-- The outbox: deliveries to profiles, CloudKit and webhooks, one row for each destination and customer, claimed while
-- it is sent.

CREATE SEQUENCE public.outbox_changes;
CREATE TABLE public.outbox (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  destination text NOT NULL,
  bundle_id text,
  endpoint text NOT NULL DEFAULT '',
  key text NOT NULL,
  payload jsonb NOT NULL,
  change bigint NOT NULL DEFAULT nextval('public.outbox_changes'),
  created_at timestamptz NOT NULL DEFAULT now(),
  attempts integer NOT NULL DEFAULT 0,
  next_attempt_at timestamptz NOT NULL DEFAULT now(),
  claimed_by uuid,
  claimed_until timestamptz,
  attempted_digest bytea,
  delivered_digest bytea,
  last_error text,
  done_at timestamptz,
  dead_at timestamptz
);
ALTER SEQUENCE public.outbox_changes OWNED BY public.outbox.change;
-- A second change of one customer finds the row of the first. (profiles has no bundle_id, and NULLs are distinct.)
CREATE UNIQUE INDEX outbox_key ON public.outbox (key, destination, bundle_id, endpoint);
CREATE INDEX outbox_due_idx ON public.outbox (next_attempt_at) WHERE done_at IS NULL AND dead_at IS NULL;
CREATE INDEX outbox_lane_due_idx ON public.outbox (destination, bundle_id, endpoint, next_attempt_at)
  WHERE dead_at IS NULL;
CREATE INDEX outbox_open_idx ON public.outbox (created_at) WHERE done_at IS NULL;
COMMENT ON TABLE public.outbox IS 'Changes to write to other systems and tables, queued in the same commit as the row that caused them.';
COMMENT ON COLUMN public.outbox.id IS 'In the order of arrival.';
COMMENT ON COLUMN public.outbox.destination IS 'The kind of destination: cloudkit, webhook or profiles.';
COMMENT ON COLUMN public.outbox.bundle_id IS 'The app. NULL for profiles, which several apps may share.';
COMMENT ON COLUMN public.outbox.endpoint IS 'Which destination of that kind: a webhook''s address without its query.';
COMMENT ON COLUMN public.outbox.key IS 'The customer: the id of the user or device. Of several states of one customer only the last matters.';
COMMENT ON COLUMN public.outbox.payload IS 'Empty: a delivery sends the customer''s state at the moment of sending.';
COMMENT ON COLUMN public.outbox.change IS 'A new number for each change: a change that comes while an older state is being sent is sent after it.';
COMMENT ON COLUMN public.outbox.created_at IS 'When the change was queued, or queued again.';
COMMENT ON COLUMN public.outbox.attempts IS 'How many attempts were made since.';
COMMENT ON COLUMN public.outbox.next_attempt_at IS 'When the next attempt is due. After done_at: when the delivered state expires.';
COMMENT ON COLUMN public.outbox.claimed_by IS 'The attempt that is in progress.';
COMMENT ON COLUMN public.outbox.claimed_until IS 'Until when no other server makes an attempt. A server that dies holds the row no longer than this.';
COMMENT ON COLUMN public.outbox.attempted_digest IS 'SHA-256 of the state that the attempts of this change send; another state is another change. NULL: no attempt yet.';
COMMENT ON COLUMN public.outbox.delivered_digest IS 'SHA-256 of the state that the destination is known to have; the same state is not sent again. NULL: the destination''s state is unknown.';
COMMENT ON COLUMN public.outbox.last_error IS 'The error of the last attempt.';
COMMENT ON COLUMN public.outbox.done_at IS 'When the change was delivered. NULL: it is not delivered, or was queued again.';
COMMENT ON COLUMN public.outbox.dead_at IS 'When receiptd gave the delivery up; support can requeue it.';

CREATE TABLE public.outbox_destinations (
  destination text NOT NULL,
  bundle_id text NOT NULL,
  endpoint text NOT NULL DEFAULT '',
  first_seen_at timestamptz NOT NULL,
  failures integer NOT NULL DEFAULT 0,
  paused_until timestamptz,
  disabled_at timestamptz,
  last_error text,
  PRIMARY KEY (destination, bundle_id, endpoint)
);
COMMENT ON TABLE public.outbox_destinations IS 'The destinations of outbox rows and their state.';
COMMENT ON COLUMN public.outbox_destinations.destination IS 'cloudkit or webhook.';
COMMENT ON COLUMN public.outbox_destinations.bundle_id IS 'The app.';
COMMENT ON COLUMN public.outbox_destinations.endpoint IS 'A webhook''s address without its query; empty for cloudkit.';
COMMENT ON COLUMN public.outbox_destinations.first_seen_at IS 'When the destination was first configured.';
COMMENT ON COLUMN public.outbox_destinations.failures IS 'How many times in a row the destination could not be reached, or asked for a pause.';
COMMENT ON COLUMN public.outbox_destinations.paused_until IS 'Until when receiptd sends nothing to the destination.';
COMMENT ON COLUMN public.outbox_destinations.disabled_at IS 'When the destination answered 410 Gone. Rows wait until support requeues one of them.';
COMMENT ON COLUMN public.outbox_destinations.last_error IS 'The last error of the destination as a whole. NULL: there is none.';
