import CoreMetrics
import Postgres
import PrometheusText

/// The metrics of the connection pool.
struct DatabaseMetrics: PostgresPoolObserver {
  private let acquire: Recorder
  private let errors: MetricFamily<Counter, String>
  private let registry: PrometheusRegistry

  init(_ registry: PrometheusRegistry) {
    self.registry = registry
    acquire =
      registry.histograms(
        "receiptd_database_acquire_seconds", "Wait for a connection of the pool, in seconds.")[]
    errors = registry.counters("receiptd_database_errors_total", "Database errors, by kind.", "kind")
  }

  func acquired(after wait: Duration) { acquire.record(wait.inSeconds) }

  func failed(_ error: PostgresError) { errors[error.label].increment() }

  /// Updates gauges from a pool's state at each scrape.
  func watch(_ pool: PostgresPool) {
    let connections: MetricFamily<Meter, String> = registry.gauges(
      "receiptd_database_connections", "Open connections of the pool, by state.", "state")
    let maximum = registry.gauge(
      "receiptd_database_connections_max", "Maximum number of connections of the pool.")
    let waiting = registry.gauge("receiptd_database_waiting", "Tasks that wait for a connection.")
    registry.beforeRendering { [weak pool] in
      guard let pool else { return }
      let status = pool.status
      connections["idle"].set(status.idle)
      connections["in_use"].set(status.inUse)
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
