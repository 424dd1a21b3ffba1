import CoreMetrics
import Postgres
import PrometheusText

/// The metrics of the connection pool.
struct DatabaseMetrics: PostgresPoolObserver {
  private let acquire: Recorder
  private let errors: HandleTable<String, Counter>
  private let idle: Meter
  private let inUse: Meter
  private let maximum: Meter
  private let waiting: Meter
  private let registry: PrometheusRegistry

  init(_ registry: PrometheusRegistry) {
    self.registry = registry
    acquire = Recorder(label: "receiptd_database_acquire_seconds", factory: registry)
    errors = HandleTable { kind in
      Counter(label: "receiptd_database_errors_total", dimensions: [("kind", kind)], factory: registry)
    }
    func connections(_ state: String) -> Meter {
      Meter(label: "receiptd_database_connections", dimensions: [("state", state)], factory: registry)
    }
    idle = connections("idle")
    inUse = connections("in_use")
    maximum = Meter(label: "receiptd_database_connections_max", factory: registry)
    waiting = Meter(label: "receiptd_database_waiting", factory: registry)
  }

  func acquired(after wait: Duration) { acquire.record(wait.inSeconds) }

  func failed(_ error: PostgresError) { errors[error.label].increment() }

  /// Updates the gauges from a pool's state at each scrape.
  func watch(_ pool: PostgresPool) {
    registry.beforeRendering { [weak pool, idle, inUse, maximum, waiting] in
      guard let pool else { return }
      let status = pool.status
      idle.set(status.idle)
      inUse.set(status.inUse)
      maximum.set(status.maximum)
      waiting.set(status.waiting)
    }
  }
}

extension PostgresError {
  /// The value of the label `kind`, from a closed list.
  fileprivate var label: String {
    switch kind {
    case .unavailable: "unavailable"
    case .timedOut: "timed_out"
    case .poolExhausted: "pool_exhausted"
    case .closed: "closed"
    case .outcomeUnknown: "outcome_unknown"
    case .server: isTransient ? "refused_for_now" : "refused"
    case .encoding, .decoding, .misuse: "fault"
    }
  }
}
