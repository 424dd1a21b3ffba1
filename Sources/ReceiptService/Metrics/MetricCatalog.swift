import PrometheusText

/// Every metric of receiptd's own. Those of the process are ``PrometheusRegistry/processDescriptions``.
///
/// Labels have a bounded set of values: routes by their pattern, apps by the configuration, everything else by lists in
/// the program.
enum MetricCatalog {
  static let all = requests + proofs + notifications + business + database + outbox + store + jobs

  private static let requests = [
    MetricDescription(
      .counter, "receiptd_http_requests_total", help: "Answers, by route, method and status code."),
    MetricDescription(
      .histogram, "receiptd_http_request_seconds",
      help: "From the first byte of a request to the answer's hand-over, in seconds."),
    MetricDescription(.gauge, "receiptd_http_connections", help: "Open connections."),
    MetricDescription(
      .counter, "receiptd_log_lines_lost_total", help: "Lines of the log that nobody took in time."),
  ]

  private static let proofs = [
    MetricDescription(
      .counter, "receiptd_verifications_total", help: "Signed data, by what came of its verification."),
    MetricDescription(
      .counter, "receiptd_validations_total",
      help: "Answers to validate, by app and ok or the error code."),
    MetricDescription(
      .counter, "receiptd_profile_syncs_total",
      help: "Answers to signed-in clients that sync what they have, by app and ok or the error code."),
    MetricDescription(
      .counter, "receiptd_events_refused_total",
      help: "Requests with events that were refused because the app's bytes of the day are used up."),
    MetricDescription(
      .counter, "receiptd_profile_write_failures_total",
      help: "Premium statuses that an app's own table did not take and that are tried again."),
    MetricDescription(
      .counter, "receiptd_jwks_refreshes_total",
      help: "Fetches of the public keys of an app's users, by outcome."),
    MetricDescription(
      .gauge, "receiptd_jwks_fetched_seconds",
      help: "When the public keys in use were fetched, in seconds since 1970; 0 if none are known."),
    MetricDescription(
      .gauge, "receiptd_jwks_failing", help: "1 if the last fetch of the public keys failed."),
    MetricDescription(
      .gauge, "receiptd_roots_valid_until_seconds",
      help: "When the first of the trusted roots ceases to be valid, in seconds since 1970."),
  ]

  private static let notifications = [
    MetricDescription(
      .counter, "receiptd_notifications_total",
      help: "App Store notifications, by type, subtype and what came of them."),
    MetricDescription(
      .histogram, "receiptd_notification_lag_seconds",
      buckets: [0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600, 14_400, 86_400],
      help: "From the signing of a posted notification to its arrival, in seconds."),
    MetricDescription(
      .gauge, "receiptd_notifications_waiting", help: "Kept notifications that wait for a replay."),
    MetricDescription(
      .gauge, "receiptd_ledger_queue_entries", help: "Entries that wait for their commit."),
    MetricDescription(
      .counter, "receiptd_ledger_entries_total", help: "Entries of the ledger, by what came of them."),
    MetricDescription(
      .histogram, "receiptd_ledger_commit_seconds",
      help: "From the beginning to the commit of one transaction of the ledger, in seconds."),
  ]

  private static let business = [
    MetricDescription(
      .counter, "receiptd_purchases_total", help: "Purchases in production that were not known before."),
    MetricDescription(
      .counter, "receiptd_charges_total",
      help: "Purchases and renewals in production that were paid for and not known before."),
    MetricDescription(
      .counter, "receiptd_renewals_total",
      help: "Renewals of paid periods in production that were not known before."),
    MetricDescription(
      .counter, "receiptd_renewals_due_total",
      help: "Paid periods in production that ended: renewals, and subscriptions that expired instead."),
    MetricDescription(
      .counter, "receiptd_refunds_total", help: "Refunds in production that were not known before."),
    MetricDescription(.counter, "receiptd_trials_started_total", help: "Trials that began."),
    MetricDescription(
      .counter, "receiptd_trials_converted_total",
      help: "Customers with a trial whose first paid purchase in production was taken in."),
    MetricDescription(
      .gauge, "receiptd_trials_ended_recently",
      help: "Trials in production that ended within the last 30 days."),
    MetricDescription(
      .gauge, "receiptd_trials_ended_recently_converted",
      help: "Of these, those whose device or Apple Account has paid in production since."),
  ]

  private static let database = [
    MetricDescription(
      .gauge, "receiptd_database_up", help: "1 if the database answered when it was last asked for figures."),
    MetricDescription(
      .gauge, "receiptd_database_figures_read_seconds",
      help: "When figures were last read from the database, in seconds since 1970."),
    MetricDescription(
      .gauge, "receiptd_database_connections", help: "Open connections of the pool, by state."),
    MetricDescription(
      .gauge, "receiptd_database_connections_max", help: "The most connections that the pool may have."),
    MetricDescription(.gauge, "receiptd_database_waiting", help: "Who waits for a connection."),
    MetricDescription(
      .histogram, "receiptd_database_acquire_seconds",
      help: "How long who got a connection waited for it, in seconds."),
    MetricDescription(
      .counter, "receiptd_database_errors_total", help: "Failures of work with the database, by kind."),
  ]

  private static let outbox = [
    MetricDescription(
      .gauge, "receiptd_outbox_rows", help: "States to be written elsewhere, by place, app and state."),
    MetricDescription(
      .gauge, "receiptd_outbox_oldest_seconds",
      help: "The age of the oldest change that was not delivered yet, in seconds."),
    MetricDescription(
      .counter, "receiptd_deliveries_total", help: "Attempts to write a state elsewhere, by outcome."),
    MetricDescription(
      .histogram, "receiptd_delivery_seconds", help: "How long a batch of deliveries took, in seconds."),
  ]

  private static let store = [
    MetricDescription(
      .counter, "receiptd_store_calls_total", help: "Calls of the App Store Server API, by outcome."),
    MetricDescription(
      .histogram, "receiptd_store_call_seconds",
      help: "How long the App Store took to answer, in seconds."),
    MetricDescription(
      .gauge, "receiptd_store_circuit_open",
      help: "1 while the App Store is left alone because it does not answer."),
  ]

  private static let jobs = [
    MetricDescription(
      .gauge, "receiptd_sweep_lag_seconds",
      help: "For how long the row that is longest due has waited to be judged again, in seconds."),
    MetricDescription(.counter, "receiptd_sweep_rows_total", help: "Rows that a sweep brought up to date."),
    MetricDescription(.counter, "receiptd_sweep_runs_total", help: "Turns of a sweep, by outcome."),
    MetricDescription(
      .counter, "receiptd_reconcile_runs_total", help: "Reconcilings of an app, by outcome."),
    MetricDescription(
      .counter, "receiptd_reconcile_missed_total",
      help: "Notifications that had never arrived and were found in the App Store's history."),
    MetricDescription(
      .counter, "receiptd_reconcile_repaired_total", help: "Purchases that reconciling brought up to date."),
  ]
}
