import CoreMetrics
import Synchronization

/// The values of one combination of labels.
protocol Series: AnyObject, Sendable {
  /// The name of the Prometheus type.
  static var name: String { get }
  /// - Parameter bounds: the inclusive upper bounds of a histogram's buckets.
  init(bounds: [Double])
  /// The lines to write.
  var samples: [Sample] { get }
}

/// A line of a series: the end of its name, the label `le` and the value.
struct Sample {
  var suffix = ""
  var bound: String?
  var value: String
}

/// A counter. Integers are counted with one atomic addition.
final class CounterSeries: Series, CounterHandler, FloatingPointCounterHandler {
  static let name = "counter"
  private let whole = Atomic<UInt64>(0)
  /// The sum of the floating-point increments, as the bits of a `Double`.
  private let amount = Atomic<UInt64>(0)

  init(bounds: [Double]) {}

  /// Ignores negative increments: a counter that decreases looks like a restart.
  func increment(by count: Int64) {
    guard count > 0 else { return }
    whole.wrappingAdd(UInt64(count), ordering: .relaxed)
  }

  /// Ignores negative and non-finite increments.
  func increment(by count: Double) {
    guard count > 0, count.isFinite else { return }
    amount.update { $0 + count }
  }

  func reset() {
    whole.store(0, ordering: .relaxed)
    amount.store(0, ordering: .relaxed)
  }

  /// The sum of the integers.
  var count: UInt64 { whole.load(ordering: .relaxed) }

  var samples: [Sample] {
    let (whole, amount) = (
      whole.load(ordering: .relaxed), Double(bitPattern: amount.load(ordering: .relaxed))
    )
    return [Sample(value: amount == 0 ? "\(whole)" : (Double(whole) + amount).metricText)]
  }
}

extension Atomic where Value == UInt64 {
  /// Changes a `Double` that is stored as its bits.
  borrowing func update(_ change: (Double) -> Double) {
    var old = load(ordering: .relaxed)
    while true {
      let new = change(Double(bitPattern: old)).bitPattern
      let (exchanged, original) = weakCompareExchange(expected: old, desired: new, ordering: .relaxed)
      if exchanged { return }
      old = original
    }
  }
}

/// A gauge.
final class GaugeSeries: Series, MeterHandler {
  static let name = "gauge"
  /// The value as the bits of a `Double`.
  private let bits = Atomic<UInt64>(0)

  init(bounds: [Double]) {}

  func set(_ value: Int64) { set(Double(value)) }

  func set(_ value: Double) { bits.store(value.bitPattern, ordering: .relaxed) }

  func increment(by amount: Double) { bits.update { $0 + amount } }

  func decrement(by amount: Double) { bits.update { $0 - amount } }

  var samples: [Sample] { [Sample(value: Double(bitPattern: bits.load(ordering: .relaxed)).metricText)] }
}

/// A histogram.
///
/// It has a lock instead of atomics, because count, sum and buckets must be consistent to compute quantiles.
final class HistogramSeries: Series, RecorderHandler, TimerHandler {
  static let name = "histogram"
  private let bounds: [Double]
  /// The count of each bucket, not cumulative; the last one has no bound.
  private let state: Mutex<(counts: [UInt64], sum: Double)>

  init(bounds: [Double]) {
    self.bounds = bounds
    state = Mutex((Array(repeating: 0, count: bounds.count + 1), 0))
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

  /// The count of each bucket, not cumulative.
  var counts: [UInt64] { state.withLock { $0.counts } }

  var samples: [Sample] {
    let (counts, sum) = state.withLock { $0 }
    var total: UInt64 = 0
    let buckets = zip(counts, bounds + [.infinity]).map { count, bound in
      total += count
      return Sample(suffix: "_bucket", bound: bound.metricText, value: "\(total)")
    }
    return buckets + [
      Sample(suffix: "_sum", value: sum.metricText), Sample(suffix: "_count", value: "\(total)"),
    ]
  }
}

extension Double {
  /// A number as Go parses it; whole numbers without a fraction.
  fileprivate var metricText: String {
    if isNaN { return "NaN" }
    if isInfinite { return self < 0 ? "-Inf" : "+Inf" }
    if let whole = Int64(exactly: self), abs(whole) < 1 << 53 { return "\(whole)" }
    return "\(self)"
  }
}

extension Duration {
  /// In seconds, as metrics have them.
  package var inSeconds: Double { self / .seconds(1) }
}
