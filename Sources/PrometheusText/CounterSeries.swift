import CoreMetrics
import Synchronization

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
