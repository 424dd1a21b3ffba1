-- A server that signs in as the owner of the app's own tables pays for one look-up of its role in each row that it writes.
--
-- The owner was looked up in one query with all other roles. PostgreSQL prepares both halves of such a query at each call, although
-- the owner needs the first alone.
CREATE OR REPLACE FUNCTION public.receiptd_writes_premium(relation regclass, acting name, moves boolean) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF moves AND pg_trigger_depth() > 0 THEN
    acting := coalesce(nullif(current_setting('role'), 'none')::name, session_user);
  END IF;
  -- The usual roles of servers and of Supabase's clients need no look-up.
  IF acting IN ('anon', 'authenticated') THEN
    RETURN false;
  ELSIF acting IN ('receiptd_app', 'service_role') THEN
    RETURN true;
  END IF;
  IF (SELECT pg_has_role(acting, c.relowner, 'USAGE') FROM pg_class c WHERE c.oid = relation) THEN
    RETURN true;
  END IF;
  RETURN coalesce((
    SELECT r.rolbypassrls OR EXISTS (
      SELECT FROM pg_roles w
      WHERE (w.rolname IN ('receiptd_app', 'service_role') OR w.rolname = ANY (m.writers))
        AND pg_has_role(r.oid, w.oid, 'USAGE'))
    FROM pg_roles r CROSS JOIN pg_class c LEFT JOIN receiptd.client_write_modes m ON m.table_name = c.relname
    WHERE r.rolname = acting AND c.oid = relation), false);
END
$$;
