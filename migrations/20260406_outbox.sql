-- The outbox: deliveries to profiles, CloudKit and webhooks, one row for each destination and customer or event, claimed
-- while it is sent; the lifecycle events; and calls to the App Store that must not be lost.

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
COMMENT ON COLUMN public.outbox.destination IS 'The kind of destination: cloudkit, webhook (a customer''s state), event (a lifecycle event, to a webhook), notification (an App Store notification that is forwarded) or profiles.';
COMMENT ON COLUMN public.outbox.bundle_id IS 'The app. NULL for profiles, which several apps may share.';
COMMENT ON COLUMN public.outbox.endpoint IS 'Which destination of that kind: an address without its query.';
COMMENT ON COLUMN public.outbox.key IS 'What is delivered. cloudkit, webhook, profiles: the id of the user or device; of several states of one customer only the last matters. event: the id in lifecycle_events. notification: the notification_uuid.';
COMMENT ON COLUMN public.outbox.payload IS 'Empty: a delivery reads the customer''s state, the event or the notification when it sends it. {"erased": true}: it tells that the customer was erased, and the row is deleted after the delivery. With "returned": true it then tells the state, because the customer came back.';
COMMENT ON COLUMN public.outbox.change IS 'A new number for each change: a change that comes while an older state is being sent is sent after it.';
COMMENT ON COLUMN public.outbox.created_at IS 'When the change was queued, or queued again.';
COMMENT ON COLUMN public.outbox.attempts IS 'How many attempts were made since.';
COMMENT ON COLUMN public.outbox.next_attempt_at IS 'When the next attempt is due. After done_at: when the delivered state expires.';
COMMENT ON COLUMN public.outbox.claimed_by IS 'The attempt that is in progress.';
COMMENT ON COLUMN public.outbox.claimed_until IS 'Until when no other server makes an attempt. A server that dies holds the row no longer than this.';
COMMENT ON COLUMN public.outbox.attempted_digest IS 'SHA-256 of the state that the attempts of this change send; another state is another change. NULL: no attempt yet.';
COMMENT ON COLUMN public.outbox.delivered_digest IS 'SHA-256 of the state that the destination is known to have; the same state is not sent again. NULL: the destination''s state is unknown.';
COMMENT ON COLUMN public.outbox.last_error IS 'The error of the last attempt.';
COMMENT ON COLUMN public.outbox.done_at IS 'When the change was delivered. NULL: it is not delivered, or was queued again. The rows of delivered events and notifications are deleted.';
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
COMMENT ON COLUMN public.outbox_destinations.destination IS 'cloudkit, webhook, event or notification.';
COMMENT ON COLUMN public.outbox_destinations.bundle_id IS 'The app.';
COMMENT ON COLUMN public.outbox_destinations.endpoint IS 'An address without its query; empty for cloudkit.';
COMMENT ON COLUMN public.outbox_destinations.first_seen_at IS 'When the destination was first configured. Events from before are not sent.';
COMMENT ON COLUMN public.outbox_destinations.failures IS 'How many times in a row the destination could not be reached, or asked for a pause.';
COMMENT ON COLUMN public.outbox_destinations.paused_until IS 'Until when receiptd sends nothing to the destination.';
COMMENT ON COLUMN public.outbox_destinations.disabled_at IS 'When the destination answered 410 Gone. Rows wait until support requeues one of them.';
COMMENT ON COLUMN public.outbox_destinations.last_error IS 'The last error of the destination as a whole. NULL: there is none.';

-- Lifecycle events: written in the transaction of the change that causes them, and delivered through the outbox. The id is
-- made of the event's cause, so a cause that is met again adds no second row. Deleted 90 days after created_at.
--
-- The customers' ids of an event are in these columns alone: user_id, device_id, former_user_id, former_device_id and
-- child_device_ids. `data` has none.
CREATE TABLE public.lifecycle_events (
  id uuid PRIMARY KEY,
  type text NOT NULL,
  bundle_id text NOT NULL,
  environment text NOT NULL,
  user_id uuid,
  device_id text,
  former_user_id uuid,
  former_device_id text,
  child_device_ids jsonb,
  original_transaction_id text,
  transaction_id text,
  trial_id uuid,
  period_end timestamptz,
  occurred_at timestamptz NOT NULL,
  data jsonb NOT NULL,
  checks_devices boolean NOT NULL DEFAULT false,
  created_at timestamptz NOT NULL,
  first_sent_at timestamptz,
  erased_at timestamptz
);
CREATE INDEX lifecycle_events_original_transaction_id_idx ON public.lifecycle_events (original_transaction_id, type)
  WHERE original_transaction_id IS NOT NULL;
CREATE INDEX lifecycle_events_trial_id_idx ON public.lifecycle_events (trial_id, type) WHERE trial_id IS NOT NULL;
CREATE INDEX lifecycle_events_created_at_idx ON public.lifecycle_events (created_at);
CREATE INDEX lifecycle_events_customer_idx ON public.lifecycle_events ((coalesce(user_id::text, device_id)));
CREATE INDEX lifecycle_events_checks_devices_idx ON public.lifecycle_events (created_at) WHERE checks_devices;
COMMENT ON TABLE public.lifecycle_events IS 'Events in the life of purchases and trials, for the webhooks of apps that receive them, each once. Kept for 90 days.';
COMMENT ON COLUMN public.lifecycle_events.id IS 'Made of the cause of the event; the webhook-id of every delivery.';
COMMENT ON COLUMN public.lifecycle_events.type IS 'trial.started, trial.ending, trial.ended, subscription.started, renewed, cancelled, billing_issue, grace.started, grace.ending, recovered, expired, refunded, refund_reversed, product_changed, price_increase, paused_devices or transferred.';
COMMENT ON COLUMN public.lifecycle_events.bundle_id IS 'The app.';
COMMENT ON COLUMN public.lifecycle_events.environment IS 'Production or Sandbox.';
COMMENT ON COLUMN public.lifecycle_events.user_id IS 'The customer, if it is a user. NULL with device_id NULL: the purchase had no owner when the event was first sent.';
COMMENT ON COLUMN public.lifecycle_events.device_id IS 'The customer, if it is a device.';
COMMENT ON COLUMN public.lifecycle_events.former_user_id IS 'transferred: the user who had the purchase before.';
COMMENT ON COLUMN public.lifecycle_events.former_device_id IS 'transferred: the device that had the purchase before.';
COMMENT ON COLUMN public.lifecycle_events.child_device_ids IS 'paused_devices: the ids of the paired devices that are paused, as a JSON array. NULL: another type.';
COMMENT ON COLUMN public.lifecycle_events.original_transaction_id IS 'The purchase. NULL: the event is about a trial.';
COMMENT ON COLUMN public.lifecycle_events.transaction_id IS 'The transaction: the purchase, renewal or refund that the event is about, otherwise the current one. NULL: the event is about a trial.';
COMMENT ON COLUMN public.lifecycle_events.trial_id IS 'The row of trials. NULL: the event is about a purchase.';
COMMENT ON COLUMN public.lifecycle_events.period_end IS 'Of events that time causes: the end of the paid time, of the grace period or of the trial. NULL: another type.';
COMMENT ON COLUMN public.lifecycle_events.occurred_at IS 'When it happened, by the signed dates.';
COMMENT ON COLUMN public.lifecycle_events.data IS 'The other members of the event''s data, as sent.';
COMMENT ON COLUMN public.lifecycle_events.checks_devices IS 'Whether receiptd has yet to look if the event pauses paired devices.';
COMMENT ON COLUMN public.lifecycle_events.created_at IS 'When receiptd learned it.';
COMMENT ON COLUMN public.lifecycle_events.first_sent_at IS 'When it was first sent: from then on its content stays as it is. NULL: it was not sent.';
COMMENT ON COLUMN public.lifecycle_events.erased_at IS 'When a customer that it named, or would have named when first sent, was erased: it is not sent any more. NULL: never.';

-- Calls to the App Store that follow from a committed fact: answers to its questions about refunds, and the users who first
-- proved a purchase.
CREATE TABLE public.store_calls (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kind text NOT NULL,
  key text NOT NULL,
  bundle_id text NOT NULL,
  environment text NOT NULL,
  original_transaction_id text NOT NULL,
  transaction_id text NOT NULL,
  user_id uuid,
  request_reason text,
  asked_at timestamptz NOT NULL,
  deadline timestamptz NOT NULL,
  attempts integer NOT NULL DEFAULT 0,
  next_attempt_at timestamptz NOT NULL,
  body jsonb,
  preferred_by text,
  last_error text,
  settled_at timestamptz,
  outcome text,
  UNIQUE (kind, key)
);
CREATE INDEX store_calls_due_idx ON public.store_calls (next_attempt_at) WHERE settled_at IS NULL;
CREATE INDEX store_calls_original_transaction_id_idx ON public.store_calls (original_transaction_id);
COMMENT ON TABLE public.store_calls IS 'Calls to the App Store that must not be lost: answers to its questions about refunds, and app account tokens.';
COMMENT ON COLUMN public.store_calls.id IS 'In the order of arrival.';
COMMENT ON COLUMN public.store_calls.kind IS 'consumption: the answer to a question about a refund. account_token: the user who first proved the purchase.';
COMMENT ON COLUMN public.store_calls.key IS 'What the call is for, once: the UUID of the notification CONSUMPTION_REQUEST, or the purchase.';
COMMENT ON COLUMN public.store_calls.bundle_id IS 'The app.';
COMMENT ON COLUMN public.store_calls.environment IS 'The environment of the App Store.';
COMMENT ON COLUMN public.store_calls.original_transaction_id IS 'The purchase.';
COMMENT ON COLUMN public.store_calls.transaction_id IS 'The transaction whose refund the customer requests; otherwise that of the purchase.';
COMMENT ON COLUMN public.store_calls.user_id IS 'account_token: the user. NULL: it is an answer.';
COMMENT ON COLUMN public.store_calls.request_reason IS 'consumption: the customer''s reason, in Apple''s words. NULL: none.';
COMMENT ON COLUMN public.store_calls.asked_at IS 'When the App Store asked, or when the user proved the purchase.';
COMMENT ON COLUMN public.store_calls.deadline IS 'After this the call is not made any more.';
COMMENT ON COLUMN public.store_calls.attempts IS 'How many attempts failed.';
COMMENT ON COLUMN public.store_calls.next_attempt_at IS 'When receiptd looks at it again. A server that has claimed it holds it no longer than this.';
COMMENT ON COLUMN public.store_calls.body IS 'What is sent, written before an attempt. It stays while the App Store may have it, and is repeated unchanged. NULL: nothing, or the App Store rejected it.';
COMMENT ON COLUMN public.store_calls.preferred_by IS 'consumption: the person whose preference the body follows. NULL: the app''s policy.';
COMMENT ON COLUMN public.store_calls.last_error IS 'Why it was not sent at the last look.';
COMMENT ON COLUMN public.store_calls.settled_at IS 'When it was settled. NULL: it waits.';
COMMENT ON COLUMN public.store_calls.outcome IS 'sent; refused (by the App Store); late; no_consent; no_answer (the app''s policy); not_needed (refunded or moved already); repeated (another request of the transaction was answered); unknown (a server began to send it, and the App Store may have it). NULL: it waits.';

CREATE TABLE public.renewal_extensions (
  request_identifier uuid PRIMARY KEY,
  bundle_id text NOT NULL,
  environment text NOT NULL,
  original_transaction_id text,
  product_id text NOT NULL,
  storefronts text[],
  days integer NOT NULL,
  reason_code integer NOT NULL,
  by text NOT NULL,
  reason text NOT NULL,
  requested_at timestamptz NOT NULL,
  accepted_at timestamptz,
  next_attempt_at timestamptz,
  attempts integer NOT NULL DEFAULT 0,
  completed_at timestamptz,
  expires_before timestamptz,
  effective_at timestamptz,
  succeeded bigint,
  failed bigint,
  last_error text
);
CREATE INDEX renewal_extensions_due_idx ON public.renewal_extensions (next_attempt_at) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX renewal_extensions_original_transaction_id_idx ON public.renewal_extensions (original_transaction_id)
  WHERE original_transaction_id IS NOT NULL;
CREATE INDEX renewal_extensions_product_id_idx ON public.renewal_extensions (product_id, requested_at)
  WHERE original_transaction_id IS NULL;
-- Two people do not extend the same product at once.
CREATE UNIQUE INDEX renewal_extensions_open_key ON public.renewal_extensions (bundle_id, environment, product_id)
  WHERE original_transaction_id IS NULL AND completed_at IS NULL;
CREATE UNIQUE INDEX renewal_extensions_open_purchase_key ON public.renewal_extensions (original_transaction_id)
  WHERE original_transaction_id IS NOT NULL AND completed_at IS NULL;
COMMENT ON TABLE public.renewal_extensions IS 'Extensions of renewal dates that support asked the App Store for.';
COMMENT ON COLUMN public.renewal_extensions.request_identifier IS 'Apple''s requestIdentifier. The App Store carries out one request for all subscribers once.';
COMMENT ON COLUMN public.renewal_extensions.bundle_id IS 'The app.';
COMMENT ON COLUMN public.renewal_extensions.environment IS 'The environment of the App Store.';
COMMENT ON COLUMN public.renewal_extensions.original_transaction_id IS 'The subscription. NULL: all active subscribers of the product.';
COMMENT ON COLUMN public.renewal_extensions.product_id IS 'The product.';
COMMENT ON COLUMN public.renewal_extensions.storefronts IS 'The storefronts, as ISO 3166-1 alpha-3 codes. NULL: all.';
COMMENT ON COLUMN public.renewal_extensions.days IS 'By how many days.';
COMMENT ON COLUMN public.renewal_extensions.reason_code IS 'Apple''s code: 0 undeclared, 1 customer satisfaction, 2 other, 3 service issue or outage.';
COMMENT ON COLUMN public.renewal_extensions.by IS 'The person.';
COMMENT ON COLUMN public.renewal_extensions.reason IS 'The reason that the person gave.';
COMMENT ON COLUMN public.renewal_extensions.requested_at IS 'When the person asked.';
COMMENT ON COLUMN public.renewal_extensions.accepted_at IS 'When the App Store took the request. NULL: not yet.';
COMMENT ON COLUMN public.renewal_extensions.next_attempt_at IS 'When receiptd asks the App Store again; for one subscription, from when on the request may be repeated. NULL: never.';
COMMENT ON COLUMN public.renewal_extensions.attempts IS 'How many requests were made without an end.';
COMMENT ON COLUMN public.renewal_extensions.completed_at IS 'When it ended, also by a refusal. NULL: it is in progress, or its outcome is unknown.';
COMMENT ON COLUMN public.renewal_extensions.expires_before IS 'The expiry of the one subscription at the App Store before the request was sent: it is sent again only while the App Store has the same. NULL: it was not sent.';
COMMENT ON COLUMN public.renewal_extensions.effective_at IS 'The new renewal date of the one subscription. NULL: unknown.';
COMMENT ON COLUMN public.renewal_extensions.succeeded IS 'How many subscriptions were extended.';
COMMENT ON COLUMN public.renewal_extensions.failed IS 'How many could not be extended; each has a notification RENEWAL_EXTENSION FAILURE.';
COMMENT ON COLUMN public.renewal_extensions.last_error IS 'The last refusal or failure.';
