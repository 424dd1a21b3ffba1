-- A table that is divided into months takes the views on it along: each is made anew, by whoever divides. To make a view is to
-- read its definition, and to read one may run what stands in it (a constant of a domain has the domain's constraint
-- checked), with the rights of the one who reads. Anybody may define a view on these tables, in a schema of their own
-- or among temporary objects, without a right to read them. So a view of anybody but the table's owner is not made anew:
-- it is named among what would not come along, and the table stays as it is.

CREATE OR REPLACE FUNCTION public.receiptd_divide_into_months(relation name) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET lock_timeout = '500ms' AS $$
DECLARE
  old regclass;
  whole regclass;
  kind "char";
  owner oid;
  key name := CASE relation WHEN 'notifications' THEN 'signed_at' WHEN 'transactions' THEN 'purchase_date' END;
  bound timestamptz;
  first name;
  obstacle text;
  before text[];
  after text[];
  views text[];
  statement text;
BEGIN
  PERFORM pg_advisory_xact_lock(120382481164403);
  EXECUTE format('LOCK TABLE public.%I IN ACCESS EXCLUSIVE MODE', relation);
  old := format('public.%I', relation)::regclass;
  SELECT relkind, relowner INTO kind, owner FROM pg_class WHERE oid = old;
  IF kind = 'p' THEN
    RETURN false;
  END IF;
  SELECT (regexp_match(pg_get_constraintdef(oid), '''([^'']+)'''))[1]::timestamptz INTO bound
  FROM pg_constraint WHERE conrelid = old AND conname = 'receiptd_months_bound' AND convalidated;
  IF bound IS NULL THEN
    RAISE EXCEPTION '% has not been prepared', old USING ERRCODE = '55000';
  END IF;
  first := relation || '_before_' || to_char(bound, 'YYYY_MM');

  SELECT string_agg(DISTINCT what, ', ') INTO obstacle FROM (
    SELECT pg_describe_object(d.classid, d.objid, 0) AS what
    FROM pg_depend d
    LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
    LEFT JOIN pg_constraint k ON d.classid = 'pg_constraint'::regclass AND k.oid = d.objid
    LEFT JOIN pg_policy p ON d.classid = 'pg_policy'::regclass AND p.oid = d.objid
    LEFT JOIN pg_trigger t ON d.classid = 'pg_trigger'::regclass AND t.oid = d.objid
    LEFT JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid
    LEFT JOIN pg_class v ON v.oid = r.ev_class
    WHERE (d.refclassid = 'pg_class'::regclass AND d.refobjid = old
        OR d.refclassid = 'pg_type'::regclass AND d.refobjid IN (
          SELECT unnest(ARRAY[y.oid, y.typarray]) FROM pg_type y WHERE y.typrelid = old))
      AND NOT coalesce(CASE d.classid
        WHEN 'pg_class'::regclass THEN c.relkind = 't' OR c.relkind = 'i' AND NOT EXISTS (
          SELECT FROM pg_index x WHERE x.indexrelid = c.oid AND (x.indisunique AND NOT x.indisprimary OR NOT x.indisvalid))
        WHEN 'pg_constraint'::regclass THEN k.conrelid = old AND k.contype IN ('p', 'c', 'f', 'n')
        WHEN 'pg_policy'::regclass THEN p.polrelid = old
        WHEN 'pg_trigger'::regclass THEN t.tgrelid = old AND (t.tgisinternal OR t.tgenabled = 'O')
        WHEN 'pg_rewrite'::regclass THEN v.relkind = 'v' AND v.relowner = owner
        WHEN 'pg_attrdef'::regclass THEN true
        WHEN 'pg_type'::regclass THEN true
      END, false)
  ) AS hindrances;
  IF obstacle IS NOT NULL THEN
    RAISE EXCEPTION '% cannot be divided: % would not come along', old, obstacle
      USING ERRCODE = '55000', HINT = 'Drop it, divide, and make it anew.';
  END IF;

  -- What has to go from the old table, and what the new one gets, in order.
  before := ARRAY(
    SELECT format('ALTER INDEX public.%I RENAME TO %I', c.relname,
      left(first || '_' || regexp_replace(c.relname, '^' || relation || '_', ''), 63))
    FROM pg_index x JOIN pg_class c ON c.oid = x.indexrelid WHERE x.indrelid = old AND NOT x.indisunique
  ) || ARRAY(
    SELECT format('DROP TRIGGER %I ON %s', tgname, old) FROM pg_trigger WHERE tgrelid = old AND NOT tgisinternal
  ) || ARRAY(SELECT format('DROP POLICY %I ON %s', polname, old) FROM pg_policy WHERE polrelid = old);
  after := ARRAY(
    SELECT format('ALTER TABLE public.%I ADD CONSTRAINT %I %s', relation, conname, pg_get_constraintdef(oid))
    FROM pg_constraint WHERE conrelid = old AND contype IN ('c', 'f') AND conname <> 'receiptd_months_bound'
  ) || ARRAY(
    SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = old AND NOT indisunique
  ) || ARRAY(
    SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = old AND NOT tgisinternal
  ) || ARRAY(
    SELECT format('CREATE POLICY %I ON public.%I AS %s FOR %s TO %s%s%s', p.polname, relation,
      CASE WHEN p.polpermissive THEN 'PERMISSIVE' ELSE 'RESTRICTIVE' END,
      CASE p.polcmd WHEN 'r' THEN 'SELECT' WHEN 'a' THEN 'INSERT' WHEN 'w' THEN 'UPDATE' WHEN 'd' THEN 'DELETE' ELSE 'ALL' END,
      (SELECT string_agg(CASE role WHEN 0 THEN 'PUBLIC' ELSE role::regrole::text END, ', ') FROM unnest(p.polroles) AS role),
      ' USING (' || pg_get_expr(p.polqual, old) || ')', ' WITH CHECK (' || pg_get_expr(p.polwithcheck, old) || ')')
    FROM pg_policy p WHERE p.polrelid = old
  ) || ARRAY(
    SELECT format('ALTER TABLE public.%I %s ROW LEVEL SECURITY', relation, word)
    FROM pg_class c, LATERAL (VALUES ('ENABLE', c.relrowsecurity), ('FORCE', c.relforcerowsecurity)) AS w (word, is_so)
    WHERE c.oid = old AND is_so
  ) || ARRAY(
    SELECT format('GRANT %s ON public.%I TO %s%s', granted.privilege_type, relation,
      CASE granted.grantee WHEN 0 THEN 'PUBLIC' ELSE granted.grantee::regrole::text END,
      CASE WHEN granted.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
    FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) AS granted WHERE c.oid = old
  ) || ARRAY(
    SELECT format('GRANT %s (%I) ON public.%I TO %s%s', granted.privilege_type, a.attname, relation,
      CASE granted.grantee WHEN 0 THEN 'PUBLIC' ELSE granted.grantee::regrole::text END,
      CASE WHEN granted.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
    FROM pg_attribute a CROSS JOIN LATERAL aclexplode(a.attacl) AS granted WHERE a.attrelid = old
  ) || ARRAY(SELECT format('COMMENT ON TABLE public.%I IS %L', relation, obj_description(old, 'pg_class')));

  views := ARRAY(
    SELECT DISTINCT format('CREATE OR REPLACE VIEW %s%s AS %s', v.oid::regclass,
      ' WITH (' || array_to_string(v.reloptions, ', ') || ')', pg_get_viewdef(v.oid))
    FROM pg_depend d
    JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid
    JOIN pg_class v ON v.oid = r.ev_class
    WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = old AND v.relkind = 'v');

  FOREACH statement IN ARRAY before LOOP
    EXECUTE statement;
  END LOOP;
  EXECUTE format('ALTER TABLE %s RENAME TO %I', old, first);
  EXECUTE format(
    'CREATE TABLE public.%I (LIKE %s INCLUDING ALL EXCLUDING INDEXES EXCLUDING CONSTRAINTS EXCLUDING STATISTICS) PARTITION BY RANGE (%I)',
    relation, old, key);
  whole := format('public.%I', relation)::regclass;
  EXECUTE format('ALTER TABLE %s OWNER TO %s', whole, (SELECT relowner::regrole FROM pg_class WHERE oid = old));
  PERFORM public.receiptd_close(whole);
  EXECUTE format('ALTER TABLE %s DISABLE ROW LEVEL SECURITY', whole);
  FOREACH statement IN ARRAY after LOOP
    EXECUTE statement;
  END LOOP;

  EXECUTE format('ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM (MINVALUE) TO (%L)', whole, old, bound);
  EXECUTE format('ALTER TABLE %s DROP CONSTRAINT receiptd_months_bound', old);
  EXECUTE format('COMMENT ON TABLE %s IS %L', old,
    format('Rows of %s from before %s (%s, UTC): all that there were when it was divided into months.',
      relation, to_char(bound, 'YYYY-MM'), key));
  PERFORM public.receiptd_close(old);
  PERFORM public.receiptd_add_month(relation, relation || '_of_no_month', NULL, NULL);
  PERFORM public.receiptd_make_months_through(relation, now() + interval '3 months');
  FOREACH statement IN ARRAY views LOOP
    EXECUTE statement;
  END LOOP;
  RETURN true;
END
$$;
