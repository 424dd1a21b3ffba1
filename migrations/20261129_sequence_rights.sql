-- receiptd_set_rights() also covers the sequence of the outbox while it stands in `public` beside the table's former name: there
-- it belongs to no column.
DO $$
DECLARE
  definition CONSTANT text := pg_get_functiondef('public.receiptd_set_rights(text)'::regprocedure);
  changed CONSTANT text := replace(definition, 'AND d.refobjid = entry.target AND NOT entry.is_apps',
    'AND d.refobjid = entry.target AND NOT entry.is_apps
    UNION
    SELECT c.oid::regclass, c.relname, c.relacl, c.relowner FROM pg_class c
    WHERE relation = ''outbox'' AND c.oid = to_regclass(''public.'' || relation || ''_changes'') AND c.relkind = ''S''
      AND pg_has_role(c.relowner, ''USAGE'')');
BEGIN
  IF position('_changes' IN replace(definition, 'outbox_changes', '')) > 0 THEN
    RETURN;
  ELSIF changed = definition THEN
    RAISE EXCEPTION 'receiptd_set_rights(text) is not the function of 20261125_roles.sql';
  END IF;
  EXECUTE changed;
END
$$;

COMMENT ON COLUMN receiptd.device_secrets.set_at IS 'When it was stored or replaced. A device with nothing on record keeps the time of its first one.';

-- migrate: new transaction
SELECT public.receiptd_set_rights('outbox');
