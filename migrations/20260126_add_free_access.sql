-- Times when an app asks nobody for a subscription, and which grants the profiles have followed.

CREATE TABLE public.free_access (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  bundle_id text NOT NULL,
  starts_at timestamptz NOT NULL,
  ends_at timestamptz,
  started_by text NOT NULL,
  ended_by text,
  reason text NOT NULL,
  CHECK (ends_at >= starts_at)
);
-- Switched on is switched on: twice at once is once.
CREATE UNIQUE INDEX free_access_open_key ON public.free_access (bundle_id) WHERE ends_at IS NULL;
COMMENT ON TABLE public.free_access IS 'Times when an app asked nobody for a subscription. Trials and the app''s own grace stand still meanwhile.';
COMMENT ON COLUMN public.free_access.id IS 'The row''s own identity.';
COMMENT ON COLUMN public.free_access.bundle_id IS 'The app.';
COMMENT ON COLUMN public.free_access.starts_at IS 'When it was switched on.';
COMMENT ON COLUMN public.free_access.ends_at IS 'When it was switched off. NULL: it is on.';
COMMENT ON COLUMN public.free_access.started_by IS 'Who switched it on.';
COMMENT ON COLUMN public.free_access.ended_by IS 'Who switched it off.';
COMMENT ON COLUMN public.free_access.reason IS 'Why it was switched on.';

ALTER TABLE public.grants
  ADD COLUMN next_change_at timestamptz GENERATED ALWAYS AS (coalesce(revoked_at, ends_at)) STORED,
  ADD COLUMN followed_until timestamptz;
COMMENT ON COLUMN public.grants.next_change_at IS 'When it ends, or ended.';
COMMENT ON COLUMN public.grants.followed_until IS 'The instant as of which the customer''s profile was last written because of it.';
CREATE INDEX grants_due_idx ON public.grants (starts_at, next_change_at);

DO $$
DECLARE
  client text;
BEGIN
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'receiptd_support') THEN
    GRANT SELECT ON public.free_access TO receiptd_support;
  END IF;
  FOREACH client IN ARRAY ARRAY['anon', 'authenticated'] LOOP
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = client) THEN
      EXECUTE format('REVOKE ALL ON public.free_access FROM %I', client);
    END IF;
  END LOOP;
END
$$;
