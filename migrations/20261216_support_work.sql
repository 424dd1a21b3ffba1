-- All that waits for work, in one view: deliveries and premium statuses, calls to the App Store, extensions of renewal dates,
-- claims of old builds, and purchases that are known by an old proof.
--
-- `queue` is a constant of each part, so that a reader who names one reads one table.
CREATE OR REPLACE VIEW public.support_work AS
SELECT 'outbox' AS queue, o.destination AS kind, o.id::text AS id, o.bundle_id, o.customer,
  NULL::text AS original_transaction_id, coalesce(o.event, nullif(o.endpoint, '')) AS what, o.state,
  o.created_at AS since, o.next_attempt_at, NULL::timestamptz AS deadline, o.attempts,
  coalesce(o.last_error, o.place_error) AS last_error
FROM public.support_outbox o WHERE o.done_at IS NULL
UNION ALL
SELECT 'store_calls', c.kind, c.id::text, c.bundle_id, coalesce(c.user_id::text, s.user_id::text, s.device_id),
  c.original_transaction_id, c.request_reason, 'waiting', c.asked_at, c.next_attempt_at, c.deadline, c.attempts, c.last_error
FROM receiptd.store_calls c LEFT JOIN public.subscriptions s USING (original_transaction_id)
WHERE c.settled_at IS NULL
UNION ALL
SELECT 'renewal_extensions', 'renewal_extension', e.request_identifier::text, e.bundle_id,
  coalesce(s.user_id::text, s.device_id), e.original_transaction_id,
  format('%s days for %s, by %s', e.days, coalesce(e.original_transaction_id, 'all of ' || e.product_id), e.by),
  CASE WHEN e.original_transaction_id IS NULL THEN 'waiting' WHEN e.next_attempt_at > now() THEN 'under way' ELSE 'stopped' END,
  e.requested_at, e.next_attempt_at, NULL, e.attempts, e.last_error
FROM receiptd.renewal_extensions e LEFT JOIN public.subscriptions s USING (original_transaction_id)
WHERE e.completed_at IS NULL
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
COMMENT ON COLUMN public.support_work.queue IS 'The table: outbox, store_calls, renewal_extensions, client_writes or subscriptions.';
COMMENT ON COLUMN public.support_work.kind IS 'cloudkit, webhook, event, notification or profiles (the outbox''s destination); consumption or account_token (store_calls); renewal_extension; client_claim (what an old build of a client wrote); old_proof (a purchase known by a client''s old proof).';
COMMENT ON COLUMN public.support_work.id IS 'The key of the row in its table. For the outbox, receiptd requeue takes it.';
COMMENT ON COLUMN public.support_work.bundle_id IS 'The app. NULL: the app''s own table may be shared by several.';
COMMENT ON COLUMN public.support_work.customer IS 'The user or device. NULL: none is known, or all subscribers of a product.';
COMMENT ON COLUMN public.support_work.original_transaction_id IS 'The purchase, or the one that a client claims. NULL: it is about none, or about the customer.';
COMMENT ON COLUMN public.support_work.what IS 'The event or the address of a delivery, the reason of a refund request, the days of an extension, or the product.';
COMMENT ON COLUMN public.support_work.state IS 'waiting (also while a server works on it, but for deliveries); under way; disabled (the webhook answered 410) or dead (given up), until receiptd requeue; stopped (the command that extends one renewal date learned no end; repeat it).';
COMMENT ON COLUMN public.support_work.since IS 'When the change was queued, the App Store or support asked, the client last wrote, or the proof was stored.';
COMMENT ON COLUMN public.support_work.next_attempt_at IS 'When the next attempt is due. NULL: none before support requeues it.';
COMMENT ON COLUMN public.support_work.deadline IS 'After this it is not tried any more. NULL: there is no fixed time.';
COMMENT ON COLUMN public.support_work.attempts IS 'How many attempts were made. NULL: they are not counted.';
COMMENT ON COLUMN public.support_work.last_error IS 'Why the last attempt had no end, of this row or of its destination as a whole.';

DO $$
DECLARE
  rights CONSTANT text := pg_get_functiondef('public.receiptd_rights()'::regprocedure);
BEGIN
  IF position('support_work' IN rights) = 0 THEN
    EXECUTE replace(rights, '(''support_waiting_notifications'', ', '(''support_work'', ''SELECT'', ''*''),
    (''support_waiting_notifications'', ');
  END IF;
END
$$;

-- migrate: new transaction
SELECT public.receiptd_set_rights('support_work');
SELECT public.receiptd_set_common_rights();
