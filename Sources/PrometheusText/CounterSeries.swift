import CoreMetrics
import Synchronization

/// A number that only grows. Whole things are counted by one atomic addition.
final class CounterSeries: CounterHandler, FloatingPointCounterHandler {
  private let whole = Atomic<UInt64>(0)
  /// The bits of a `Double`: what was added that is not whole.
  private let amount = Atomic<UInt64>(0)

  /// What is negative is not counted: a counter that falls looks like a restart.
  func increment(by count: Int64) {
    guard count > 0 else { return }
    whole.wrappingAdd(UInt64(count), ordering: .relaxed)
  }

  /// What is negative or no number is not counted.
  func increment(by count: Double) {
    guard count > 0, count.isFinite else { return }
    amount.update { $0 + count }
  }

  func reset() {
    whole.store(0, ordering: .relaxed)
    amount.store(0, ordering: .relaxed)
  }

  /// What was counted: whole things, and amounts.
  var value: (whole: UInt64, amount: Double) {
    (whole.load(ordering: .relaxed), Double(bitPattern: amount.load(ordering: .relaxed)))
  }
}

extension Atomic where Value == UInt64 {
  /// Changes the number whose bits these are.
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
