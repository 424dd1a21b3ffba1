-- The sessions of people who signed in to the console.
CREATE TABLE IF NOT EXISTS receiptd.console_sessions (
  secret_hash bytea PRIMARY KEY CHECK (length(secret_hash) = 32),
  person_id bigint NOT NULL REFERENCES receiptd.people (id),
  created_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL
);
CREATE INDEX IF NOT EXISTS console_sessions_person_id_idx ON receiptd.console_sessions (person_id);
CREATE INDEX IF NOT EXISTS console_sessions_expires_at_idx ON receiptd.console_sessions (expires_at);
COMMENT ON TABLE receiptd.console_sessions IS 'The sessions of people who signed in to the console. A sign-out, and the removal of the person, deletes them.';
COMMENT ON COLUMN receiptd.console_sessions.secret_hash IS 'SHA-256 of the secret in the cookie. The secret has 256 random bits, so its hash needs neither salt nor stretching.';
COMMENT ON COLUMN receiptd.console_sessions.person_id IS 'The person.';
COMMENT ON COLUMN receiptd.console_sessions.created_at IS 'When the person signed in.';
COMMENT ON COLUMN receiptd.console_sessions.expires_at IS 'When the session ends, 12 hours later.';

DO $$
DECLARE
  rights CONSTANT text := pg_get_functiondef('public.receiptd_rights()'::regprocedure);
  secrets CONSTANT text := pg_get_functiondef('public.receiptd_secret_columns()'::regprocedure);
BEGIN
  IF position('console_sessions' IN rights) = 0 THEN
    EXECUTE replace(rights, '(''devices'', ', '(''console_sessions'', ''SELECT, INSERT, DELETE'', NULL),
    (''devices'', ');
    EXECUTE replace(secrets, '(''log_keys'', ''key'')', '(''log_keys'', ''key''), (''console_sessions'', ''secret_hash'')');
  END IF;
END
$$;

-- migrate: new transaction

SELECT public.receiptd_set_rights('console_sessions');
SELECT public.receiptd_set_common_rights();

-- As in 20261130_backend_writes.sql, for servers of the build before.
DO $$
DECLARE
  role regrole;
BEGIN
  IF to_regclass('public.console_sessions') IS NOT NULL OR NOT EXISTS (
    SELECT FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relname = 'outbox' AND relkind = 'v')
  THEN
    RETURN;
  END IF;
  EXECUTE 'CREATE VIEW public.console_sessions WITH (security_invoker = true) AS SELECT * FROM receiptd.console_sessions';
  EXECUTE format('ALTER VIEW public.console_sessions OWNER TO %s',
    (SELECT relowner::regrole FROM pg_class WHERE oid = 'receiptd.console_sessions'::regclass));
  COMMENT ON VIEW public.console_sessions IS 'The former name of receiptd.console_sessions, for servers of the build before. receiptd_drop_former_names() drops it.';
  COMMENT ON COLUMN public.console_sessions.secret_hash IS 'SHA-256 of the secret in the cookie. The secret has 256 random bits, so its hash needs neither salt nor stretching.';
  COMMENT ON COLUMN public.console_sessions.person_id IS 'The person.';
  COMMENT ON COLUMN public.console_sessions.created_at IS 'When the person signed in.';
  COMMENT ON COLUMN public.console_sessions.expires_at IS 'When the session ends, 12 hours later.';
  REVOKE ALL ON public.console_sessions FROM PUBLIC;
  FOR role IN
    SELECT DISTINCT granted.grantee::regrole FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) AS granted
    WHERE c.oid = 'public.console_sessions'::regclass AND granted.grantee NOT IN (0, c.relowner)
  LOOP
    EXECUTE format('REVOKE ALL ON public.console_sessions FROM %s', role);
  END LOOP;
END
$$;
