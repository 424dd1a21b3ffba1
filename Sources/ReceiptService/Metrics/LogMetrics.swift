import CoreMetrics
import PrometheusText
import Synchronization

extension ServiceMetrics {
  /// Shows how many lines of the log were lost.
  /// - Parameter lostLines: how many there were in all. It must not wait.
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
