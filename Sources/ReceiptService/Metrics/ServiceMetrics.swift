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
import Work

/// The metrics of receiptd, each declared where it is counted.
///
/// Every label has a bounded set of values: route patterns, configured apps, and lists in the code.
package final class ServiceMetrics: Sendable {
  /// Keeps the metrics and writes them as text.
  package let registry: PrometheusRegistry
  let requests: RequestFamilies
  let configuration: ConfigurationMetrics
  let verifications: VerificationMetrics
  let outcomes: OutcomeMetrics
  let authentication: AuthenticationMetrics
  let events: EventMetrics
  let refusedAttempts: RefusedAttemptMetrics
  let ledger: LedgerMetrics
  let database: DatabaseMetrics
  let databaseGauges: DatabaseGauges.Meters
  let businessGauges: BusinessGauges.Meters
  let store: StoreMetrics
  let jobs: JobMetrics
  let deliveries: DeliveryMetrics
  let work: WorkMetrics
  private let rootsValidUntil: Meter
  private let lostLogLines: Counter

  init() {
    registry = PrometheusRegistry()
    registry.watchProcess()
    let build: MetricFamily<Meter, String, String> = registry.gauges(
      "receiptd_build_info", "Always 1; the labels have the version and the commit.", "version", "commit")
    build[BuildInfo.current.version, BuildInfo.current.commit].set(1)
    requests = RequestFamilies(registry)
    configuration = ConfigurationMetrics(registry)
    verifications = VerificationMetrics(registry)
    outcomes = OutcomeMetrics(registry)
    authentication = AuthenticationMetrics(registry)
    events = EventMetrics(registry)
    refusedAttempts = RefusedAttemptMetrics(registry)
    ledger = LedgerMetrics(registry)
    database = DatabaseMetrics(registry)
    databaseGauges = DatabaseGauges.Meters(registry)
    businessGauges = BusinessGauges.Meters(registry)
    store = StoreMetrics(registry)
    jobs = JobMetrics(registry)
    deliveries = DeliveryMetrics(registry)
    work = WorkMetrics(registry)
    rootsValidUntil = registry.gauge(
      "receiptd_roots_valid_until_seconds",
      "End of the validity of the first trusted root to expire, in seconds since 1970.")
    lostLogLines = registry.counter(
      "receiptd_log_lines_lost_total", "Log lines that were dropped because the reader was too slow.")
  }

  /// Sets the gauge of the time until which all roots are valid.
  func show(_ roots: TrustedRoots) {
    guard let end = roots.validity.map(\.until).min() else { return }
    rootsValidUntil.set(end.timeIntervalSince1970)
  }

  /// Counts the lost lines of the log.
  /// - Parameter lostLines: returns the total, without waiting.
  package func watchLog(_ lostLines: @escaping @Sendable () -> Int) {
    let counted = Mutex(0)
    registry.beforeRendering { [lostLogLines] in
      counted.withLock { counted in
        let count = lostLines()
        lostLogLines.increment(by: count - counted)
        counted = count
      }
    }
  }
}

/// The configuration in use and the outcome of the last reload, so that servers with different configurations are
/// noticed.
struct ConfigurationMetrics: Sendable {
  private let digests: MetricFamily<Meter, String>
  private let loadedAt: Meter
  private let isFailing: Meter

  init(_ registry: PrometheusRegistry) {
    digests = registry.gauges(
      "receiptd_configuration_info", "1 for the digest of the configuration in use.", "digest")
    loadedAt = registry.gauge(
      "receiptd_configuration_loaded_seconds", "When the configuration in use was read, as UNIX time.")
    isFailing = registry.gauge(
      "receiptd_configuration_failing", "1 if the last reload of the configuration failed.")
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
