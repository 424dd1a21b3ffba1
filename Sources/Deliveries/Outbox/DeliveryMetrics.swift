import CoreMetrics
import Customers
import Ledger
import PrometheusText
import Subscriptions

/// The metrics of deliveries, and of queued calls to the App Store.
package struct DeliveryMetrics: Sendable {
  private let deliveries: HandleTable<Labels, Counter>
  private let deliveryTimes: HandleTable<String, Recorder>
  private let queuedStoreCalls: HandleTable<Labels, Counter>

  private struct Labels: Hashable {
    var first: String
    var app: String
    var outcome: String
  }

  package init(_ registry: PrometheusRegistry) {
    func table(_ name: String, _ first: String) -> HandleTable<Labels, Counter> {
      HandleTable { key in
        Counter(
          label: name, dimensions: [(first, key.first), ("app", key.app), ("outcome", key.outcome)],
          factory: registry)
      }
    }
    deliveries = table("receiptd_deliveries_total", "destination")
    deliveryTimes = HandleTable { destination in
      Recorder(
        label: "receiptd_delivery_seconds", dimensions: [("destination", destination)], factory: registry)
    }
    queuedStoreCalls = table("receiptd_queued_store_calls_total", "call")
  }

  /// Creates the counters of late calls with value 0, so that an alert sees the first increase.
  package func expect(_ apps: [App]) {
    for app in apps {
      for kind in StoreCallKind.allCases {
        _ =
          queuedStoreCalls[
            Labels(first: kind.rawValue, app: app.bundleID, outcome: StoreCallOutcome.late.rawValue)]
      }
    }
  }

  /// Counts an attempt of a queued call that failed, or the end of a call.
  func queuedStoreCall(_ call: StoreCall, _ outcome: String) {
    queuedStoreCalls[Labels(first: call.kind.rawValue, app: call.bundleID, outcome: outcome)].increment()
  }

  func delivered(
    _ destination: OutboxDestination, _ outcomes: some Sequence<DeliveryOutcome>, in duration: Duration
  ) {
    let kind = destination.kind.rawValue
    deliveryTimes[kind].record(duration.inSeconds)
    for outcome in outcomes {
      deliveries[Labels(first: kind, app: destination.bundleID, outcome: outcome.label)].increment()
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
