-- The number of a row that support queued again is receiptd's own word: a client may choose it as the id of its device, and its
-- erasure must not rename it in the details of the action.
DO $$
DECLARE
  former CONSTANT text := pg_get_functiondef('public.receiptd_rename_in_details(jsonb,text,text,boolean)'::regprocedure);
  changed CONSTANT text := CASE WHEN former LIKE '%''queue'', ''id''%' THEN former
    ELSE replace(former, '''proofAccount'', ''queue'', ', '''proofAccount'', ''queue'', ''id'', ') END;
BEGIN
  IF changed NOT LIKE '%''queue'', ''id''%' THEN
    RAISE EXCEPTION 'receiptd_rename_in_details has another definition than receiptd gave it';
  END IF;
  EXECUTE changed;
END
$$;
