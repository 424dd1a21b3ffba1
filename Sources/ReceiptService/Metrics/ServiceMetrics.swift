import CoreMetrics
public import PrometheusText
import Synchronization

/// What receiptd measures of itself. Each part belongs to whoever counts into it; ``MetricCatalog`` lists the names.
public final class ServiceMetrics: Sendable {
  /// Where everything is kept, and what writes it.
  public let registry: PrometheusRegistry
  let verifications: VerificationMetrics
  let outcomes: OutcomeMetrics
  let publicKeys: PublicKeyMetrics
  let ledger: LedgerMetrics
  let database: DatabaseMetrics
  let store: StoreMetrics
  let jobs: JobMetrics

  init() {
    registry = PrometheusRegistry(MetricCatalog.all + PrometheusRegistry.processDescriptions)
    registry.watchProcess()
    verifications = VerificationMetrics(registry)
    outcomes = OutcomeMetrics(registry)
    publicKeys = PublicKeyMetrics(registry)
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

/// Handles that are made when they are first needed and kept: what is looked up is a small value, never a text that has
/// to be put together first.
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
