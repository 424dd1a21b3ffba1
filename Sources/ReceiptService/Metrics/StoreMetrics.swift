import AppStore
import CoreMetrics
import PrometheusText
import Synchronization

/// The metrics of requests to the App Store Server API.
final class StoreMetrics: Sendable {
  private let calls: MetricFamily<Counter, Environment, String, StoreCallReport.Outcome>
  private let durations: MetricFamily<Recorder, Environment, String>
  private let circuits: MetricFamily<Meter, String, Environment>
  private let apis = Mutex<[String: AppStoreServerAPI]>([:])

  init(_ registry: PrometheusRegistry) {
    calls = registry.counters(
      "receiptd_store_calls_total", "Requests to the App Store Server API, by outcome.", "environment",
      "endpoint", "outcome")
    durations = registry.histograms(
      "receiptd_store_call_seconds", "Duration of a request to the App Store Server API, in seconds.",
      "environment", "endpoint")
    circuits = registry.gauges(
      "receiptd_store_circuit_open",
      "1 while no requests are sent to the App Store because it does not answer.", "app", "environment")
    registry.beforeRendering { [weak self] in self?.showCircuits() }
  }

  @Sendable
  func record(_ report: StoreCallReport) {
    calls[report.environment, report.endpoint, report.outcome].increment()
    if let duration = report.duration {
      durations[report.environment, report.endpoint].record(duration.inSeconds)
    }
  }

  /// Updates the gauges of the circuit breakers at each scrape.
  /// - Parameter apis: the APIs by app, which replace the former ones.
  func watch(_ apis: [String: AppStoreServerAPI]) { self.apis.withLock { $0 = apis } }

  /// The apps and environments for which the App Store does not answer this server, such as `com.example (Sandbox)`.
  var openCircuits: [String] {
    apis.withLock { $0 }.sorted { $0.key < $1.key }.flatMap { app, api in
      [Environment.production, .sandbox].filter { api.isCircuitOpen($0) }.map { "\(app) (\($0.rawValue))" }
    }
  }

  private func showCircuits() {
    for (app, api) in apis.withLock({ $0 }) {
      for environment in [Environment.production, .sandbox] {
        circuits[app, environment].set(api.isCircuitOpen(environment) ? 1 : 0)
      }
    }
  }
}

extension Environment: LabelValue {}
extension StoreCallReport.Outcome: LabelValue {}

/// The outcomes of verifications of signed data.
struct VerificationMetrics: Sendable {
  private let outcomes: MetricFamily<Counter, VerificationFailure.Subject, String>
  /// The counters of successes, which most requests increment.
  private let notifications: Counter
  private let transactions: Counter
  private let renewalInfos: Counter
  private let appTransactions: Counter

  init(_ registry: PrometheusRegistry) {
    outcomes = registry.counters(
      "receiptd_verifications_total", "Verifications of signed data, by outcome.", "subject", "outcome")
    notifications = outcomes[.notification, "ok"]
    transactions = outcomes[.transaction, "ok"]
    renewalInfos = outcomes[.renewalInfo, "ok"]
    appTransactions = outcomes[.appTransaction, "ok"]
  }

  @Sendable
  func record(_ subject: VerificationFailure.Subject, _ failure: VerificationFailure.Code?) {
    if let failure { return outcomes[subject, failure.rawValue].increment() }
    switch subject {
    case .notification: notifications.increment()
    case .transaction: transactions.increment()
    case .renewalInfo: renewalInfos.increment()
    case .appTransaction: appTransactions.increment()
    }
  }
}

extension VerificationFailure.Subject: LabelValue {}
