-- Growing tables: `notifications` and `transactions` can be divided into months, and what is old can be forgotten.
--
-- Nothing is divided here. `receiptd partition` does it, for whoever needs it (docs/scaling.md says who does). What it
-- runs stands here and not in the program, so that a table is divided as a whole or not at all, and so that a server
-- whose role may not create, alter or delete can have months made and old rows deleted: by functions of the owner
-- that do this and nothing else.
--
-- A table is divided by an instant that the App Store signs and does not change: a notification's signedDate, a
-- transaction's purchaseDate. The divided table has no unique index of its own: each month is unique by itself, which
-- the rows of one UUID or id share. All months are those of UTC.

CREATE TABLE public.retention_positions (
  relation text PRIMARY KEY,
  forgotten_before timestamptz,
  looked_until timestamptz,
  looked_until_id text
);
COMMENT ON TABLE public.retention_positions IS 'How far old rows were looked through that may be forgotten, where that takes more than one look.';
COMMENT ON COLUMN public.retention_positions.relation IS 'The table: transactions.';
COMMENT ON COLUMN public.retention_positions.forgotten_before IS 'All rows from before this instant were looked at when they had become old enough. NULL: not yet.';
COMMENT ON COLUMN public.retention_positions.looked_until IS 'The instant (purchase_date) of the last row that was looked at. NULL: no look is under way.';
COMMENT ON COLUMN public.retention_positions.looked_until_id IS 'The id (transaction_id) of that row.';

-- The months of a divided table. The first one reaches back to the beginning (starts is -infinity); the one for rows that
-- belong to no month has neither beginning nor end.
CREATE FUNCTION public.receiptd_months(relation regclass)
RETURNS TABLE (month regclass, starts timestamptz, ends timestamptz)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
  SELECT c.oid::regclass,
    CASE WHEN bound LIKE '%FROM (MINVALUE)%' THEN '-infinity'
      ELSE (regexp_match(bound, 'FROM \(''([^'']+)''\)'))[1]::timestamptz END,
    (regexp_match(bound, 'TO \(''([^'']+)''\)'))[1]::timestamptz
  FROM pg_inherits i
  JOIN pg_class c ON c.oid = i.inhrelid
  CROSS JOIN LATERAL pg_get_expr(c.relpartbound, c.oid) AS bound
  WHERE i.inhparent = relation
  ORDER BY 3, 2
$$;
COMMENT ON FUNCTION public.receiptd_months(regclass) IS 'The months of a table that is divided into them, from the first to the last, then the one for all other rows.';

-- A part of a table is read and written through the whole. Whoever else is given rights to what comes into being in
-- `public`, as on Supabase, loses them.
CREATE FUNCTION public.receiptd_close(part regclass) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  grantee text;
BEGIN
  FOR grantee IN
    SELECT DISTINCT CASE granted.grantee WHEN 0 THEN 'PUBLIC' ELSE granted.grantee::regrole::text END
    FROM pg_class c CROSS JOIN LATERAL (
      SELECT (aclexplode(c.relacl)).grantee
      UNION SELECT (aclexplode(a.attacl)).grantee FROM pg_attribute a WHERE a.attrelid = c.oid
    ) AS granted
    WHERE c.oid = part AND granted.grantee <> c.relowner
  LOOP
    EXECUTE format('REVOKE ALL ON %s FROM %s', part, grantee);
  END LOOP;
  EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', part);
END
$$;
COMMENT ON FUNCTION public.receiptd_close(regclass) IS 'Takes a part of a divided table away from everybody: it is reached through the whole.';

-- A further part of a divided table: like the whole, unique by its key, closed. Rows that wait for it among those
-- of no month move in. Nobody is kept from writing to the whole meanwhile, unless to those.
CREATE FUNCTION public.receiptd_add_month(relation name, part name, starts timestamptz, ends timestamptz) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
  whole regclass := format('public.%I', relation)::regclass;
  key name := CASE relation WHEN 'notifications' THEN 'signed_at' ELSE 'purchase_date' END;
  id name := CASE relation WHEN 'notifications' THEN 'notification_uuid' ELSE 'transaction_id' END;
  others regclass;
  made regclass;
BEGIN
  EXECUTE format('LOCK TABLE ONLY %s IN SHARE UPDATE EXCLUSIVE MODE', whole);
  EXECUTE format('CREATE TABLE public.%I (LIKE %s INCLUDING ALL EXCLUDING INDEXES EXCLUDING STATISTICS, PRIMARY KEY (%I))',
    part, whole, id);
  made := format('public.%I', part)::regclass;
  EXECUTE format('ALTER TABLE %s OWNER TO %s', made,
    (SELECT relowner::regrole FROM pg_class WHERE oid = whole));
  PERFORM public.receiptd_close(made);
  IF starts IS NULL THEN
    EXECUTE format('COMMENT ON TABLE %s IS %L', made,
      format('Rows of %s that belong to none of its months: from before the first that is kept, or after the last that was made.', relation));
    EXECUTE format('ALTER TABLE %s ATTACH PARTITION %s DEFAULT', whole, made);
    RETURN;
  END IF;

  EXECUTE format('COMMENT ON TABLE %s IS %L', made,
    format('Rows of %s of %s (%s, UTC).', relation, to_char(starts, 'YYYY-MM'), key));
  SELECT m.month INTO others FROM public.receiptd_months(whole) m WHERE m.ends IS NULL;
  IF others IS NOT NULL THEN
    EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', others);
    EXECUTE format(
      'WITH moved AS (DELETE FROM %1$s WHERE %2$I >= $1 AND %2$I < $2 RETURNING *) INSERT INTO %3$s SELECT * FROM moved',
      others, key, made) USING starts, ends;
  END IF;
  EXECUTE format('ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM (%L) TO (%L)', whole, made, starts, ends);
END
$$;
COMMENT ON FUNCTION public.receiptd_add_month(name, name, timestamptz, timestamptz) IS 'Makes a month of a divided table; without a beginning, the part for rows of no month.';

-- Up to and with the month that an instant lies in.
CREATE FUNCTION public.receiptd_make_months_through(relation name, instant timestamptz) RETURNS SETOF text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET lock_timeout = '500ms' AS $$
DECLARE
  whole regclass := format('public.%I', relation)::regclass;
  month timestamptz;
  part name;
BEGIN
  SELECT max(m.ends) INTO month FROM public.receiptd_months(whole) m;
  WHILE month <= instant LOOP
    part := relation || '_' || to_char(month, 'YYYY_MM');
    PERFORM public.receiptd_add_month(relation, part, month, month + interval '1 month');
    month := month + interval '1 month';
    RETURN NEXT part;
  END LOOP;
END
$$;
COMMENT ON FUNCTION public.receiptd_make_months_through(name, timestamptz) IS 'Makes the months of a divided table that are missing, up to the one of an instant.';

-- Every server calls this every few hours.
CREATE FUNCTION public.receiptd_make_months() RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET lock_timeout = '500ms' AS $$
DECLARE
  relation name;
  whole regclass;
BEGIN
  -- 'months' in ASCII: one at a time, and not while a table is being divided.
  IF NOT pg_try_advisory_xact_lock(120382481164403) THEN
    RETURN;
  END IF;
  FOREACH relation IN ARRAY ARRAY['notifications', 'transactions']::name[] LOOP
    whole := format('public.%I', relation)::regclass;
    IF (SELECT relkind = 'p' FROM pg_class WHERE oid = whole) THEN
      RETURN QUERY SELECT public.receiptd_make_months_through(relation, now() + interval '3 months');
    ELSIF EXISTS (
      SELECT FROM pg_constraint WHERE conrelid = whole AND conname = 'receiptd_months_bound'
        AND (regexp_match(pg_get_constraintdef(oid), '''([^'']+)'''))[1]::timestamptz < now() + interval '3 days')
    THEN
      -- Left behind by a division that was given up days ago. Soon it would refuse what comes.
      EXECUTE format('ALTER TABLE %s DROP CONSTRAINT receiptd_months_bound', whole);
    END IF;
  END LOOP;
END
$$;
COMMENT ON FUNCTION public.receiptd_make_months() IS 'Makes the months of the next three months where a table is divided, and gives their names. With the owner''s rights, for the role that serves.';

-- For receiptd doctor.
CREATE FUNCTION public.receiptd_look_at_months()
RETURNS TABLE (relation text, is_divided boolean, months bigint, made_until timestamptz, outside bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
  whole regclass;
  others regclass;
BEGIN
  FOREACH relation IN ARRAY ARRAY['notifications', 'transactions'] LOOP
    whole := format('public.%I', relation)::regclass;
    SELECT relkind = 'p' INTO is_divided FROM pg_class WHERE oid = whole;
    SELECT count(m.ends), max(m.ends) INTO months, made_until FROM public.receiptd_months(whole) m;
    outside := 0;
    SELECT m.month INTO others FROM public.receiptd_months(whole) m WHERE m.ends IS NULL;
    IF FOUND THEN
      EXECUTE format('SELECT count(*) FROM (SELECT FROM %s LIMIT 10000) AS counted', others) INTO outside;
    END IF;
    RETURN NEXT;
  END LOOP;
END
$$;
COMMENT ON FUNCTION public.receiptd_look_at_months() IS 'Whether notifications and transactions are divided, until when months are made, and how many rows (up to 10,000) belong to none.';

-- Dividing, first step: a bound that all rows keep to. It lies a week ahead or more, and beyond every row that is there.
-- Once it is validated, which takes a look at every row but keeps nobody from writing, the second step need not look.
CREATE FUNCTION public.receiptd_prepare_months(relation name) RETURNS timestamptz
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET lock_timeout = '500ms' AS $$
DECLARE
  whole regclass := format('public.%I', relation)::regclass;
  key name := CASE relation WHEN 'notifications' THEN 'signed_at' WHEN 'transactions' THEN 'purchase_date' END;
  bound timestamptz;
BEGIN
  IF key IS NULL THEN
    RAISE EXCEPTION 'only notifications and transactions can be divided into months' USING ERRCODE = '22023';
  END IF;
  IF (SELECT relkind <> 'r' FROM pg_class WHERE oid = whole) THEN
    RETURN NULL;
  END IF;
  EXECUTE format(
    'SELECT date_trunc(''month'', greatest(now() + interval ''7 days'', max(%I))) + interval ''1 month'' FROM %s', key, whole)
  INTO bound;
  PERFORM pg_advisory_xact_lock(120382481164403);
  IF EXISTS (SELECT FROM pg_constraint WHERE conrelid = whole AND conname = 'receiptd_months_bound') THEN
    EXECUTE format('ALTER TABLE %s DROP CONSTRAINT receiptd_months_bound', whole);
  END IF;
  EXECUTE format('ALTER TABLE %s ADD CONSTRAINT receiptd_months_bound CHECK (%I < %L::timestamptz) NOT VALID',
    whole, key, bound);
  RETURN bound;
END
$$;
COMMENT ON FUNCTION public.receiptd_prepare_months(name) IS 'The first step of receiptd partition. NULL: the table is divided already.';

-- The second step: the table becomes the first month of a new one of its name. No row is read or moved.
--
-- What belongs to a table is told from the catalog, not from a list that could be out of date, and what cannot be
-- carried over stops it. Views keep their identity, rights and comments: their definition is only read anew.
CREATE FUNCTION public.receiptd_divide_into_months(relation name) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET lock_timeout = '500ms' AS $$
DECLARE
  old regclass;
  whole regclass;
  kind "char";
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
  SELECT relkind INTO kind FROM pg_class WHERE oid = old;
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
        WHEN 'pg_rewrite'::regclass THEN v.relkind = 'v'
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
COMMENT ON FUNCTION public.receiptd_divide_into_months(name) IS 'The second step of receiptd partition: makes the table the first month of a divided one of its name. False: it is divided already.';

-- Forgetting. A month goes as a whole, unless something in it is still needed. The lock on the whole table is waited for
-- no longer than anybody may have to wait behind it; if it cannot be had, there is another time.
CREATE FUNCTION public.receiptd_drop_month(relation name, part regclass, needed text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  is_needed boolean;
BEGIN
  EXECUTE format('SELECT EXISTS (SELECT FROM %s WHERE %s)', part, needed) INTO is_needed;
  IF is_needed THEN
    RETURN 'needed';
  END IF;
  EXECUTE format('LOCK TABLE ONLY public.%I IN ACCESS EXCLUSIVE MODE', relation);
  EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', part);
  EXECUTE format('SELECT EXISTS (SELECT FROM %s WHERE %s)', part, needed) INTO is_needed;
  IF is_needed THEN
    RETURN 'needed';
  END IF;
  EXECUTE format('DROP TABLE %s', part);
  RETURN 'dropped';
EXCEPTION
  WHEN lock_not_available OR deadlock_detected THEN
    RETURN 'busy';
END
$$;
COMMENT ON FUNCTION public.receiptd_drop_month(name, regclass, text) IS 'Drops a month of a divided table unless a row of it meets the condition: dropped, needed or busy.';

-- Nothing is forgotten that the App Store's notification history may still bring (180 days): it would come again.
CREATE FUNCTION public.receiptd_forget_from(months integer) RETURNS timestamptz
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
BEGIN
  IF months IS NULL OR months < 7 OR months > 1200 THEN
    RAISE EXCEPTION 'rows are kept for 7 months at least' USING ERRCODE = '22023';
  END IF;
  RETURN date_trunc('month', now()) - make_interval(months => months);
END
$$;
COMMENT ON FUNCTION public.receiptd_forget_from(integer) IS 'The first instant that is kept, where so many whole months are kept beside the one that runs.';

CREATE FUNCTION public.receiptd_forget_notifications(
  months integer, OUT dropped text, OUT deleted bigint, OUT is_done boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET lock_timeout = '500ms'
SET enable_seqscan = off SET jit = off AS $$
DECLARE
  most CONSTANT integer := 2000;
  cutoff timestamptz := public.receiptd_forget_from(months);
  part regclass;
  name text;
BEGIN
  deleted := 0;
  is_done := true;
  IF NOT pg_try_advisory_xact_lock(120382481164403) THEN
    RETURN;
  END IF;
  FOR part IN SELECT m.month FROM public.receiptd_months('public.notifications') m WHERE m.ends <= cutoff LOOP
    name := part::text;
    CASE public.receiptd_drop_month('notifications', part, 'processed_at IS NULL')
      WHEN 'dropped' THEN
        dropped := name;
        is_done := false;
        RETURN;
      WHEN 'busy' THEN
        RETURN;
      ELSE
        -- Row by row then: what waits for a replay stays.
        NULL;
    END CASE;
  END LOOP;
  DELETE FROM public.notifications
  WHERE signed_at < cutoff AND notification_uuid = ANY (ARRAY(
    SELECT n.notification_uuid FROM public.notifications n
    WHERE n.received_at < cutoff AND n.signed_at < cutoff AND n.processed_at IS NOT NULL
    ORDER BY n.received_at LIMIT most));
  GET DIAGNOSTICS deleted = ROW_COUNT;
  is_done := deleted < most;
END
$$;
COMMENT ON FUNCTION public.receiptd_forget_notifications(integer) IS 'Drops one month of notifications that is older than so many whole months, or deletes some thousand such rows; never one that waits for a replay. To be called until it is done. With the owner''s rights, for the role that serves.';

-- Of the transactions only periods of subscriptions that have been over for the whole time, and of these never what
-- the fold could need: the latest one, by which everything that comes later is judged, and the latest that names a
-- customer. What is said of a forgotten period later (a late refund) is taken in as if it had never been here, and
-- changes nothing beside that latest one.
CREATE FUNCTION public.receiptd_forget_transactions(
  months integer, OUT dropped text, OUT deleted bigint, OUT is_done boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET lock_timeout = '500ms'
SET enable_seqscan = off SET jit = off AS $$
DECLARE
  most CONSTANT integer := 2000;
  cutoff timestamptz := public.receiptd_forget_from(months);
  reached public.retention_positions;
  looked bigint;
  last_date timestamptz;
  last_id text;
  dispensable text[];
  part regclass;
  name text;
BEGIN
  deleted := 0;
  is_done := true;
  IF NOT pg_try_advisory_xact_lock(120382481164403) THEN
    RETURN;
  END IF;
  INSERT INTO public.retention_positions (relation) VALUES ('transactions') ON CONFLICT DO NOTHING;
  SELECT * INTO reached FROM public.retention_positions r WHERE r.relation = 'transactions';
  IF reached.forgotten_before >= cutoff THEN
    RETURN;
  END IF;

  SELECT count(*), max(t.purchase_date),
    (array_agg(t.transaction_id ORDER BY t.purchase_date DESC, t.transaction_id DESC))[1],
    array_agg(t.transaction_id) FILTER (
      WHERE t.kind = 'Auto-Renewable Subscription' AND t.signed_at < cutoff AND t.updated_at < cutoff
        AND EXISTS (
          SELECT FROM public.subscriptions s
          WHERE s.original_transaction_id = t.original_transaction_id AND s.transaction_id <> t.transaction_id
            AND s.next_change_at IS NULL AND s.expiry_date < cutoff AND s.signed_at < cutoff
            AND s.phase_statuses[cardinality(s.phase_statuses)] IN ('expired', 'cancelled')
            AND coalesce(s.phase_starts[cardinality(s.phase_starts)], s.revoked_at) < cutoff)
        AND EXISTS (
          SELECT FROM public.transactions later
          WHERE later.original_transaction_id = t.original_transaction_id AND later.purchase_date > t.purchase_date
            AND (t.app_account_token IS NULL OR later.app_account_token IS NOT NULL)))
  INTO looked, last_date, last_id, dispensable
  FROM (
    SELECT * FROM public.transactions
    WHERE purchase_date < cutoff AND purchase_date >= coalesce(reached.looked_until, '-infinity')
      AND (purchase_date, transaction_id)
        > (coalesce(reached.looked_until, '-infinity'), coalesce(reached.looked_until_id, ''))
    ORDER BY purchase_date, transaction_id LIMIT most
  ) AS t;
  -- One that was written meanwhile is left alone.
  DELETE FROM public.transactions
  WHERE purchase_date < cutoff AND updated_at < cutoff AND transaction_id = ANY (dispensable);
  GET DIAGNOSTICS deleted = ROW_COUNT;

  IF looked = most THEN
    UPDATE public.retention_positions SET looked_until = last_date, looked_until_id = last_id
    WHERE relation = 'transactions';
    is_done := false;
    RETURN;
  END IF;
  FOR part IN SELECT m.month FROM public.receiptd_months('public.transactions') m WHERE m.ends <= cutoff LOOP
    name := part::text;
    IF public.receiptd_drop_month('transactions', part, 'true') = 'dropped' THEN
      dropped := concat_ws(', ', dropped, name);
    END IF;
  END LOOP;
  UPDATE public.retention_positions
  SET forgotten_before = cutoff, looked_until = NULL, looked_until_id = NULL WHERE relation = 'transactions';
END
$$;
COMMENT ON FUNCTION public.receiptd_forget_transactions(integer) IS 'Looks at some thousand transactions from before so many whole months and deletes those of subscriptions that have been over since, but the latest; at the end drops months that are empty. To be called until it is done. With the owner''s rights, for the role that serves.';

-- As 20260204 has it, with what is new.
CREATE OR REPLACE FUNCTION public.receiptd_open_to_application() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
  relation text;
  rights text;
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'receiptd_app') THEN
    RETURN;
  END IF;
  GRANT USAGE ON SCHEMA public TO receiptd_app;

  FOR relation, rights IN VALUES
    ('subscriptions', 'SELECT, INSERT, UPDATE'),
    ('transactions', 'SELECT, INSERT, UPDATE'),
    ('renewals', 'SELECT, INSERT, UPDATE'),
    ('jws_headers', 'SELECT, INSERT'),
    ('notifications', 'SELECT, INSERT, UPDATE'),
    ('purchase_devices', 'SELECT, INSERT, UPDATE, DELETE'),
    ('trials', 'SELECT, INSERT, UPDATE'),
    ('devices', 'SELECT, INSERT, UPDATE, DELETE'),
    ('grants', 'SELECT, INSERT, UPDATE'),
    ('free_access', 'SELECT, INSERT, UPDATE'),
    -- Written down is written down.
    ('support_actions', 'SELECT, INSERT'),
    ('reconcile_runs', 'SELECT, INSERT'),
    ('reconcile_positions', 'SELECT, INSERT, UPDATE'),
    ('configured_apps', 'SELECT, INSERT, UPDATE'),
    ('outbox', 'SELECT, INSERT, UPDATE, DELETE'),
    ('outbox_lanes', 'SELECT, INSERT, UPDATE'),
    ('entitlement_keys', 'SELECT, INSERT, UPDATE'),
    ('events', 'SELECT, INSERT, DELETE'),
    ('kpi_days', 'SELECT, INSERT, UPDATE'),
    ('kpi_daily_figures', 'SELECT, INSERT, DELETE'),
    ('kpi_daily_money', 'SELECT, INSERT, DELETE'),
    ('kpi_events_daily', 'SELECT, INSERT, DELETE'),
    ('retention_positions', 'SELECT'),
    -- Whether the schema is the one that the program knows.
    ('schema_migrations', 'SELECT'),
    -- Of the app's own tables, the columns that receiptd writes, and when a user came.
    ('profiles', 'SELECT (id, premium_expires_at, premium_product_id, premium_original_transaction_id), '
      'INSERT (id, premium_expires_at, premium_product_id, premium_original_transaction_id), '
      'UPDATE (premium_expires_at, premium_product_id, premium_original_transaction_id)'),
    ('user_preferences', 'SELECT (user_id, is_premium, bookmark_limit), '
      'INSERT (user_id, is_premium, bookmark_limit), UPDATE (is_premium, bookmark_limit)'),
    ('support_subscriptions', 'SELECT'), ('support_customers', 'SELECT'), ('support_timeline', 'SELECT'),
    ('support_outbox', 'SELECT'), ('support_waiting_notifications', 'SELECT'),
    ('kpi_daily', 'SELECT'), ('kpi_revenue_daily', 'SELECT')
  LOOP
    CONTINUE WHEN to_regclass('public.' || relation) IS NULL;
    EXECUTE format('REVOKE ALL ON public.%I FROM receiptd_app', relation);
    EXECUTE format('GRANT %s ON public.%I TO receiptd_app', rights, relation);
    IF relation IN ('profiles', 'user_preferences') AND EXISTS (
      SELECT FROM pg_attribute
      WHERE attrelid = to_regclass('public.' || relation) AND attname = 'created_at' AND NOT attisdropped)
    THEN
      EXECUTE format('GRANT SELECT (created_at) ON public.%I TO receiptd_app', relation);
    END IF;
    -- Row level security, where it is on, shows a role without a policy nothing. Where it is off this is without effect.
    CONTINUE WHEN EXISTS (
      SELECT FROM pg_class WHERE oid = to_regclass('public.' || relation) AND relkind NOT IN ('r', 'p'));
    EXECUTE format('DROP POLICY IF EXISTS "receiptd serves" ON public.%I', relation);
    EXECUTE format(
      'CREATE POLICY "receiptd serves" ON public.%I TO receiptd_app USING (true) WITH CHECK (true)', relation);
  END LOOP;

  -- Identity columns need no right to their sequences; a default does.
  GRANT USAGE ON SEQUENCE public.outbox_changes TO receiptd_app;
  -- What a server may have done by the owner.
  GRANT EXECUTE ON FUNCTION public.receiptd_make_months(), public.receiptd_look_at_months(),
    public.receiptd_forget_notifications(integer), public.receiptd_forget_transactions(integer) TO receiptd_app;
END
$$;

DO $$
DECLARE
  clients text[] := ARRAY(SELECT rolname::text FROM pg_roles WHERE rolname IN ('anon', 'authenticated'));
  others text[] := ARRAY(SELECT rolname::text FROM pg_roles WHERE rolname IN ('anon', 'authenticated', 'service_role'));
  own regprocedure;
  other text;
BEGIN
  FOR own IN
    SELECT oid::regprocedure FROM pg_proc
    WHERE pronamespace = 'public'::regnamespace AND proname IN ('receiptd_months', 'receiptd_close',
      'receiptd_add_month', 'receiptd_make_months_through', 'receiptd_make_months', 'receiptd_look_at_months',
      'receiptd_prepare_months', 'receiptd_divide_into_months', 'receiptd_drop_month', 'receiptd_forget_from',
      'receiptd_forget_notifications', 'receiptd_forget_transactions')
  LOOP
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', own);
    FOREACH other IN ARRAY others LOOP
      EXECUTE format('REVOKE ALL ON FUNCTION %s FROM %I', own, other);
    END LOOP;
  END LOOP;

  FOREACH other IN ARRAY clients LOOP
    EXECUTE format('REVOKE ALL ON public.retention_positions FROM %I', other);
  END LOOP;
  IF cardinality(clients) > 0 THEN
    ALTER TABLE public.retention_positions ENABLE ROW LEVEL SECURITY;
  END IF;
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'receiptd_support') THEN
    GRANT SELECT ON public.retention_positions TO receiptd_support;
    IF cardinality(clients) > 0 THEN
      CREATE POLICY "receiptd support reads" ON public.retention_positions FOR SELECT TO receiptd_support USING (true);
    END IF;
  END IF;
END
$$;

SELECT public.receiptd_open_to_application();
