-- StoreKit tests in Xcode give rows with the environment Xcode, which count like those of the sandbox.
CREATE INDEX IF NOT EXISTS subscriptions_test_idx ON public.subscriptions (bundle_id, original_transaction_id)
  WHERE environment <> 'Production';

-- migrate: new transaction

-- The condition above includes it.
DROP INDEX IF EXISTS public.subscriptions_sandbox_idx;
COMMENT ON COLUMN public.subscriptions.environment IS 'Production, or Sandbox for testers, or Xcode for StoreKit tests in Xcode on a development server.';
COMMENT ON COLUMN receiptd.transactions.environment IS 'Production, Sandbox or Xcode.';
COMMENT ON COLUMN receiptd.renewals.environment IS 'Production, Sandbox or Xcode.';
COMMENT ON COLUMN receiptd.trials.environment IS 'The environment of the app transaction that started the trial: Production, or Sandbox or Xcode, which count for testers only.';
COMMENT ON COLUMN receiptd.lifecycle_events.environment IS 'Production, Sandbox or Xcode.';
