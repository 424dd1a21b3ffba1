import Platform

/// A rate limiter for the addresses of clients: a bucket for each subscriber, and a larger one for each IPv6 network.
///
/// A site gets a /48 (RFC 6177), which has 65,536 networks of 64 bits. Without a bucket for the /48 it would have that many times
/// the rate of a subscriber. A mobile network gives each of its phones a /64, so a /48 has ``multiple`` times the rate.
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

  /// Takes a request from the address's buckets; see ``RateLimiter/take(_:cost:at:)``. A refused request takes from neither.
  func take(_ address: IPAddress, cost: Int = 1, at now: UInt64) -> Duration? {
    let network = address.networkBits
    if let network, let wait = networks.wait(network, at: now) { return wait }
    if let wait = subscribers.take(address.subscriberBits, cost: cost, at: now) { return wait }
    if let network { _ = networks.take(network, cost: cost, at: now) }
    return nil
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
