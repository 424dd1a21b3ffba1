import CoreMetrics
import Synchronization

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
