import CoreMetrics
import Postgres
import PrometheusText

/// How the pool fares.
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

  func failed(_ error: PostgresError) { errors[error.word].increment() }

  /// Shows a pool's state whenever somebody asks.
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
  /// The kind, of a closed list.
  fileprivate var word: String {
    switch kind {
    case .unavailable: "unavailable"
    case .timedOut: "timed_out"
    case .poolExhausted: "pool_exhausted"
    case .closed: "closed"
    case .outcomeUnknown: "outcome_unknown"
    case .server: isPassing ? "refused_for_now" : "refused"
    case .encoding, .decoding, .misuse: "fault"
    }
  }
}
