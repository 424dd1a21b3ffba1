-- Deliveries to CloudKit and webhooks: one row of the outbox per place and customer, claimed while it is sent.

CREATE SEQUENCE public.outbox_changes;
ALTER TABLE public.outbox
  ADD COLUMN bundle_id text,
  ADD COLUMN endpoint text NOT NULL DEFAULT '',
  ADD COLUMN change bigint NOT NULL DEFAULT nextval('public.outbox_changes'),
  ADD COLUMN claimed_by uuid,
  ADD COLUMN claimed_until timestamptz,
  ADD COLUMN delivered_digest bytea;
ALTER SEQUENCE public.outbox_changes OWNED BY public.outbox.change;
COMMENT ON COLUMN public.outbox.destination IS 'Where it goes: cloudkit, webhook, profiles.';
COMMENT ON COLUMN public.outbox.key IS 'Whom it is about: the user''s or the device''s id. Of several states of one customer only the last matters.';
COMMENT ON COLUMN public.outbox.payload IS 'Empty: what is written is the state of the moment at which it is sent.';
COMMENT ON COLUMN public.outbox.created_at IS 'When it came, or came anew.';
COMMENT ON COLUMN public.outbox.attempts IS 'How often it was tried since.';
COMMENT ON COLUMN public.outbox.next_attempt_at IS 'When it is tried next; after done_at: when what was delivered stops being true by itself.';
COMMENT ON COLUMN public.outbox.done_at IS 'When it was delivered. NULL: it is not, or it has come anew since.';
COMMENT ON COLUMN public.outbox.bundle_id IS 'The app. NULL for profiles, which several apps may share.';
COMMENT ON COLUMN public.outbox.endpoint IS 'Of several places of one kind, which: a webhook''s address without its query.';
COMMENT ON COLUMN public.outbox.change IS 'Another number each time it comes anew: what came while an older state was on its way is sent after it.';
COMMENT ON COLUMN public.outbox.claimed_by IS 'The attempt that is under way.';
COMMENT ON COLUMN public.outbox.claimed_until IS 'Until when nobody else tries it. A server that dies in the middle holds it no longer than this.';
COMMENT ON COLUMN public.outbox.delivered_digest IS 'SHA-256 of the state that is known to stand there: the same again is not sent. NULL: nobody knows what stands there.';

-- A second change of one customer finds the row of the first. (profiles has no bundle_id, and NULLs are distinct.)
CREATE UNIQUE INDEX outbox_key ON public.outbox (key, destination, bundle_id, endpoint);
CREATE INDEX outbox_lane_due_idx ON public.outbox (destination, bundle_id, endpoint, next_attempt_at)
  WHERE dead_at IS NULL;
CREATE INDEX outbox_open_idx ON public.outbox (created_at) WHERE done_at IS NULL;

CREATE TABLE public.outbox_lanes (
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
COMMENT ON TABLE public.outbox_lanes IS 'The places that rows of the outbox go to, and how they are.';
COMMENT ON COLUMN public.outbox_lanes.destination IS 'cloudkit or webhook.';
COMMENT ON COLUMN public.outbox_lanes.bundle_id IS 'The app.';
COMMENT ON COLUMN public.outbox_lanes.endpoint IS 'A webhook''s address without its query; empty for cloudkit.';
COMMENT ON COLUMN public.outbox_lanes.first_seen_at IS 'When it was first configured.';
COMMENT ON COLUMN public.outbox_lanes.failures IS 'How often in a row the place as a whole could not be reached, or asked for a rest.';
COMMENT ON COLUMN public.outbox_lanes.paused_until IS 'Until when nothing is sent there.';
COMMENT ON COLUMN public.outbox_lanes.disabled_at IS 'When it answered 410 Gone. Rows wait until support requeues one of them.';
COMMENT ON COLUMN public.outbox_lanes.last_error IS 'What it last met as a whole. NULL: it is well.';

CREATE VIEW public.support_outbox AS
SELECT o.id, o.destination, o.bundle_id, o.endpoint, o.key AS customer,
  CASE
    WHEN o.dead_at IS NOT NULL THEN 'dead'
    WHEN o.done_at IS NOT NULL THEN 'delivered'
    WHEN l.disabled_at IS NOT NULL THEN 'disabled'
    WHEN o.claimed_until > now() THEN 'under way'
    ELSE 'waiting'
  END AS state,
  o.created_at, o.attempts,
  CASE WHEN o.done_at IS NULL AND o.dead_at IS NULL AND l.disabled_at IS NULL
    THEN greatest(o.next_attempt_at, l.paused_until) END AS next_attempt_at,
  o.last_error, l.last_error AS place_error, o.done_at, o.dead_at
FROM public.outbox o
LEFT JOIN public.outbox_lanes l USING (destination, bundle_id, endpoint);
COMMENT ON VIEW public.support_outbox IS 'What is written elsewhere, by place and customer: filter by customer, or by done_at IS NULL for what is not delivered.';
COMMENT ON COLUMN public.support_outbox.state IS 'waiting, under way, delivered, disabled (the webhook answered 410), or dead (given up; receiptd requeues it).';
COMMENT ON COLUMN public.support_outbox.next_attempt_at IS 'When it is tried next.';
COMMENT ON COLUMN public.support_outbox.last_error IS 'What the last attempt for this customer met.';
COMMENT ON COLUMN public.support_outbox.place_error IS 'What the place as a whole last met. NULL: it is well.';

DO $$
DECLARE
  relation text;
  client text;
BEGIN
  FOREACH relation IN ARRAY ARRAY['outbox_lanes', 'support_outbox'] LOOP
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'receiptd_support') THEN
      EXECUTE format('GRANT SELECT ON public.%I TO receiptd_support', relation);
    END IF;
    FOREACH client IN ARRAY ARRAY['anon', 'authenticated'] LOOP
      IF EXISTS (SELECT FROM pg_roles WHERE rolname = client) THEN
        EXECUTE format('REVOKE ALL ON public.%I FROM %I', relation, client);
      END IF;
    END LOOP;
  END LOOP;
  -- Supabase opens sequences as well.
  FOREACH client IN ARRAY ARRAY['anon', 'authenticated'] LOOP
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = client) THEN
      EXECUTE format('REVOKE ALL ON SEQUENCE public.outbox_changes FROM %I', client);
    END IF;
  END LOOP;
END
$$;
