-- Free access that reaches the apps' own tables: the rows as they were before, which they are again when it ends.
CREATE TABLE IF NOT EXISTS receiptd.free_access_rows (
  table_name text NOT NULL CHECK (table_name IN ('profiles', 'user_preferences')),
  user_id uuid NOT NULL,
  bundle_id text NOT NULL,
  former jsonb NOT NULL,
  written jsonb NOT NULL,
  PRIMARY KEY (table_name, user_id)
);
COMMENT ON TABLE receiptd.free_access_rows IS 'The rows of the app''s own tables that free access opened (freeAccessWrites). A row goes when free access ends.';
COMMENT ON COLUMN receiptd.free_access_rows.table_name IS 'profiles or user_preferences.';
COMMENT ON COLUMN receiptd.free_access_rows.user_id IS 'The user of the row.';
COMMENT ON COLUMN receiptd.free_access_rows.bundle_id IS 'The app with free access.';
COMMENT ON COLUMN receiptd.free_access_rows.former IS 'The premium columns from before, which the row gets back.';
COMMENT ON COLUMN receiptd.free_access_rows.written IS 'The values that tell that free access wrote the row. A row with other values keeps them.';

DO $$
DECLARE
  rights CONSTANT text := pg_get_functiondef('public.receiptd_rights()'::regprocedure);
BEGIN
  IF position('free_access_rows' IN rights) = 0 THEN
    EXECUTE replace(rights, '(''devices'', ', '(''free_access_rows'', ''SELECT, INSERT, UPDATE, DELETE'', ''*''),
    (''devices'', ');
  END IF;
END
$$;

-- migrate: new transaction

-- Supabase's default privileges are those of the schema public.
DO $$
BEGIN
  IF to_regrole('service_role') IS NOT NULL THEN
    GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON receiptd.free_access_rows TO service_role;
  END IF;
END
$$;
SELECT public.receiptd_set_rights('free_access_rows');
SELECT public.receiptd_set_common_rights();

-- As in 20261130_backend_writes.sql, for servers of the build before.
DO $$
DECLARE
  role regrole;
BEGIN
  IF to_regclass('public.free_access_rows') IS NOT NULL OR NOT EXISTS (
    SELECT FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relname = 'outbox' AND relkind = 'v')
  THEN
    RETURN;
  END IF;
  EXECUTE 'CREATE VIEW public.free_access_rows WITH (security_invoker = true) AS SELECT * FROM receiptd.free_access_rows';
  EXECUTE format('ALTER VIEW public.free_access_rows OWNER TO %s',
    (SELECT relowner::regrole FROM pg_class WHERE oid = 'receiptd.free_access_rows'::regclass));
  COMMENT ON VIEW public.free_access_rows IS 'The former name of receiptd.free_access_rows, for servers of the build before. receiptd_drop_former_names() drops it.';
  COMMENT ON COLUMN public.free_access_rows.table_name IS 'profiles or user_preferences.';
  COMMENT ON COLUMN public.free_access_rows.user_id IS 'The user of the row.';
  COMMENT ON COLUMN public.free_access_rows.bundle_id IS 'The app with free access.';
  COMMENT ON COLUMN public.free_access_rows.former IS 'The premium columns from before, which the row gets back.';
  COMMENT ON COLUMN public.free_access_rows.written IS 'The values that tell that free access wrote the row. A row with other values keeps them.';
  REVOKE ALL ON public.free_access_rows FROM PUBLIC;
  FOR role IN
    SELECT DISTINCT granted.grantee::regrole FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) AS granted
    WHERE c.oid = 'public.free_access_rows'::regclass AND granted.grantee NOT IN (0, c.relowner)
  LOOP
    EXECUTE format('REVOKE ALL ON public.free_access_rows FROM %s', role);
  END LOOP;
END
$$;
