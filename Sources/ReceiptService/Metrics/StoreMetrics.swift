import AppStore
import CoreMetrics
import PrometheusText
import Synchronization

/// The metrics of requests to the App Store Server API.
struct StoreMetrics: Sendable {
  private let circuitGauges: CircuitGauges
  private let calls: HandleTable<Call, Counter>
  private let durations: HandleTable<Endpoint, Recorder>

  private struct Endpoint: Hashable {
    var environment: Environment
    var name: String
  }

  private struct Call: Hashable {
    var endpoint: Endpoint
    var outcome: StoreCallReport.Outcome
  }

  init(_ registry: PrometheusRegistry) {
    circuitGauges = CircuitGauges(registry)
    calls = HandleTable { call in
      Counter(
        label: "receiptd_store_calls_total",
        dimensions: [
          ("environment", call.endpoint.environment.rawValue), ("endpoint", call.endpoint.name),
          ("outcome", call.outcome.rawValue),
        ], factory: registry)
    }
    durations = HandleTable { endpoint in
      Recorder(
        label: "receiptd_store_call_seconds",
        dimensions: [("environment", endpoint.environment.rawValue), ("endpoint", endpoint.name)],
        factory: registry)
    }
  }

  @Sendable
  func record(_ report: StoreCallReport) {
    let endpoint = Endpoint(environment: report.environment, name: report.endpoint)
    calls[Call(endpoint: endpoint, outcome: report.outcome)].increment()
    if let duration = report.duration { durations[endpoint].record(duration.inSeconds) }
  }

  /// Updates the gauges of the circuit breakers at each scrape.
  /// - Parameter apis: the APIs by app, which replace the former ones.
  func watch(_ apis: [String: AppStoreServerAPI]) { circuitGauges.replace(with: apis) }
}

/// The gauges of the circuit breakers.
private final class CircuitGauges: Sendable {
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
        circuits[Circuit(app: app, environment: environment)].set(api.isCircuitOpen(environment) ? 1 : 0)
      }
    }
  }
}

/// The outcomes of verifications of signed data.
struct VerificationMetrics: Sendable {
  /// The counters of successes by subject.
  private let good: [VerificationFailure.Subject: Counter]
  private let bad: HandleTable<Failure, Counter>

  private struct Failure: Hashable {
    var subject: VerificationFailure.Subject
    var code: VerificationFailure.Code
  }

  init(_ registry: PrometheusRegistry) {
    func counter(_ subject: VerificationFailure.Subject, _ outcome: String) -> Counter {
      Counter(
        label: "receiptd_verifications_total",
        dimensions: [("subject", subject.rawValue), ("outcome", outcome)], factory: registry)
    }
    let subjects: [VerificationFailure.Subject] = [
      .notification, .transaction, .renewalInfo, .appTransaction,
    ]
    good = Dictionary(uniqueKeysWithValues: subjects.map { ($0, counter($0, "ok")) })
    bad = HandleTable { failure in
      Counter(
        label: "receiptd_verifications_total",
        dimensions: [("subject", failure.subject.rawValue), ("outcome", failure.code.rawValue)],
        factory: registry)
    }
  }

  @Sendable
  func record(_ subject: VerificationFailure.Subject, _ failure: VerificationFailure.Code?) {
    if let failure {
      bad[Failure(subject: subject, code: failure)].increment()
    } else {
      good[subject]?.increment()
    }
  }
}
