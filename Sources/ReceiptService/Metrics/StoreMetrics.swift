import AppStore
import CoreMetrics
import PrometheusText
import Synchronization

/// How the App Store Server API answers.
struct StoreMetrics: Sendable {
  private let watched: WatchedStores
  private let calls: HandleTable<Call, Counter>
  private let durations: HandleTable<Lane, Recorder>

  private struct Lane: Hashable {
    var environment: Environment
    var endpoint: String
  }

  private struct Call: Hashable {
    var lane: Lane
    var outcome: StoreCallReport.Outcome
  }

  init(_ registry: PrometheusRegistry) {
    watched = WatchedStores(registry)
    calls = HandleTable { call in
      Counter(
        label: "receiptd_store_calls_total",
        dimensions: [
          ("environment", call.lane.environment.rawValue), ("endpoint", call.lane.endpoint),
          ("outcome", call.outcome.rawValue),
        ], factory: registry)
    }
    durations = HandleTable { lane in
      Recorder(
        label: "receiptd_store_call_seconds",
        dimensions: [("environment", lane.environment.rawValue), ("endpoint", lane.endpoint)],
        factory: registry)
    }
  }

  @Sendable
  func record(_ report: StoreCallReport) {
    let lane = Lane(environment: report.environment, endpoint: report.endpoint)
    calls[Call(lane: lane, outcome: report.outcome)].increment()
    if let duration = report.duration { durations[lane].record(duration.inSeconds) }
  }

  /// Shows whether the store is left alone, whenever somebody asks.
  /// - Parameter apis: by app, in place of those that were watched before.
  func watch(_ apis: [String: AppStoreServerAPI]) { watched.replace(with: apis) }
}

/// The stores whose circuits are shown.
private final class WatchedStores: Sendable {
  private let apis = Mutex<[String: AppStoreServerAPI]>([:])
  private let circuits: HandleTable<Circuit, Meter>

  private struct Circuit: Hashable {
    var app: String
    var environment: Environment
  }

  init(_ registry: PrometheusRegistry) {
    circuits = HandleTable { circuit in
      Meter(
        label: "receiptd_store_circuit_open",
        dimensions: [("app", circuit.app), ("environment", circuit.environment.rawValue)], factory: registry)
    }
    registry.beforeRendering { [weak self] in self?.show() }
  }

  func replace(with apis: [String: AppStoreServerAPI]) { self.apis.withLock { $0 = apis } }

  private func show() {
    for (app, api) in apis.withLock({ $0 }) {
      for environment in [Environment.production, .sandbox] {
        circuits[Circuit(app: app, environment: environment)].set(api.isLeftAlone(environment) ? 1 : 0)
      }
    }
  }
}
