import Synchronization

/// A ``RateTable`` that all event loops use: in parts with a lock each, so that they seldom meet at one.
final class SharedRateTable: Sendable {
  private final class Part: Sendable {
    let table: Mutex<RateTable>
    init(_ table: sending RateTable) { self.table = Mutex(table) }
  }

  private static let partCount = 8
  private let parts: [Part]

  /// - Parameter capacity: how many keys are remembered; 16 bytes each.
  init(rate: TrafficRate, capacity: Int = 65_536) {
    parts = (0..<Self.partCount).map { _ in
      Part(RateTable(rate: rate, capacity: capacity / Self.partCount))
    }
  }

  /// Takes one from the bucket of `subject`; nil if there was one, else how long there will be none.
  func take(_ subject: some Hashable, at now: UInt64) -> Duration? {
    let key = key(of: subject)
    return part(of: key).table.withLock { $0.take(key, at: now) }.map { .nanoseconds($0) }
  }

  /// How long the bucket of `subject` will be empty; nil if it is not.
  func wait(_ subject: some Hashable, at now: UInt64) -> Duration? {
    let key = key(of: subject)
    return part(of: key).table.withLock { $0.wait(key, at: now) }.map { .nanoseconds($0) }
  }

  /// The standard library's hashes are seeded anew in each process, so nobody can choose them.
  private func key(of subject: some Hashable) -> UInt64 {
    UInt64(truncatingIfNeeded: subject.hashValue)
  }

  /// By other bits than those that choose the set within the part.
  private func part(of key: UInt64) -> Part { parts[Int(key >> 61)] }
}
