-- What never arrived is read from the App Store: how far that has come, and what it repaired.
-- And a change of product that waits for its day.

ALTER TABLE public.subscriptions
  ADD COLUMN IF NOT EXISTS upcoming_product_id text,
  ADD COLUMN IF NOT EXISTS upcoming_tier text,
  ADD COLUMN IF NOT EXISTS store_asked_at timestamptz;
COMMENT ON COLUMN public.subscriptions.product_id IS 'The product that is open as of updated_at, by the catalog''s name (Apple''s where the catalog does not know it).';
COMMENT ON COLUMN public.subscriptions.upcoming_product_id IS 'The product of the latest purchase where it was charged ahead and is another one: it opens at purchase_date. NULL: product_id is that of the latest purchase.';
COMMENT ON COLUMN public.subscriptions.upcoming_tier IS 'The tier that upcoming_product_id will open.';
COMMENT ON COLUMN public.subscriptions.store_asked_at IS 'When the App Store was last asked about it because a renewal was overdue without news.';

-- Reconciling looks for renewals that are overdue, app by app.
CREATE INDEX IF NOT EXISTS subscriptions_renewal_due_idx
  ON public.subscriptions (bundle_id, environment, expiry_date)
  WHERE revoked_at IS NULL AND expiry_date IS NOT NULL;

ALTER TABLE public.notifications
  ADD COLUMN source text NOT NULL DEFAULT 'webhook',
  ADD COLUMN replayed_at timestamptz;
COMMENT ON COLUMN public.notifications.source IS 'webhook: the App Store posted it. history: it never arrived and was read from the App Store''s notification history.';
COMMENT ON COLUMN public.notifications.replayed_at IS 'When it was last processed again.';

CREATE TABLE public.reconcile_positions (
  bundle_id text NOT NULL,
  environment text NOT NULL,
  history_read_until timestamptz,
  claimed_at timestamptz NOT NULL,
  PRIMARY KEY (bundle_id, environment)
);
COMMENT ON TABLE public.reconcile_positions IS 'How far the App Store''s notification history was read, by app and environment.';
COMMENT ON COLUMN public.reconcile_positions.bundle_id IS 'The app.';
COMMENT ON COLUMN public.reconcile_positions.environment IS 'Production or Sandbox.';
COMMENT ON COLUMN public.reconcile_positions.history_read_until IS 'Everything signed before this was read. NULL: nothing yet.';
COMMENT ON COLUMN public.reconcile_positions.claimed_at IS 'When a server last took it upon itself to read on; the others then leave it for an hour.';

CREATE TABLE public.reconcile_runs (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  bundle_id text NOT NULL,
  environment text NOT NULL,
  started_at timestamptz NOT NULL,
  finished_at timestamptz NOT NULL,
  read_from timestamptz NOT NULL,
  read_until timestamptz,
  notifications_read integer NOT NULL,
  notifications_missed integer NOT NULL,
  statuses_asked integer NOT NULL,
  repaired text[] NOT NULL,
  error text
);
CREATE INDEX reconcile_runs_started_at_idx ON public.reconcile_runs (started_at);
COMMENT ON TABLE public.reconcile_runs IS 'What each reconciling read and repaired.';
COMMENT ON COLUMN public.reconcile_runs.id IS 'In the order in which they ended.';
COMMENT ON COLUMN public.reconcile_runs.bundle_id IS 'The app.';
COMMENT ON COLUMN public.reconcile_runs.environment IS 'Production or Sandbox.';
COMMENT ON COLUMN public.reconcile_runs.started_at IS 'When it began.';
COMMENT ON COLUMN public.reconcile_runs.finished_at IS 'When it ended.';
COMMENT ON COLUMN public.reconcile_runs.read_from IS 'The beginning of the notification history that was wanted.';
COMMENT ON COLUMN public.reconcile_runs.read_until IS 'How far the history was read. NULL: not at all.';
COMMENT ON COLUMN public.reconcile_runs.notifications_read IS 'Notifications in that history.';
COMMENT ON COLUMN public.reconcile_runs.notifications_missed IS 'Of these, those that had never arrived.';
COMMENT ON COLUMN public.reconcile_runs.statuses_asked IS 'Subscriptions whose renewal was overdue without news.';
COMMENT ON COLUMN public.reconcile_runs.repaired IS 'Purchases (originalTransactionID) that were brought up to date, the first hundred.';
COMMENT ON COLUMN public.reconcile_runs.error IS 'Why it ended early. NULL: it did not.';

CREATE VIEW public.support_waiting_notifications AS
SELECT outcome AS why, bundle_id, environment, type, subtype, count(*) AS notifications,
  min(received_at) AS oldest, max(received_at) AS newest
FROM public.notifications
WHERE processed_at IS NULL
GROUP BY 1, 2, 3, 4, 5;
COMMENT ON VIEW public.support_waiting_notifications IS 'Notifications that are kept but could not be processed yet, counted: they are processed again at the next start, or by receiptd replay.';
COMMENT ON COLUMN public.support_waiting_notifications.why IS 'unknown_app, unknown_environment, unknown_type, unknown_product or failed.';
COMMENT ON COLUMN public.support_waiting_notifications.notifications IS 'How many.';
COMMENT ON COLUMN public.support_waiting_notifications.oldest IS 'When the first of them was received.';
COMMENT ON COLUMN public.support_waiting_notifications.newest IS 'When the last of them was received.';

DO $$
DECLARE
  relation text;
  client text;
BEGIN
  FOREACH relation IN ARRAY ARRAY[
    'reconcile_positions', 'reconcile_runs', 'support_waiting_notifications']
  LOOP
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'receiptd_support') THEN
      EXECUTE format('GRANT SELECT ON public.%I TO receiptd_support', relation);
    END IF;
    FOREACH client IN ARRAY ARRAY['anon', 'authenticated'] LOOP
      IF EXISTS (SELECT FROM pg_roles WHERE rolname = client) THEN
        EXECUTE format('REVOKE ALL ON public.%I FROM %I', relation, client);
      END IF;
    END LOOP;
  END LOOP;
END
$$;
