import CoreMetrics
import PrometheusText

/// The metrics of the background jobs.
struct JobMetrics: Sendable {
  private let sweepRows: MetricFamily<Counter, String>
  private let sweepRuns: MetricFamily<Counter, String, String>
  private let reconcileRuns: MetricFamily<Counter, String, String, String>
  private let missed: MetricFamily<Counter, String, String>
  private let repaired: MetricFamily<Counter, String, String>

  init(_ registry: PrometheusRegistry) {
    sweepRows = registry.counters("receiptd_sweep_rows_total", "Rows that a sweep updated.", "sweep")
    sweepRuns = registry.counters(
      "receiptd_sweep_runs_total", "Runs of a sweep, by outcome.", "sweep", "outcome")
    reconcileRuns = registry.counters(
      "receiptd_reconcile_runs_total", "Reconciliations of an app, by outcome.", "app", "environment",
      "outcome")
    missed = registry.counters(
      "receiptd_reconcile_missed_total", "Missed notifications that were found in the App Store's history.",
      "app", "environment")
    repaired = registry.counters(
      "receiptd_reconcile_repaired_total", "Purchases that a reconciliation corrected.", "app",
      "environment")
  }

  /// Counts a run of a sweep.
  /// - Parameter rows: the number of rows that it updated; `nil` if it failed.
  func swept(_ sweep: String, rows: Int?) {
    sweepRuns[sweep, rows == nil ? "failed" : "ok"].increment()
    sweepRows[sweep].increment(by: rows ?? 0)
  }

  func reconciled(_ report: ReconcileReport) {
    let (app, environment) = (report.bundleID, report.environment)
    reconcileRuns[app, environment, report.failure == nil ? "ok" : "incomplete"].increment()
    missed[app, environment].increment(by: report.notificationsMissed)
    repaired[app, environment].increment(by: report.repairCount)
  }
}
