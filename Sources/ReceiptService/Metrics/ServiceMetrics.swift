import CoreMetrics
public import PrometheusText
import Synchronization

/// The metrics of receiptd. ``MetricCatalog`` lists their names.
public final class ServiceMetrics: Sendable {
  /// Keeps the metrics and writes them as text.
  public let registry: PrometheusRegistry
  let configuration: ConfigurationMetrics
  let verifications: VerificationMetrics
  let outcomes: OutcomeMetrics
  let publicKeys: PublicKeyMetrics
  let tokenRefusals: TokenRefusalMetrics
  let refusedAttempts: RefusedAttemptMetrics
  let ledger: LedgerMetrics
  let database: DatabaseMetrics
  let store: StoreMetrics
  let jobs: JobMetrics

  init() {
    registry = PrometheusRegistry(MetricCatalog.all + PrometheusRegistry.processDescriptions)
    registry.watchProcess()
    Meter(label: "receiptd_build_info", dimensions: [("version", BuildInfo.version)], factory: registry).set(
      1)
    configuration = ConfigurationMetrics(registry)
    verifications = VerificationMetrics(registry)
    outcomes = OutcomeMetrics(registry)
    publicKeys = PublicKeyMetrics(registry)
    tokenRefusals = TokenRefusalMetrics(registry)
    refusedAttempts = RefusedAttemptMetrics(registry)
    ledger = LedgerMetrics(registry)
    database = DatabaseMetrics(registry)
    store = StoreMetrics(registry)
    jobs = JobMetrics(registry)
  }
}

extension Duration {
  /// In seconds, as metrics have them.
  var inSeconds: Double { self / .seconds(1) }
}

/// A cache of metric handles by key. The key is a small value, so a lookup builds no string.
final class HandleTable<Key: Hashable & Sendable, Handle: Sendable>: Sendable {
  private let handles = Mutex<[Key: Handle]>([:])
  private let make: @Sendable (Key) -> Handle

  init(_ make: @escaping @Sendable (Key) -> Handle) { self.make = make }

  subscript(key: Key) -> Handle {
    handles.withLock { handles in
      if let known = handles[key] { return known }
      let made = make(key)
      handles[key] = made
      return made
    }
  }
}
