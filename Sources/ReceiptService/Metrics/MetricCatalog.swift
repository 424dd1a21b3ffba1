import Ledger
import PrometheusText

/// The metrics of receiptd. ``PrometheusRegistry/processDescriptions`` has those of the process.
///
/// Every label has a bounded set of values: route patterns, configured apps, and lists in the code.
enum MetricCatalog {
  static let all = build + requests + proofs + notifications + business + database + outbox + store + jobs

  private static let build = [
    MetricDescription(.gauge, "receiptd_build_info", help: "Always 1; the label has the version."),
    MetricDescription(
      .gauge, "receiptd_configuration_info", help: "1 for the digest of the configuration in use."),
    MetricDescription(
      .gauge, "receiptd_configuration_loaded_seconds",
      help: "When the configuration in use was read, as UNIX time."),
    MetricDescription(
      .gauge, "receiptd_configuration_failing", help: "1 if the last reload of the configuration failed."),
  ]

  private static let requests = [
    MetricDescription(
      .counter, "receiptd_http_requests_total", help: "Responses, by route, method and status code."),
    MetricDescription(
      .histogram, "receiptd_http_request_seconds",
      help: "From the first byte of a request to the hand-over of the response, in seconds."),
    MetricDescription(.gauge, "receiptd_http_connections", help: "Open connections."),
    MetricDescription(
      .counter, "receiptd_log_lines_lost_total",
      help: "Log lines that were dropped because the reader was too slow."),
  ]

  private static let proofs = [
    MetricDescription(
      .counter, "receiptd_verifications_total", help: "Verifications of signed data, by outcome."),
    MetricDescription(
      .counter, "receiptd_validations_total",
      help: "Responses to validate, by app and ok or the error code."),
    MetricDescription(
      .counter, "receiptd_profile_syncs_total",
      help: "Responses to profile syncs, by app and ok or the error code."),
    MetricDescription(
      .counter, "receiptd_events_total",
      help: "Events that clients reported, by app and name; a retried event counts once."),
    MetricDescription(
      .counter, "receiptd_events_refused_total",
      help: "Requests with events that were refused because the app's daily bytes are used up."),
    MetricDescription(
      .counter, "receiptd_bare_id_joins_total",
      help: "Devices that joined another device's purchase with a bare transaction id or a legacy receipt."),
    MetricDescription(
      .counter, "receiptd_profile_write_failures_total",
      help: "Failed writes of premium statuses to an app's own table; they are retried."),
    MetricDescription(
      .counter, "receiptd_token_refusals_total", help: "Refused access tokens, by reason."),
    MetricDescription(
      .counter, "receiptd_refused_attempts_dropped_total",
      help: "Refused requests that were not kept for support, by the limit that they exceeded."),
    MetricDescription(
      .counter, "receiptd_jwks_refreshes_total",
      help: "Fetches of the public keys that verify tokens, by outcome."),
    MetricDescription(
      .gauge, "receiptd_jwks_fetched_seconds",
      help: "Time of the fetch of the public keys in use, in seconds since 1970; 0 without keys."),
    MetricDescription(
      .gauge, "receiptd_jwks_failing", help: "1 if the last fetch of the public keys failed."),
    MetricDescription(
      .gauge, "receiptd_roots_valid_until_seconds",
      help: "End of the validity of the first trusted root to expire, in seconds since 1970."),
  ]

  private static let notifications = [
    MetricDescription(
      .counter, "receiptd_notifications_total",
      help: "App Store notifications, by type, subtype and outcome."),
    MetricDescription(
      .histogram, "receiptd_notification_lag_seconds",
      buckets: [0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600, 14_400, 86_400],
      help: "From the signing of a posted notification to its arrival, in seconds."),
    MetricDescription(
      .gauge, "receiptd_notifications_waiting", help: "Notifications that wait for a replay."),
    MetricDescription(
      .gauge, "receiptd_ledger_queue_entries", help: "Ledger entries that wait for their commit."),
    MetricDescription(
      .counter, "receiptd_ledger_entries_total", help: "Ledger entries, by outcome."),
    MetricDescription(
      .histogram, "receiptd_ledger_commit_seconds",
      help: "From the begin to the commit of a ledger transaction, in seconds."),
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
    MetricDescription(
      .counter, "receiptd_trials_started_total",
      help: "Trials in production that began: of the app's own, and free first periods of the App Store."),
    MetricDescription(
      .counter, "receiptd_trials_converted_total",
      help: "Trials in production that were paid for."),
    MetricDescription(
      .gauge, "receiptd_trials_ended_recently",
      help: "Trials in production that ended within the last 30 days."),
    MetricDescription(
      .gauge, "receiptd_trials_ended_recently_converted",
      help: "Trials of these that were paid for."),
    MetricDescription(
      .gauge, "receiptd_active_subscribers",
      help: "Subscriptions and lifetime purchases in production, as kpi_daily counts them."),
    MetricDescription(
      .gauge, "receiptd_mrr", help: "Monthly recurring revenue, as kpi_revenue_daily counts it."),
    MetricDescription(
      .gauge, "receiptd_charges_daily",
      help: "Paid purchases of yesterday, and the mean of the seven days before."),
    MetricDescription(
      .gauge, "receiptd_revenue_daily",
      help: "Revenue of yesterday, and the mean of the seven days before."),
    MetricDescription(
      .gauge, "receiptd_refunds_daily",
      help: "Refunds of yesterday, and the mean of the seven days before."),
  ]

  private static let database = [
    MetricDescription(
      .gauge, "receiptd_client_writes_recently",
      help: "Writes of clients to the premium columns of the app's own tables within the last 30 days."),
    MetricDescription(
      .gauge, "receiptd_database_up", help: "1 if the last read of the gauges from the database succeeded."),
    MetricDescription(
      .gauge, "receiptd_database_figures_read_seconds",
      help: "Time of the last read of the gauges from the database, in seconds since 1970."),
    MetricDescription(
      .gauge, "receiptd_database_connections", help: "Open connections of the pool, by state."),
    MetricDescription(
      .gauge, "receiptd_database_connections_max", help: "Maximum number of connections of the pool."),
    MetricDescription(.gauge, "receiptd_database_waiting", help: "Tasks that wait for a connection."),
    MetricDescription(
      .histogram, "receiptd_database_acquire_seconds",
      help: "Wait for a connection of the pool, in seconds."),
    MetricDescription(
      .counter, "receiptd_database_errors_total", help: "Database errors, by kind."),
  ]

  private static let outbox = [
    MetricDescription(
      .gauge, "receiptd_outbox_rows", help: "Rows of the outbox, by destination, app and state."),
    MetricDescription(
      .gauge, "receiptd_outbox_oldest_seconds",
      help: "Age of the oldest undelivered change, in seconds."),
    MetricDescription(
      .counter, "receiptd_deliveries_total", help: "Attempts to deliver a state, by outcome."),
    MetricDescription(
      .histogram, "receiptd_delivery_seconds", help: "Duration of a batch of deliveries, in seconds."),
  ]

  private static let store = [
    MetricDescription(
      .counter, "receiptd_store_calls_total", help: "Requests to the App Store Server API, by outcome."),
    MetricDescription(
      .histogram, "receiptd_store_call_seconds",
      help: "Duration of a request to the App Store Server API, in seconds."),
    MetricDescription(
      .counter, "receiptd_queued_store_calls_total",
      help: "Answers about refunds and account tokens for the App Store, by call, app and outcome."),
    MetricDescription(
      .gauge, "receiptd_store_circuit_open",
      help: "1 while no requests are sent to the App Store because it does not answer."),
  ]

  private static let jobs = [
    MetricDescription(
      .gauge, "receiptd_sweep_lag_seconds",
      help: "Time for which the most overdue row has waited for the sweep, in seconds."),
    MetricDescription(.counter, "receiptd_sweep_rows_total", help: "Rows that a sweep updated."),
    MetricDescription(.counter, "receiptd_sweep_runs_total", help: "Runs of a sweep, by outcome."),
    MetricDescription(
      .counter, "receiptd_reconcile_runs_total", help: "Reconciliations of an app, by outcome."),
    MetricDescription(
      .counter, "receiptd_reconcile_missed_total",
      help: "Missed notifications that were found in the App Store's history."),
    MetricDescription(
      .counter, "receiptd_reconcile_repaired_total", help: "Purchases that a reconciliation corrected."),
  ]
}
