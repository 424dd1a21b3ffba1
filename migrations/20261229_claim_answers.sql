-- A failure to reach the App Store is not counted: it is no answer about the claim.
COMMENT ON COLUMN receiptd.client_writes.attempts IS 'How many times the App Store answered about the claim.';
