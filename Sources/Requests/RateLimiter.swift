import Platform
import Synchronization

/// A rate limiter with one bucket for each key, in a table of bounded size that all event loops share.
///
/// A bucket is one instant, the time at which it is full again (the generic cell rate algorithm, ITU-T I.371). A key
/// whose instant has passed has a full bucket and needs no entry.
///
/// A table at its capacity drops its full buckets, and if that is not enough the fuller half of the others. A flood of
/// invented keys refills other buckets a little, but never an empty bucket before a fuller one.
package final class RateLimiter<Key: Hashable & Sendable>: Sendable {
  private let rate: RequestRate
  private let capacity: Int
  /// The time at which each bucket is full again, in nanoseconds.
  private let fullAt = Mutex<[Key: UInt64]>([:])

  /// - Parameter capacity: the number of keys to remember.
  package init(rate: RequestRate, capacity: Int = 65_536) {
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
  package func take(_ key: Key, cost: Int = 1, at now: UInt64) -> Duration? {
    fullAt.withLock { fullAt in
      let full = max(now, fullAt[key] ?? 0)
      if let wait = wait(until: full, at: now) { return wait }
      if fullAt[key] == nil, fullAt.count >= capacity { shrink(in: &fullAt, at: now) }
      fullAt[key] = full + rate.interval * UInt64(cost)
      return nil
    }
  }

  /// Puts a request back into the key's bucket, which ``take(_:cost:at:)`` took.
  package func giveBack(_ key: Key) {
    fullAt.withLock { fullAt in
      if let full = fullAt[key] { fullAt[key] = full - min(full, rate.interval) }
    }
  }

  /// The time until the key's bucket has a request; `nil` if it has one. It takes none.
  package func wait(_ key: Key, at now: UInt64) -> Duration? {
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

/// A rate of requests: a burst, then one request in each interval.
package struct RequestRate: Sendable, Hashable {
  /// The nanoseconds after which one more request is allowed.
  package let interval: UInt64
  /// The number of requests allowed at once after a pause.
  package let burst: Int

  /// - Parameters:
  ///   - interval: the time after which one more request is allowed; at least a nanosecond.
  ///   - burst: the number of requests allowed at once; at least 1.
  package init(oneEach interval: Duration, burst: Int) {
    let (seconds, attoseconds) = interval.components
    self.interval = UInt64(clamping: max(1, seconds * 1_000_000_000 + attoseconds / 1_000_000_000))
    self.burst = max(1, burst)
  }

  /// This many requests a second, with a burst of two seconds, because an app sends several requests when it starts.
  package init(perSecond count: Int) {
    self.init(oneEach: .seconds(1) / max(1, count), burst: 2 * count)
  }

  /// This many times the rate and the burst.
  package func times(_ count: Int) -> RequestRate {
    RequestRate(oneEach: .nanoseconds(interval) / max(1, count), burst: burst * count)
  }

  /// The most nanoseconds by which a bucket's instant may be in the future while the bucket has a request.
  package var tolerance: UInt64 { interval * UInt64(burst - 1) }
}

/// A rate limiter for the addresses of clients: a bucket for each subscriber, and a larger one for each IPv6 network.
///
/// A site gets a /48 (RFC 6177), which has 65,536 networks of 64 bits. Without a bucket for the /48 it would have that
/// many times the rate of a subscriber. A mobile network gives each of its phones a /64, so a /48 has ``multiple``
/// times the rate.
struct AddressLimiter: Sendable {
  /// The number of times that a /48 has the rate of an address.
  static let multiple = 16

  private let subscribers: RateLimiter<UInt128>
  private let networks: RateLimiter<UInt128>

  /// - Parameters:
  ///   - rate: of a subscriber.
  ///   - capacity: the number of subscribers, and of networks, to remember.
  init(rate: RequestRate, capacity: Int = 65_536) {
    subscribers = RateLimiter(rate: rate, capacity: capacity)
    networks = RateLimiter(rate: rate.times(Self.multiple), capacity: capacity)
  }

  /// Takes a request from the address's buckets; see ``RateLimiter/take(_:cost:at:)``. A refused request takes from
  /// neither.
  func take(_ address: IPAddress, cost: Int = 1, at now: UInt64) -> Duration? {
    let network = address.networkBits
    if let network, let wait = networks.wait(network, at: now) { return wait }
    if let wait = subscribers.take(address.subscriberBits, cost: cost, at: now) { return wait }
    if let network { _ = networks.take(network, cost: cost, at: now) }
    return nil
  }

  /// Puts a request back into both buckets.
  func giveBack(_ address: IPAddress) {
    subscribers.giveBack(address.subscriberBits)
    if let network = address.networkBits { networks.giveBack(network) }
  }

  /// The time until both buckets have a request; `nil` if they have one. It takes none.
  func wait(_ address: IPAddress, at now: UInt64) -> Duration? {
    let waits = [
      subscribers.wait(address.subscriberBits, at: now),
      address.networkBits.flatMap { networks.wait($0, at: now) },
    ]
    return waits.compactMap(\.self).max()
  }
}
