-- The note that the app's backend wrote a premium row (backend_writes), and a claim of the first adoption that is still open, are of one row.
-- They end with it: when it is deleted or truncated, or moves to another user. The triggers that forget added rows see all of this.

-- A change of the premium looks for a user's open claims.
CREATE INDEX IF NOT EXISTS adoptions_open_claims_idx ON receiptd.adoptions (customer)
  WHERE original_transaction_id = '' AND outcome = 'failed';

CREATE OR REPLACE FUNCTION receiptd.receiptd_forget_added_row() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  key CONSTANT text := CASE TG_TABLE_NAME WHEN 'profiles' THEN 'id' ELSE 'user_id' END;
  forgotten CONSTANT uuid := (to_jsonb(OLD) ->> key)::uuid;
BEGIN
  DELETE FROM receiptd.added_profile_rows WHERE table_name = TG_TABLE_NAME AND user_id = forgotten;
  IF TG_OP = 'DELETE' OR to_jsonb(NEW) -> key IS DISTINCT FROM to_jsonb(OLD) -> key THEN
    DELETE FROM receiptd.backend_writes WHERE table_name = TG_TABLE_NAME AND user_id = forgotten;
    DELETE FROM receiptd.adoptions
    WHERE customer = forgotten::text AND original_transaction_id = '' AND outcome = 'failed' AND source = TG_TABLE_NAME;
  END IF;
  RETURN NULL;
END
$$;
COMMENT ON FUNCTION receiptd.receiptd_forget_added_row() IS 'Forgets that receiptd added a row, once a client or the app has written it or it is gone; and that the app''s backend wrote it, once it is gone.';

CREATE OR REPLACE FUNCTION receiptd.receiptd_forget_added_rows() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  DELETE FROM receiptd.added_profile_rows WHERE table_name = TG_TABLE_NAME;
  DELETE FROM receiptd.backend_writes WHERE table_name = TG_TABLE_NAME;
  DELETE FROM receiptd.adoptions WHERE original_transaction_id = '' AND outcome = 'failed' AND source = TG_TABLE_NAME;
  RETURN NULL;
END
$$;
COMMENT ON FUNCTION receiptd.receiptd_forget_added_rows() IS 'Forgets the rows that receiptd added to a table that is truncated, and those that the app''s backend wrote.';
