-- `receiptd adopt` writes down the claims of all apps of a table before it gives the first award: an award of one app replaces a row
-- that may name the purchase of another one.
ALTER TABLE receiptd.adoptions ALTER COLUMN run_id DROP NOT NULL;
COMMENT ON COLUMN receiptd.adoptions.run_id IS 'The run that decided it: adoption_runs.id. NULL: a run of another app wrote the claim down.';
