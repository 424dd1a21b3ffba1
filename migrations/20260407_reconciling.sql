-- Reconciliation: how far the App Store's notification history was read, and the results of each run.

CREATE TABLE public.reconcile_positions (
  bundle_id text NOT NULL,
  environment text NOT NULL,
  history_read_until timestamptz,
  claimed_at timestamptz NOT NULL,
  PRIMARY KEY (bundle_id, environment)
);
COMMENT ON TABLE public.reconcile_positions IS 'How far receiptd has read the App Store''s notification history, by app and environment.';
COMMENT ON COLUMN public.reconcile_positions.bundle_id IS 'The app.';
COMMENT ON COLUMN public.reconcile_positions.environment IS 'Production or Sandbox.';
COMMENT ON COLUMN public.reconcile_positions.history_read_until IS 'Everything signed before this instant was read. NULL: nothing yet.';
COMMENT ON COLUMN public.reconcile_positions.claimed_at IS 'When a server last started to read; other servers leave the history to it for an hour.';

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
COMMENT ON TABLE public.reconcile_runs IS 'The results of each reconciliation.';
COMMENT ON COLUMN public.reconcile_runs.id IS 'In the order in which the runs ended.';
COMMENT ON COLUMN public.reconcile_runs.bundle_id IS 'The app.';
COMMENT ON COLUMN public.reconcile_runs.environment IS 'Production or Sandbox.';
COMMENT ON COLUMN public.reconcile_runs.started_at IS 'When it began.';
COMMENT ON COLUMN public.reconcile_runs.finished_at IS 'When it ended.';
COMMENT ON COLUMN public.reconcile_runs.read_from IS 'The beginning of the requested notification history.';
COMMENT ON COLUMN public.reconcile_runs.read_until IS 'How far the history was read. NULL: not at all.';
COMMENT ON COLUMN public.reconcile_runs.notifications_read IS 'How many notifications the history had.';
COMMENT ON COLUMN public.reconcile_runs.notifications_missed IS 'How many of these had never arrived.';
COMMENT ON COLUMN public.reconcile_runs.statuses_asked IS 'How many subscriptions had an overdue renewal without a notification.';
COMMENT ON COLUMN public.reconcile_runs.repaired IS 'Purchases (originalTransactionId) that were brought up to date, the first hundred.';
COMMENT ON COLUMN public.reconcile_runs.error IS 'Why the run ended early. NULL: it did not.';
