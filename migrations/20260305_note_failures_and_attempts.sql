-- Notifications that wait: why a part of one failed stands beside it, so that it is tried again only when that can help;
-- those of foreign apps, which any developer can have sent here, are read only for an app that has become known, and
-- expire.

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

-- A start reads these two: all that may be understood now, and for each configured app what came before it was known.
CREATE INDEX IF NOT EXISTS notifications_waiting_idx ON public.notifications (received_at, notification_uuid)
  WHERE processed_at IS NULL AND outcome <> 'unknown_app';
CREATE INDEX IF NOT EXISTS notifications_unknown_app_idx
  ON public.notifications (bundle_id, received_at, notification_uuid)
  WHERE processed_at IS NULL AND outcome = 'unknown_app';

-- As 20260205 has it, and before that notifications of foreign apps. An app that was ever configured is not foreign:
-- its notifications may wait for a number or an environment to be put right.
CREATE OR REPLACE FUNCTION public.receiptd_forget_notifications(
  months integer, OUT dropped text, OUT deleted bigint, OUT is_done boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET lock_timeout = '500ms'
SET enable_seqscan = off SET jit = off AS $$
DECLARE
  most CONSTANT integer := 2000;
  cutoff timestamptz := CASE WHEN months IS NOT NULL THEN public.receiptd_forget_from(months) END;
  part regclass;
  name text;
BEGIN
  deleted := 0;
  is_done := true;
  IF NOT pg_try_advisory_xact_lock(120382481164403) THEN
    RETURN;
  END IF;
  DELETE FROM public.notifications
  WHERE processed_at IS NULL AND outcome = 'unknown_app' AND notification_uuid = ANY (ARRAY(
    SELECT n.notification_uuid FROM public.notifications n
    WHERE n.processed_at IS NULL AND n.outcome = 'unknown_app' AND n.received_at < now() - interval '30 days'
      AND NOT EXISTS (SELECT FROM public.configured_apps app WHERE app.bundle_id = n.bundle_id)
    ORDER BY n.received_at LIMIT most));
  GET DIAGNOSTICS deleted = ROW_COUNT;
  IF deleted > 0 THEN
    is_done := false;
    RETURN;
  END IF;
  IF cutoff IS NULL THEN
    RETURN;
  END IF;

  FOR part IN SELECT m.month FROM public.receiptd_months('public.notifications') m WHERE m.ends <= cutoff LOOP
    name := part::text;
    CASE public.receiptd_drop_month('notifications', part, 'processed_at IS NULL')
      WHEN 'dropped' THEN
        dropped := name;
        is_done := false;
        RETURN;
      WHEN 'busy' THEN
        RETURN;
      ELSE
        -- Row by row then: what waits for a replay stays.
        NULL;
    END CASE;
  END LOOP;
  DELETE FROM public.notifications
  WHERE signed_at < cutoff AND notification_uuid = ANY (ARRAY(
    SELECT n.notification_uuid FROM public.notifications n
    WHERE n.received_at < cutoff AND n.signed_at < cutoff AND n.processed_at IS NOT NULL
    ORDER BY n.received_at LIMIT most));
  GET DIAGNOSTICS deleted = ROW_COUNT;
  is_done := deleted < most;
END
$$;
COMMENT ON FUNCTION public.receiptd_forget_notifications(integer) IS 'Deletes some thousand notifications of foreign apps that came more than 30 days ago; if there are none, drops one month of notifications that is older than so many whole months, or deletes some thousand such rows, never one that waits for a replay. NULL: only those of foreign apps. To be called until it is done. With the owner''s rights, for the role that serves.';
COMMENT ON COLUMN public.notifications.outcome IS
  'What came of it: applied (a fact was news), unchanged (older than what is known), recorded (carries no facts), or why it waits: unknown_app (deleted 30 days after it came, unless the app is configured by then), unknown_environment, unknown_type, unknown_product, failed.';

-- What a delivery said when it was last tried: a receiver that has seen its id shall never miss another content.
ALTER TABLE public.outbox ADD COLUMN IF NOT EXISTS attempted_digest bytea;
COMMENT ON COLUMN public.outbox.attempted_digest IS 'SHA-256 of the state that this change''s attempts send. Another state is another change. NULL: not tried yet.';
