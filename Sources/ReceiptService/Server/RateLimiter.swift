import Synchronization

/// A rate limiter with one bucket for each key, in a table of bounded size that all event loops share.
///
/// A bucket is one instant, the time at which it is full again (the generic cell rate algorithm, ITU-T I.371). A key whose
/// instant has passed has a full bucket and needs no entry.
///
/// A table at its capacity drops its full buckets, and if that is not enough the fuller half of the others. A flood of
/// invented keys refills other buckets a little, but never an empty bucket before a fuller one.
final class RateLimiter<Key: Hashable & Sendable>: Sendable {
  private let rate: RequestRate
  private let capacity: Int
  /// The time at which each bucket is full again, in nanoseconds.
  private let fullAt = Mutex<[Key: UInt64]>([:])

  /// - Parameter capacity: the number of keys to remember.
  init(rate: RequestRate, capacity: Int = 65_536) {
    self.rate = rate
    self.capacity = capacity
  }

  /// Takes a request from the key's bucket.
  ///
  /// - Parameters:
  ///   - cost: the number of requests that it counts as. A bucket with one request left admits it whatever it costs, and the
  ///     key waits until the bucket has made up for it: otherwise a request that costs more than the burst would always fail.
  ///   - now: in nanoseconds; never goes back.
  /// - Returns: `nil` if the bucket had a request left, or the time until it has one.
  func take(_ key: Key, cost: Int = 1, at now: UInt64) -> Duration? {
    fullAt.withLock { fullAt in
      let full = max(now, fullAt[key] ?? 0)
      if let wait = wait(until: full, at: now) { return wait }
      if fullAt[key] == nil, fullAt.count >= capacity { shrink(in: &fullAt, at: now) }
      fullAt[key] = full + rate.interval * UInt64(cost)
      return nil
    }
  }

  /// The time until the key's bucket has a request; `nil` if it has one. It takes none.
  func wait(_ key: Key, at now: UInt64) -> Duration? {
    fullAt.withLock { $0[key].flatMap { wait(until: max(now, $0), at: now) } }
  }

  private func wait(until full: UInt64, at now: UInt64) -> Duration? {
    full - now <= rate.tolerance ? nil : .nanoseconds(full - now - rate.tolerance)
  }

  private func shrink(in fullAt: inout [Key: UInt64], at now: UInt64) {
    fullAt = fullAt.filter { $0.value > now }
    guard fullAt.count >= capacity else { return }
    for (key, _) in fullAt.sorted(by: { $0.value < $1.value }).prefix((capacity + 1) / 2) {
      fullAt[key] = nil
    }
  }
}
