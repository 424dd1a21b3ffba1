import CoreMetrics
import Synchronization

/// A histogram.
///
/// It has a lock instead of atomics, because count, sum and buckets must be consistent to compute quantiles.
final class HistogramSeries: RecorderHandler, TimerHandler {
  /// The inclusive upper bounds of the buckets.
  let bounds: [Double]
  private let state: Mutex<Snapshot>

  /// The state of a histogram.
  struct Snapshot: Sendable {
    /// The count of each bucket, not cumulative; the last one has no bound.
    var counts: [UInt64]
    var sum = 0.0
  }

  init(bounds: [Double]) {
    self.bounds = bounds
    state = Mutex(Snapshot(counts: Array(repeating: 0, count: bounds.count + 1)))
  }

  func record(_ value: Int64) { record(Double(value)) }

  /// Ignores NaN, which would make the sum NaN.
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
