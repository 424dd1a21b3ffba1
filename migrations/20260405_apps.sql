-- The state of each app: the part of its configuration that SQL needs, and times of free access.

CREATE TABLE public.configured_apps (
  bundle_id text PRIMARY KEY,
  grace_days integer NOT NULL,
  shares_purchases boolean NOT NULL,
  sandbox_for_everyone boolean NOT NULL,
  sandbox_testers text[] NOT NULL
);
COMMENT ON TABLE public.configured_apps IS 'The part of the configuration that the support views need. Each server writes it when it starts and when it reads its configuration again.';
COMMENT ON COLUMN public.configured_apps.bundle_id IS 'The app.';
COMMENT ON COLUMN public.configured_apps.grace_days IS 'The app''s own grace, in days of 24 hours. 0: the app has none.';
COMMENT ON COLUMN public.configured_apps.shares_purchases IS 'Whether several devices can share a purchase.';
COMMENT ON COLUMN public.configured_apps.sandbox_for_everyone IS 'Whether sandbox purchases give access to all customers.';
COMMENT ON COLUMN public.configured_apps.sandbox_testers IS 'Further customers to whom sandbox purchases give access: their ids in lower case.';

CREATE TABLE public.free_access (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  bundle_id text NOT NULL,
  starts_at timestamptz NOT NULL,
  ends_at timestamptz,
  started_by text NOT NULL,
  ended_by text,
  reason text NOT NULL,
  followed_at timestamptz,
  CHECK (ends_at >= starts_at)
);
-- An app has at most one open time of free access, so that switching it on twice has no further effect.
CREATE UNIQUE INDEX free_access_open_key ON public.free_access (bundle_id) WHERE ends_at IS NULL;
COMMENT ON TABLE public.free_access IS 'Times in which an app needs no subscription. Trials and the app''s own grace stand still during such a time.';
COMMENT ON COLUMN public.free_access.id IS 'The row''s own id.';
COMMENT ON COLUMN public.free_access.bundle_id IS 'The app.';
COMMENT ON COLUMN public.free_access.starts_at IS 'When it was switched on.';
COMMENT ON COLUMN public.free_access.ends_at IS 'When it was switched off. NULL: it is on.';
COMMENT ON COLUMN public.free_access.started_by IS 'The person that switched it on.';
COMMENT ON COLUMN public.free_access.ended_by IS 'The person that switched it off.';
COMMENT ON COLUMN public.free_access.reason IS 'The reason for switching it on.';
COMMENT ON COLUMN public.free_access.followed_at IS 'When the sweep had evaluated all subscriptions whose grace stood still. NULL: free access is on, or the sweep is not done.';
