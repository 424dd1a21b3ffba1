-- The console's lists of what is rare among many subscriptions: each list read all that end within its days.
--
-- Only the rows of a list are in its index, so a write of another subscription costs nothing more.
CREATE INDEX IF NOT EXISTS subscriptions_billing_trouble_idx ON public.subscriptions (expiry_date, bundle_id)
WHERE next_change_at IS NOT NULL AND phase_store_statuses && '{billingGrace,billingRetry}';

-- migrate: new transaction
CREATE INDEX IF NOT EXISTS subscriptions_cancelled_idx ON public.subscriptions (expiry_date, bundle_id)
WHERE next_change_at IS NOT NULL AND auto_renew_enabled IS NOT TRUE;

-- migrate: new transaction
CREATE INDEX IF NOT EXISTS subscriptions_unowned_idx ON public.subscriptions (expiry_date, bundle_id)
WHERE user_id IS NULL AND device_id IS NULL;

-- migrate: new transaction
-- Not by date: a renewal that changes no indexed column writes no index (HOT).
CREATE INDEX IF NOT EXISTS renewals_price_increase_idx ON receiptd.renewals (original_transaction_id)
WHERE other_claims ->> 'priceIncreaseStatus' = '0';

-- migrate: new transaction
-- The old proofs that are due first, of all apps.
CREATE INDEX IF NOT EXISTS subscriptions_old_proof_queue_idx ON public.subscriptions (old_proof_due_at)
WHERE old_proof_due_at IS NOT NULL;

-- migrate: new transaction
-- The search for a child by name, in any case of letters and by the beginning.
CREATE INDEX IF NOT EXISTS devices_name_idx ON receiptd.devices (lower(name) text_pattern_ops) WHERE name IS NOT NULL;

-- migrate: new transaction
-- The refused requests of an app whose clients are refused rarely.
CREATE INDEX IF NOT EXISTS refused_attempts_app_idx ON receiptd.refused_attempts (bundle_id, at);
