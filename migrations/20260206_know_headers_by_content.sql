-- A notification refers to up to three headers. Foreign keys looked each of them up for each notification, which was
-- a third of what it took to write one, and said only that there is a header of that id: after a backup was restored
-- under a running server that could be another one. Now the statement that writes notifications looks at the headers
-- of all of them at once, by id and content, and fails where one is not as the server remembers it
-- (`NotificationRows.insert`). What foreign keys did beyond that, a trigger does: a header that is there stays. A server
-- of a version before this one looks at nothing: none of them should be running when a backup is restored.

-- Whoever copies or reads these tables for long is not waited for while all who write wait behind: it is tried again.
SET LOCAL lock_timeout = '500ms';
LOCK TABLE public.jws_headers, public.notifications IN ACCESS EXCLUSIVE MODE;

DO $$
DECLARE
  own record;
BEGIN
  -- Where the table is divided into months, the whole's go, and those of the months with them.
  FOR own IN
    SELECT conrelid::regclass AS relation, conname FROM pg_constraint
    WHERE contype = 'f' AND confrelid = 'public.jws_headers'::regclass AND conparentid = 0
      AND conrelid = 'public.notifications'::regclass
  LOOP
    EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', own.relation, own.conname);
  END LOOP;
END
$$;

CREATE FUNCTION public.receiptd_refuse_header_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  -- Not the code of a missing right: who has none is to be told so.
  RAISE EXCEPTION 'headers stay as they are: notifications refer to them'
    USING ERRCODE = 'object_not_in_prerequisite_state',
    HINT = 'Without them no notification can be processed once more. To fill the table anew from a backup, '
      'ALTER TABLE jws_headers DISABLE TRIGGER receiptd_keep_headers, and ENABLE it afterwards.';
END
$$;
COMMENT ON FUNCTION public.receiptd_refuse_header_change() IS
  'Refuses to change or delete headers of signed payloads, which notifications refer to.';
REVOKE ALL ON FUNCTION public.receiptd_refuse_header_change() FROM PUBLIC;

CREATE TRIGGER receiptd_keep_headers
  BEFORE UPDATE OR DELETE OR TRUNCATE ON public.jws_headers FOR EACH STATEMENT
  EXECUTE FUNCTION public.receiptd_refuse_header_change();

DO $$
DECLARE
  other text;
BEGIN
  FOR other IN SELECT rolname FROM pg_roles WHERE rolname IN ('anon', 'authenticated', 'service_role') LOOP
    EXECUTE format('REVOKE ALL ON FUNCTION public.receiptd_refuse_header_change() FROM %I', other);
  END LOOP;
END
$$;

SET LOCAL lock_timeout = DEFAULT;
