import CoreMetrics
import Customers
import Ledger
import PrometheusText
import Subscriptions
import Work

/// The metrics of deliveries, and of queued calls to the App Store.
package struct DeliveryMetrics: Sendable {
  private let deliveries: MetricFamily<Counter, OutboxDestination.Kind, String, String>
  private let deliveryTimes: MetricFamily<Recorder, OutboxDestination.Kind>
  private let queuedStoreCalls: MetricFamily<Counter, StoreCallKind, String, String>

  package init(_ registry: PrometheusRegistry) {
    deliveries = registry.counters(
      "receiptd_deliveries_total", "Attempts to deliver a state, by outcome.", "destination", "app",
      "outcome")
    deliveryTimes = registry.histograms(
      "receiptd_delivery_seconds", "Duration of a batch of deliveries, in seconds.", "destination")
    queuedStoreCalls = registry.counters(
      "receiptd_queued_store_calls_total",
      "Answers about refunds and account tokens for the App Store, by call, app and outcome.", "call", "app",
      "outcome")
  }

  /// Creates the counters of late calls with value 0, so that an alert sees the first increase.
  package func expect(_ apps: [App]) {
    for app in apps {
      for kind in StoreCallKind.allCases {
        _ = queuedStoreCalls[kind, app.bundleID, StoreCallOutcome.late.rawValue]
      }
    }
  }

  /// Counts an attempt of a queued call that failed, or the end of a call.
  func queuedStoreCall(_ call: StoreCall, _ outcome: String) {
    queuedStoreCalls[call.kind, call.bundleID, outcome].increment()
  }

  func delivered(
    _ destination: OutboxDestination, _ outcomes: some Sequence<DeliveryOutcome>, in duration: Duration
  ) {
    deliveryTimes[destination.kind].record(duration.inSeconds)
    for outcome in outcomes {
      deliveries[destination.kind, destination.bundleID, outcome.label].increment()
    }
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

extension OutboxDestination.Kind: LabelValue {
  /// The kind of work that a delivery is.
  var work: WorkKind {
    switch self {
    case .cloudkit: .cloudkit
    case .webhook: .webhook
    case .event: .event
    case .notification: .notification
    }
  }
}
extension StoreCallKind: LabelValue {}
