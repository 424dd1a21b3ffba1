-- The servers that run, each with what it is and how it fared in the last minute.
CREATE TABLE IF NOT EXISTS receiptd.servers (
  id uuid PRIMARY KEY,
  name text NOT NULL,
  version text NOT NULL,
  configuration text NOT NULL,
  started_at timestamptz NOT NULL,
  seen_at timestamptz NOT NULL,
  requests_per_second double precision,
  server_errors bigint,
  p99_seconds double precision,
  open_circuits text[] NOT NULL DEFAULT '{}'
);
COMMENT ON TABLE receiptd.servers IS 'The heartbeat of each server that runs, every 15 seconds. A server that stops deletes its row; that of one that died goes after a day.';
COMMENT ON COLUMN receiptd.servers.id IS 'Random, new with each start.';
COMMENT ON COLUMN receiptd.servers.name IS 'The name of the machine and the port for clients.';
COMMENT ON COLUMN receiptd.servers.version IS 'The version of receiptd.';
COMMENT ON COLUMN receiptd.servers.configuration IS 'The digest of the configuration in use. Servers that differ answer differently.';
COMMENT ON COLUMN receiptd.servers.started_at IS 'When the process started.';
COMMENT ON COLUMN receiptd.servers.seen_at IS 'The last heartbeat, by the server''s clock.';
COMMENT ON COLUMN receiptd.servers.requests_per_second IS 'Requests of clients and of the App Store, over about the last minute. NULL: it has just started.';
COMMENT ON COLUMN receiptd.servers.server_errors IS 'Answers 5xx to them in that time, without 501 and 505, which a client causes. NULL: it has just started.';
COMMENT ON COLUMN receiptd.servers.p99_seconds IS 'The time within which 99 of 100 of them were answered, to the next bound of receiptd_http_request_seconds. NULL: there were none.';
COMMENT ON COLUMN receiptd.servers.open_circuits IS 'The apps and environments for which the App Store does not answer this server.';

DO $$
DECLARE
  rights CONSTANT text := pg_get_functiondef('public.receiptd_rights()'::regprocedure);
BEGIN
  IF position('(''servers''' IN rights) = 0 THEN
    EXECUTE replace(rights, '(''devices'', ', '(''servers'', ''SELECT, INSERT, UPDATE, DELETE'', ''*''),
    (''devices'', ');
  END IF;
END
$$;

-- migrate: new transaction

-- Supabase's default privileges are those of the schema public.
DO $$
BEGIN
  IF to_regrole('service_role') IS NOT NULL THEN
    GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON receiptd.servers TO service_role;
  END IF;
END
$$;
SELECT public.receiptd_set_rights('servers');
SELECT public.receiptd_set_common_rights();

-- As in 20261130_backend_writes.sql, for servers of the build before.
DO $$
DECLARE
  role regrole;
BEGIN
  IF to_regclass('public.servers') IS NOT NULL OR NOT EXISTS (
    SELECT FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relname = 'outbox' AND relkind = 'v')
  THEN
    RETURN;
  END IF;
  EXECUTE format('CREATE VIEW public.servers %s AS SELECT * FROM receiptd.servers',
    CASE WHEN current_setting('server_version_num')::integer >= 150000 THEN 'WITH (security_invoker = true)' ELSE '' END);
  EXECUTE format('ALTER VIEW public.servers OWNER TO %s',
    (SELECT relowner::regrole FROM pg_class WHERE oid = 'receiptd.servers'::regclass));
  COMMENT ON VIEW public.servers IS 'The former name of receiptd.servers, for servers of the build before. receiptd_drop_former_names() drops it.';
  COMMENT ON COLUMN public.servers.id IS 'Random, new with each start.';
  COMMENT ON COLUMN public.servers.name IS 'The name of the machine and the port for clients.';
  COMMENT ON COLUMN public.servers.version IS 'The version of receiptd.';
  COMMENT ON COLUMN public.servers.configuration IS 'The digest of the configuration in use. Servers that differ answer differently.';
  COMMENT ON COLUMN public.servers.started_at IS 'When the process started.';
  COMMENT ON COLUMN public.servers.seen_at IS 'The last heartbeat, by the server''s clock.';
  COMMENT ON COLUMN public.servers.requests_per_second IS 'Requests of clients and of the App Store, over about the last minute. NULL: it has just started.';
  COMMENT ON COLUMN public.servers.server_errors IS 'Answers 5xx to them in that time, without 501 and 505, which a client causes. NULL: it has just started.';
  COMMENT ON COLUMN public.servers.p99_seconds IS 'The time within which 99 of 100 of them were answered, to the next bound of receiptd_http_request_seconds. NULL: there were none.';
  COMMENT ON COLUMN public.servers.open_circuits IS 'The apps and environments for which the App Store does not answer this server.';
  REVOKE ALL ON public.servers FROM PUBLIC;
  FOR role IN
    SELECT DISTINCT granted.grantee::regrole FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) AS granted
    WHERE c.oid = 'public.servers'::regclass AND granted.grantee NOT IN (0, c.relowner)
  LOOP
    EXECUTE format('REVOKE ALL ON public.servers FROM %s', role);
  END LOOP;
END
$$;
