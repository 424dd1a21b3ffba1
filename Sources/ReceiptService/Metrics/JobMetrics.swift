import CoreMetrics
import PrometheusText

/// The metrics of the background jobs.
struct JobMetrics: Sendable {
  private let sweepRows: HandleTable<String, Counter>
  private let sweepRuns: HandleTable<Labels, Counter>
  private let reconcileRuns: HandleTable<Labels, Counter>
  private let missed: HandleTable<Labels, Counter>
  private let repaired: HandleTable<Labels, Counter>

  private struct Labels: Hashable {
    var first: String
    var second: String
    var third = ""
  }

  init(_ registry: PrometheusRegistry) {
    func table(_ name: String, _ labels: String...) -> HandleTable<Labels, Counter> {
      HandleTable { key in
        let values = [key.first, key.second, key.third]
        return Counter(label: name, dimensions: Array(zip(labels, values)), factory: registry)
      }
    }
    sweepRows = HandleTable { sweep in
      Counter(label: "receiptd_sweep_rows_total", dimensions: [("sweep", sweep)], factory: registry)
    }
    sweepRuns = table("receiptd_sweep_runs_total", "sweep", "outcome")
    reconcileRuns = table("receiptd_reconcile_runs_total", "app", "environment", "outcome")
    missed = table("receiptd_reconcile_missed_total", "app", "environment")
    repaired = table("receiptd_reconcile_repaired_total", "app", "environment")
  }

  /// Counts a run of a sweep.
  /// - Parameter rows: the number of rows that it updated; `nil` if it failed.
  func swept(_ sweep: String, rows: Int?) {
    sweepRuns[Labels(first: sweep, second: rows == nil ? "failed" : "ok")].increment()
    sweepRows[sweep].increment(by: rows ?? 0)
  }

  func reconciled(_ report: ReconcileReport) {
    let (app, environment) = (report.bundleID, report.environment)
    let outcome = report.failure == nil ? "ok" : "incomplete"
    reconcileRuns[Labels(first: app, second: environment, third: outcome)].increment()
    missed[Labels(first: app, second: environment)].increment(by: report.notificationsMissed)
    repaired[Labels(first: app, second: environment)].increment(by: report.repairCount)
  }
}
