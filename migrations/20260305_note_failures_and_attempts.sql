-- Notifications that wait: why a part of one failed stands beside it, so that it is tried again only when that can help.

ALTER TABLE public.notifications
  ADD COLUMN IF NOT EXISTS failure text,
  ADD COLUMN IF NOT EXISTS failure_detail text;
COMMENT ON COLUMN public.notifications.failure IS 'Apple signed the notification, but it cannot be read, or the transaction or renewal info inside it fails: the fault, such as untrusted_root, signature_invalid, certificate_not_valid_at_signed_date, malformed_payload, inner_mismatch. NULL: nothing of the kind.';
COMMENT ON COLUMN public.notifications.failure_detail IS 'The part and the fault, in words.';

CREATE OR REPLACE VIEW public.support_waiting_notifications AS
SELECT outcome AS why, bundle_id, environment, type, subtype, count(*) AS notifications,
  min(received_at) AS oldest, max(received_at) AS newest, failure
FROM public.notifications
WHERE processed_at IS NULL
GROUP BY 1, 2, 3, 4, 5, 9;
COMMENT ON VIEW public.support_waiting_notifications IS 'Notifications that are kept but could not be processed yet, counted: they are processed again at the next start that can help, or by receiptd replay.';
COMMENT ON COLUMN public.support_waiting_notifications.failure IS 'For failed: the fault in the notification itself or in a part of it. NULL: receiptd could not write it, and tries again every hour.';

DO $$
BEGIN
  -- Replacing a view drops its options; 20260203 says where they are needed.
  IF EXISTS (SELECT FROM pg_roles WHERE rolname IN ('anon', 'authenticated'))
    AND current_setting('server_version_num')::integer >= 150000
  THEN
    ALTER VIEW public.support_waiting_notifications SET (security_invoker = true);
  END IF;
END
$$;
