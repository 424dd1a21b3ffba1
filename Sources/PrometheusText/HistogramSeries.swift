import CoreMetrics
import Synchronization

/// Observations, counted by their size.
///
/// Under a lock rather than in atomics: whoever computes a quantile relies on count, sum and buckets being of the same
/// moment. Nothing is done under it but two additions.
final class HistogramSeries: RecorderHandler, TimerHandler {
  /// Where each bucket ends; a value that is equal belongs to it.
  let bounds: [Double]
  private let state: Mutex<Snapshot>

  /// What was observed.
  struct Snapshot: Sendable {
    /// For each bucket, those that are in none before it; the last one has no bound.
    var counts: [UInt64]
    var sum = 0.0
  }

  init(bounds: [Double]) {
    self.bounds = bounds
    state = Mutex(Snapshot(counts: Array(repeating: 0, count: bounds.count + 1)))
  }

  func record(_ value: Int64) { record(Double(value)) }

  /// What is no number is not observed: it would spoil the sum for good.
  func record(_ value: Double) {
    guard !value.isNaN else { return }
    var bucket = 0
    while bucket < bounds.count, value > bounds[bucket] { bucket += 1 }
    state.withLock { state in
      state.counts[bucket] += 1
      state.sum += value
    }
  }

  func recordNanoseconds(_ duration: Int64) { record(Double(duration) / 1_000_000_000) }

  var snapshot: Snapshot { state.withLock { $0 } }
}
