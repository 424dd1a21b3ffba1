-- What support sees: the users whose access token was valid, also without a purchase.

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

-- The rights of each role, as in 20260413_roles.sql.
DO $$
DECLARE
  client text;
  has_clients boolean := false;
  servers text;
BEGIN
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'receiptd_app') THEN
    GRANT SELECT, INSERT, UPDATE, DELETE ON public.seen_users TO receiptd_app;
    CREATE POLICY "receiptd serves" ON public.seen_users TO receiptd_app USING (true) WITH CHECK (true);
  END IF;
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'receiptd_support') THEN
    GRANT SELECT ON public.seen_users TO receiptd_support;
    CREATE POLICY "receiptd support reads" ON public.seen_users FOR SELECT TO receiptd_support USING (true);
  END IF;
  FOR client IN SELECT rolname FROM pg_roles WHERE rolname IN ('anon', 'authenticated') LOOP
    has_clients := true;
    EXECUTE format('REVOKE ALL ON public.seen_users FROM %I', client);
  END LOOP;
  IF NOT has_clients THEN
    RETURN;
  END IF;
  ALTER TABLE public.seen_users ENABLE ROW LEVEL SECURITY;
  -- Without a policy, a server whose role may write but is not the owner would see no rows.
  SELECT string_agg(DISTINCT quote_ident(r.rolname), ', ') INTO servers
  FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) AS granted JOIN pg_roles r ON r.oid = granted.grantee
  WHERE c.oid = 'public.seen_users'::regclass AND granted.privilege_type = 'INSERT'
    AND r.oid <> c.relowner AND r.rolname NOT IN ('anon', 'authenticated') AND NOT r.rolbypassrls AND NOT r.rolsuper;
  IF servers IS NOT NULL THEN
    EXECUTE format('CREATE POLICY "receiptd writers" ON public.seen_users TO %s USING (true)', servers);
  END IF;
END
$$;
