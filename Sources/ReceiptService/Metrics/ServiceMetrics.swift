import AppStore
import Authentication
import CoreMetrics
import Deliveries
import Foundation
import HTTP
import HTTPTypes
import Ledger
import Numbers
import PrometheusText
import Proofs
import Support
import Synchronization

/// The metrics of receiptd. ``MetricCatalog`` lists their names.
package final class ServiceMetrics: Sendable {
  /// Keeps the metrics and writes them as text.
  package let registry: PrometheusRegistry
  let configuration: ConfigurationMetrics
  let verifications: VerificationMetrics
  let outcomes: OutcomeMetrics
  let authentication: AuthenticationMetrics
  let events: EventMetrics
  let refusedAttempts: RefusedAttemptMetrics
  let ledger: LedgerMetrics
  let database: DatabaseMetrics
  let store: StoreMetrics
  let jobs: JobMetrics
  let deliveries: DeliveryMetrics

  init() {
    registry = PrometheusRegistry(MetricCatalog.all + PrometheusRegistry.processDescriptions)
    registry.watchProcess()
    Meter(label: "receiptd_build_info", dimensions: [("version", BuildInfo.version)], factory: registry).set(
      1)
    configuration = ConfigurationMetrics(registry)
    verifications = VerificationMetrics(registry)
    outcomes = OutcomeMetrics(registry)
    authentication = AuthenticationMetrics(registry)
    events = EventMetrics(registry)
    refusedAttempts = RefusedAttemptMetrics(registry)
    ledger = LedgerMetrics(registry)
    database = DatabaseMetrics(registry)
    store = StoreMetrics(registry)
    jobs = JobMetrics(registry)
    deliveries = DeliveryMetrics(registry)
  }
}

/// The configuration in use and the outcome of the last reload, so that servers with different configurations are noticed.
struct ConfigurationMetrics: Sendable {
  private let digests: HandleTable<String, Meter>
  private let loadedAt: Meter
  private let isFailing: Meter

  init(_ registry: PrometheusRegistry) {
    digests = HandleTable { digest in
      Meter(label: "receiptd_configuration_info", dimensions: [("digest", digest)], factory: registry)
    }
    loadedAt = Meter(label: "receiptd_configuration_loaded_seconds", factory: registry)
    isFailing = Meter(label: "receiptd_configuration_failing", factory: registry)
  }

  /// - Parameters:
  ///   - digest: of the configuration that was loaded.
  ///   - former: the digest of the configuration that it replaces.
  func loaded(_ digest: String, at instant: Date, insteadOf former: String?) {
    if let former { digests[former].set(0) }
    digests[digest].set(1)
    loadedAt.set(instant.timeIntervalSince1970)
    isFailing.set(0)
  }

  func failed() { isFailing.set(1) }
}

extension Service {
  /// `GET /metrics`. It makes no query, so it answers while the database is unavailable.
  func addMetricsRoute(to router: inout Router) {
    router.onImmediate(.get, "/metrics") { _ in
      Response(
        headers: [.contentType: PrometheusRegistry.contentType], body: self.metrics.registry.render())
    }
  }
}

extension ServiceMetrics {
  /// Sets the gauge of the time until which all roots are valid.
  func show(_ roots: TrustedRoots) {
    guard let end = roots.validity.map(\.until).min() else { return }
    Meter(label: "receiptd_roots_valid_until_seconds", factory: registry).set(end.timeIntervalSince1970)
  }
}

extension ServiceMetrics {
  /// Counts the lost lines of the log.
  /// - Parameter lostLines: returns the total, without waiting.
  package func watchLog(_ lostLines: @escaping @Sendable () -> Int) {
    let counter = Counter(label: "receiptd_log_lines_lost_total", factory: registry)
    let counted = Mutex(0)
    registry.beforeRendering {
      counted.withLock { counted in
        let count = lostLines()
        counter.increment(by: count - counted)
        counted = count
      }
    }
  }
}
