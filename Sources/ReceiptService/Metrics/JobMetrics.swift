import CoreMetrics
import Customers
import PrometheusText
import Subscriptions

/// The metrics of the background jobs.
struct JobMetrics: Sendable {
  private let sweepRows: HandleTable<String, Counter>
  private let sweepRuns: HandleTable<Labels, Counter>
  private let deliveries: HandleTable<Labels, Counter>
  private let deliveryTimes: HandleTable<String, Recorder>
  private let reconcileRuns: HandleTable<Labels, Counter>
  private let missed: HandleTable<Labels, Counter>
  private let repaired: HandleTable<Labels, Counter>
  private let queuedStoreCalls: HandleTable<Labels, Counter>

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
    deliveries = table("receiptd_deliveries_total", "destination", "app", "outcome")
    deliveryTimes = HandleTable { destination in
      Recorder(
        label: "receiptd_delivery_seconds", dimensions: [("destination", destination)], factory: registry)
    }
    reconcileRuns = table("receiptd_reconcile_runs_total", "app", "environment", "outcome")
    missed = table("receiptd_reconcile_missed_total", "app", "environment")
    repaired = table("receiptd_reconcile_repaired_total", "app", "environment")
    queuedStoreCalls = table("receiptd_queued_store_calls_total", "call", "app", "outcome")
  }

  /// Creates the counters of late calls with value 0, so that an alert sees the first increase.
  func expect(_ apps: [App]) {
    for app in apps {
      for kind in StoreCallKind.allCases {
        _ =
          queuedStoreCalls[
            Labels(first: kind.rawValue, second: app.bundleID, third: StoreCallOutcome.late.rawValue)]
      }
    }
  }

  /// Counts an attempt of a queued call that failed, or the end of a call.
  func queuedStoreCall(_ call: StoreCall, _ outcome: String) {
    queuedStoreCalls[Labels(first: call.kind.rawValue, second: call.bundleID, third: outcome)].increment()
  }

  /// Counts a run of a sweep.
  /// - Parameter rows: the number of rows that it updated; `nil` if it failed.
  func swept(_ sweep: String, rows: Int?) {
    sweepRuns[Labels(first: sweep, second: rows == nil ? "failed" : "ok")].increment()
    sweepRows[sweep].increment(by: rows ?? 0)
  }

  func delivered(
    _ destination: OutboxDestination, _ outcomes: some Sequence<DeliveryOutcome>, in duration: Duration
  ) {
    let kind = destination.kind.rawValue
    deliveryTimes[kind].record(duration.inSeconds)
    for outcome in outcomes {
      deliveries[Labels(first: kind, second: destination.bundleID, third: outcome.label)].increment()
    }
  }

  func reconciled(_ report: ReconcileReport) {
    let (app, environment) = (report.bundleID, report.environment)
    let outcome = report.failure == nil ? "ok" : "incomplete"
    reconcileRuns[Labels(first: app, second: environment, third: outcome)].increment()
    missed[Labels(first: app, second: environment)].increment(by: report.notificationsMissed)
    repaired[Labels(first: app, second: environment)].increment(by: report.repairCount)
  }
}

extension DeliveryOutcome {
  /// The value of the label `outcome`.
  fileprivate var label: String {
    switch self {
    case .delivered: "delivered"
    case .failed: "failed"
    case .refused: "refused"
    case .untried: "untried"
    }
  }
}
