import CoreMetrics
import Synchronization

/// A metric family: all series of one metric.
struct Family: Sendable {
  let description: MetricDescription
  /// Whether the family has a help text.
  let isDescribed: Bool
  private(set) var series: [LabelSet: Series] = [:]

  init(_ description: MetricDescription, isDescribed: Bool) {
    self.description = description
    self.isDescribed = isDescribed
  }

  /// The series with these labels, or the overflow series beyond the limit.
  mutating func series(_ labels: LabelSet, atMost maximum: Int) -> Series {
    if let known = series[labels] { return known }
    let wanted = series.count < maximum ? labels : labels.overflowing
    if let known = series[wanted] { return known }
    let made = Series(description.kind, buckets: description.buckets)
    series[wanted] = made
    return made
  }

  mutating func remove(_ handler: AnyObject) {
    series = series.filter { $0.value.handler !== handler }
  }
}

/// The values of one combination of labels.
enum Series: Sendable {
  case counter(CounterSeries)
  case gauge(GaugeSeries)
  case histogram(HistogramSeries)

  init(_ kind: MetricDescription.Kind, buckets: [Double]) {
    switch kind {
    case .counter: self = .counter(CounterSeries())
    case .gauge: self = .gauge(GaugeSeries())
    case .histogram: self = .histogram(HistogramSeries(bounds: buckets))
    }
  }

  var handler: AnyObject {
    switch self {
    case .counter(let series): series
    case .gauge(let series): series
    case .histogram(let series): series
    }
  }
}

/// A counter. Integers are counted with one atomic addition.
final class CounterSeries: CounterHandler, FloatingPointCounterHandler {
  private let whole = Atomic<UInt64>(0)
  /// The sum of the floating-point increments, as the bits of a `Double`.
  private let amount = Atomic<UInt64>(0)

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

  /// The sums of the integer and of the floating-point increments.
  var value: (whole: UInt64, amount: Double) {
    (whole.load(ordering: .relaxed), Double(bitPattern: amount.load(ordering: .relaxed)))
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
final class GaugeSeries: MeterHandler, RecorderHandler {
  /// The value as the bits of a `Double`.
  private let bits = Atomic<UInt64>(0)

  func set(_ value: Int64) { set(Double(value)) }

  func set(_ value: Double) { bits.store(value.bitPattern, ordering: .relaxed) }

  func increment(by amount: Double) { bits.update { $0 + amount } }

  func decrement(by amount: Double) { bits.update { $0 - amount } }

  func record(_ value: Int64) { set(value) }

  func record(_ value: Double) { set(value) }

  var value: Double { Double(bitPattern: bits.load(ordering: .relaxed)) }
}

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

/// A cache of metric handles by key. The key is a small value, so a lookup builds no string.
package final class HandleTable<Key: Hashable & Sendable, Handle: Sendable>: Sendable {
  private let handles = Mutex<[Key: Handle]>([:])
  private let make: @Sendable (Key) -> Handle

  package init(_ make: @escaping @Sendable (Key) -> Handle) { self.make = make }

  package subscript(key: Key) -> Handle {
    handles.withLock { handles in
      if let known = handles[key] { return known }
      let made = make(key)
      handles[key] = made
      return made
    }
  }
}

extension Duration {
  /// In seconds, as metrics have them.
  package var inSeconds: Double { self / .seconds(1) }
}
