-- The note about a row that receiptd added, without dynamic SQL, which PostgreSQL plans anew for each row. A plan that was made while
-- the table was small would scan it all its life.

CREATE OR REPLACE FUNCTION receiptd.receiptd_note_added_row() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
  added_to uuid;
BEGIN
  -- An AFTER INSERT trigger of the app whose name comes first may have written its own values into the row: then it is the app's.
  -- The stars keep the names from being read as columns of the app.
  IF TG_TABLE_NAME = 'profiles' THEN
    added_to := (SELECT added.id FROM public.profiles AS added WHERE added.id = NEW.id AND added.* *= NEW.*);
  ELSE
    added_to := (SELECT added.user_id FROM public.user_preferences AS added WHERE added.user_id = NEW.user_id AND added.* *= NEW.*);
  END IF;
  IF added_to IS NOT NULL THEN
    INSERT INTO receiptd.added_profile_rows (table_name, user_id) VALUES (TG_TABLE_NAME, added_to) ON CONFLICT DO NOTHING;
  END IF;
  RETURN NULL;
END
$$;
