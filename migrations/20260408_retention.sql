-- Retention: deletes old notifications and transactions in batches.
--
-- The role that serves has no right to delete from these tables. It calls functions with the owner's rights, which contain
-- the rules, so that an attacker in control of a server can delete no more than the rules allow. Months are those of UTC.

CREATE TABLE public.retention_positions (
  relation text PRIMARY KEY,
  forgotten_before timestamptz,
  looked_until timestamptz,
  looked_until_id text
);
COMMENT ON TABLE public.retention_positions IS 'How far retention has examined old rows, where that takes more than one batch.';
COMMENT ON COLUMN public.retention_positions.relation IS 'The table: transactions.';
COMMENT ON COLUMN public.retention_positions.forgotten_before IS 'Retention has examined all rows from before this instant. NULL: not yet.';
COMMENT ON COLUMN public.retention_positions.looked_until IS 'The instant (purchase_date) of the last row examined. NULL: no pass is in progress.';
COMMENT ON COLUMN public.retention_positions.looked_until_id IS 'The id (transaction_id) of that row.';

-- The App Store's notification history reaches back 180 days. Reconciliation would store rows again that were deleted within
-- that time.
CREATE FUNCTION public.receiptd_forget_from(months integer) RETURNS timestamptz
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
BEGIN
  IF months IS NULL OR months < 7 OR months > 1200 THEN
    RAISE EXCEPTION 'rows are kept for 7 months at least' USING ERRCODE = '22023';
  END IF;
  RETURN date_trunc('month', now()) - make_interval(months => months);
END
$$;
COMMENT ON FUNCTION public.receiptd_forget_from(integer) IS 'The first instant to keep, if so many whole months are kept beside the current one.';

-- Notifications of foreign apps go first: any developer can have them sent to this server. An app that was ever configured
-- is not foreign: its notifications may wait until an operator corrects its app id or environment.
CREATE FUNCTION public.receiptd_forget_notifications(
  months integer, OUT deleted bigint, OUT is_done boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET lock_timeout = '500ms'
SET enable_seqscan = off SET jit = off AS $$
DECLARE
  most CONSTANT integer := 2000;
  cutoff timestamptz := CASE WHEN months IS NOT NULL THEN public.receiptd_forget_from(months) END;
BEGIN
  deleted := 0;
  is_done := true;
  IF NOT pg_try_advisory_xact_lock(112628846781812) THEN
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

  DELETE FROM public.notifications
  WHERE notification_uuid = ANY (ARRAY(
    SELECT n.notification_uuid FROM public.notifications n
    WHERE n.received_at < cutoff AND n.signed_at < cutoff AND n.processed_at IS NOT NULL
    ORDER BY n.received_at LIMIT most));
  GET DIAGNOSTICS deleted = ROW_COUNT;
  is_done := deleted < most;
END
$$;
COMMENT ON FUNCTION public.receiptd_forget_notifications(integer) IS 'Deletes a batch of notifications of foreign apps received more than 30 days ago; if there are none, a batch of notifications older than so many whole months, but none that waits for a replay. NULL: only those of foreign apps. Call it until is_done. Runs with the owner''s rights, for the role that serves.';

-- Deletes only periods of subscriptions that have been over since the cutoff. Two periods stay because the fold needs them:
-- the latest one, which decides the status, and the latest one that names a customer. A late fact about a deleted period,
-- such as a refund, is stored like a new one and does not change the status, which the latest period decides.
CREATE FUNCTION public.receiptd_forget_transactions(
  months integer, OUT deleted bigint, OUT is_done boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET lock_timeout = '500ms'
SET enable_seqscan = off SET jit = off AS $$
DECLARE
  most CONSTANT integer := 2000;
  cutoff timestamptz := public.receiptd_forget_from(months);
  reached public.retention_positions;
  looked bigint;
  last_date timestamptz;
  last_id text;
  dispensable text[];
BEGIN
  deleted := 0;
  is_done := true;
  IF NOT pg_try_advisory_xact_lock(112628846781812) THEN
    RETURN;
  END IF;
  INSERT INTO public.retention_positions (relation) VALUES ('transactions') ON CONFLICT DO NOTHING;
  SELECT * INTO reached FROM public.retention_positions r WHERE r.relation = 'transactions';
  IF reached.forgotten_before >= cutoff THEN
    RETURN;
  END IF;

  SELECT count(*), max(t.purchase_date),
    (array_agg(t.transaction_id ORDER BY t.purchase_date DESC, t.transaction_id DESC))[1],
    array_agg(t.transaction_id) FILTER (
      WHERE t.kind = 'Auto-Renewable Subscription' AND t.signed_at < cutoff AND t.updated_at < cutoff
        AND EXISTS (
          SELECT FROM public.subscriptions s
          WHERE s.original_transaction_id = t.original_transaction_id AND s.transaction_id <> t.transaction_id
            AND s.next_change_at IS NULL AND s.expiry_date < cutoff AND s.signed_at < cutoff
            AND s.phase_statuses[cardinality(s.phase_statuses)] IN ('expired', 'cancelled')
            AND coalesce(s.phase_starts[cardinality(s.phase_starts)], s.revoked_at) < cutoff)
        AND EXISTS (
          SELECT FROM public.transactions later
          WHERE later.original_transaction_id = t.original_transaction_id AND later.purchase_date > t.purchase_date
            AND (t.app_account_token IS NULL OR later.app_account_token IS NOT NULL)))
  INTO looked, last_date, last_id, dispensable
  FROM (
    SELECT * FROM public.transactions
    WHERE purchase_date < cutoff AND purchase_date >= coalesce(reached.looked_until, '-infinity')
      AND (purchase_date, transaction_id)
        > (coalesce(reached.looked_until, '-infinity'), coalesce(reached.looked_until_id, ''))
    ORDER BY purchase_date, transaction_id LIMIT most
  ) AS t;
  -- A row that was written since then stays.
  DELETE FROM public.transactions
  WHERE updated_at < cutoff AND transaction_id = ANY (dispensable);
  GET DIAGNOSTICS deleted = ROW_COUNT;

  IF looked = most THEN
    UPDATE public.retention_positions SET looked_until = last_date, looked_until_id = last_id
    WHERE relation = 'transactions';
    is_done := false;
    RETURN;
  END IF;
  UPDATE public.retention_positions
  SET forgotten_before = cutoff, looked_until = NULL, looked_until_id = NULL WHERE relation = 'transactions';
END
$$;
COMMENT ON FUNCTION public.receiptd_forget_transactions(integer) IS 'Examines a batch of transactions from before so many whole months, and deletes periods of subscriptions that have been over since, but not the latest ones. Call it until is_done. Runs with the owner''s rights, for the role that serves.';
