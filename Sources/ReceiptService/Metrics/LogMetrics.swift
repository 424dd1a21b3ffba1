import CoreMetrics
import PrometheusText
import Synchronization

extension ServiceMetrics {
  /// Counts the lost lines of the log.
  /// - Parameter lostLines: returns the total, without waiting.
  public func watchLog(_ lostLines: @escaping @Sendable () -> Int) {
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
