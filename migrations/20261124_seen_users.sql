-- Users whose access token was valid, so that support knows them also without a purchase. 20261125_roles.sql has the rights.

-- A client makes a row only with a valid token of the app's issuer. A server writes at most one row for a user and day, from
-- memory and in batches.
CREATE TABLE public.seen_users (
  user_id uuid NOT NULL,
  bundle_id text NOT NULL,
  first_seen_at timestamptz NOT NULL,
  last_seen_at timestamptz NOT NULL,
  PRIMARY KEY (user_id, bundle_id)
);
CREATE INDEX seen_users_last_seen_at_idx ON public.seen_users (last_seen_at);
COMMENT ON TABLE public.seen_users IS 'The users whose valid access token came with a request, so that support knows a user without a purchase. Kept for 395 days after the last request.';
COMMENT ON COLUMN public.seen_users.user_id IS 'The user of the token.';
COMMENT ON COLUMN public.seen_users.bundle_id IS 'The app.';
COMMENT ON COLUMN public.seen_users.first_seen_at IS 'When the first such request came.';
COMMENT ON COLUMN public.seen_users.last_seen_at IS 'When the last such request came, to the day (UTC): it is the first request of that day.';
