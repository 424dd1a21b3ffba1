-- Events that clients report, and the limit of bytes that an app stores in a day.

CREATE TABLE public.events (
  bundle_id text NOT NULL,
  customer_id text NOT NULL,
  id uuid NOT NULL DEFAULT gen_random_uuid(),
  name text NOT NULL,
  at timestamptz NOT NULL,
  received_at timestamptz NOT NULL,
  properties jsonb,
  PRIMARY KEY (bundle_id, customer_id, id)
);
CREATE INDEX events_at_idx ON public.events (at);
COMMENT ON TABLE public.events IS 'Events of the last 90 days that clients reported. They are unproven, so only counts follow from them.';
COMMENT ON COLUMN public.events.bundle_id IS 'The app.';
COMMENT ON COLUMN public.events.customer_id IS 'The customer, as reported by the client.';
COMMENT ON COLUMN public.events.id IS 'The client''s id of the event, so that a retry is not counted twice; generated if the client gave none.';
COMMENT ON COLUMN public.events.name IS 'The name of the event: paywall_shown, purchase_initiated, storekit_error, or any other.';
COMMENT ON COLUMN public.events.at IS 'When it happened, by the client''s clock.';
COMMENT ON COLUMN public.events.received_at IS 'When receiptd received it.';
COMMENT ON COLUMN public.events.properties IS 'Further properties that the client reported. NULL: none.';

-- Any client may post events without proof, so an app stores a limited number of bytes a day. The sum is in a table and not
-- in a server's memory, so that it holds for all servers together and over restarts.
CREATE TABLE public.event_bytes_daily (
  bundle_id text NOT NULL,
  day date NOT NULL,
  bytes bigint NOT NULL,
  PRIMARY KEY (bundle_id, day)
);
COMMENT ON TABLE public.event_bytes_daily IS 'How many bytes of events each app was charged with on each of the last 90 days. Beyond the app''s eventBytesPerDay, events are refused.';
COMMENT ON COLUMN public.event_bytes_daily.bundle_id IS 'The app.';
COMMENT ON COLUMN public.event_bytes_daily.day IS 'The day (UTC) on which the events arrived, by the server''s clock.';
COMMENT ON COLUMN public.event_bytes_daily.bytes IS 'The sizes of the events and of their index entries, before compression. A retry is charged again.';
