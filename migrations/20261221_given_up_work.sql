-- Calls to the App Store and extensions that were given up, and which receiptd requeue takes up again, stand in support_work too:
-- a call until its deadline, an extension for a week.
CREATE OR REPLACE VIEW public.support_work AS
SELECT 'outbox' AS queue, o.destination AS kind, o.id::text AS id, o.bundle_id, o.customer,
  NULL::text AS original_transaction_id, coalesce(o.event, nullif(o.endpoint, '')) AS what, o.state,
  o.created_at AS since, o.next_attempt_at, NULL::timestamptz AS deadline, o.attempts,
  coalesce(o.last_error, o.place_error) AS last_error
FROM public.support_outbox o WHERE o.done_at IS NULL
UNION ALL
SELECT 'store_calls', c.kind, c.id::text, c.bundle_id, coalesce(c.user_id::text, s.user_id::text, s.device_id),
  c.original_transaction_id, c.request_reason, CASE WHEN c.settled_at IS NULL THEN 'waiting' ELSE 'dead' END, c.asked_at,
  CASE WHEN c.settled_at IS NULL THEN c.next_attempt_at END, c.deadline, c.attempts, c.last_error
FROM receiptd.store_calls c LEFT JOIN public.subscriptions s USING (original_transaction_id)
WHERE c.settled_at IS NULL OR c.outcome IN ('refused', 'unknown') AND c.deadline > now()
UNION ALL
SELECT 'renewal_extensions', 'renewal_extension', e.request_identifier::text, e.bundle_id,
  coalesce(s.user_id::text, s.device_id), e.original_transaction_id,
  format('%s days for %s, by %s', e.days, coalesce(e.original_transaction_id, 'all of ' || e.product_id), e.by),
  CASE WHEN e.completed_at IS NOT NULL THEN 'dead' WHEN e.original_transaction_id IS NULL THEN 'waiting'
    WHEN e.next_attempt_at > now() THEN 'under way' ELSE 'stopped' END,
  e.requested_at, e.next_attempt_at, NULL, e.attempts, e.last_error
FROM receiptd.renewal_extensions e LEFT JOIN public.subscriptions s USING (original_transaction_id)
WHERE e.completed_at IS NULL
  OR e.original_transaction_id IS NULL AND e.last_error IS NOT NULL AND e.completed_at > now() - interval '7 days'
UNION ALL
SELECT 'client_writes', 'client_claim', w.id::text, NULL, w.user_id::text, w.original_transaction_id, w.product_id, 'waiting',
  w.last_at, w.next_attempt_at, NULL, w.attempts,
  CASE w.outcome WHEN 'unknown' THEN 'the App Store does not know the transaction' END
FROM receiptd.client_writes w WHERE w.next_attempt_at IS NOT NULL AND w.table_name = 'profiles'
UNION ALL
SELECT 'subscriptions', 'old_proof', p.original_transaction_id, p.bundle_id, coalesce(p.user_id::text, p.device_id),
  p.original_transaction_id, p.product_id, 'waiting', p.old_proof_marked_at, p.old_proof_due_at, NULL, NULL,
  CASE WHEN p.old_proof_unknown_at IS NOT NULL THEN 'the App Store does not know the purchase' END
FROM public.subscriptions p WHERE p.old_proof_due_at IS NOT NULL;
COMMENT ON VIEW public.support_work IS 'All that waits for work, or was given up until support requeues it. Rows that have ended otherwise stay in the table of their queue.';
COMMENT ON COLUMN public.support_work.id IS 'The key of the row in its table. receiptd requeue takes it, with the queue.';
COMMENT ON COLUMN public.support_work.state IS 'waiting (also while a server works on it, but for deliveries); under way; disabled (the webhook answered 410) or dead (given up), until receiptd requeue (a call to the App Store until its deadline, an extension for a week); stopped (the command that extends one renewal date learned no end; repeat it).';

-- migrate: new transaction
-- What was given up is found without reading all that waits.
CREATE INDEX IF NOT EXISTS outbox_dead_idx ON receiptd.outbox (created_at) WHERE dead_at IS NOT NULL AND done_at IS NULL;
CREATE INDEX IF NOT EXISTS store_calls_given_up_idx ON receiptd.store_calls (deadline) WHERE outcome IN ('refused', 'unknown');

-- migrate: new transaction
-- A replaced view has lost its security_invoker.
SELECT public.receiptd_set_rights('support_work');
SELECT public.receiptd_set_common_rights();
