import Platform
import Testing

@testable import Requests

@Suite struct RateLimiterTests {
  private static let second: UInt64 = 1_000_000_000
  /// Ten requests a second with a burst of three.
  private static let rate = RequestRate(oneEach: .milliseconds(100), burst: 3)

  @Test func `the rate limiter admits a burst, then one request per interval`() {
    let table = RateLimiter<UInt64>(rate: Self.rate, capacity: 64)
    let start = 5 * Self.second
    for _ in 0..<3 { #expect(table.take(1, at: start) == nil) }
    #expect(table.take(1, at: start) == .milliseconds(100))
    #expect(table.take(1, at: start + 60_000_000) == .milliseconds(40))
    #expect(table.take(1, at: start + 100_000_000) == nil)
    #expect(table.take(1, at: start + 100_000_000) == .milliseconds(100))
    // Another key has a bucket of its own.
    #expect(table.take(2, at: start + 100_000_000) == nil)
    // After a pause the whole burst is available, and no more.
    for _ in 0..<3 { #expect(table.take(1, at: start + 60 * Self.second) == nil) }
    #expect(table.take(1, at: start + 60 * Self.second) != nil)
  }

  @Test func `a refused request takes nothing from its bucket, and the returned wait is sufficient`() throws {
    let table = RateLimiter<UInt64>(rate: Self.rate, capacity: 64)
    for _ in 0..<3 { #expect(table.take(1, at: Self.second) == nil) }
    for _ in 0..<1_000 { #expect(table.take(1, at: Self.second) != nil) }
    let wait = try #require(table.wait(1, at: Self.second))
    #expect(wait == .milliseconds(100))
    #expect(table.take(1, at: Self.second + 99_999_999) == .nanoseconds(1))
    #expect(table.take(1, at: Self.second + 100_000_000) == nil)
  }

  @Test func `a request may cost more than the burst, and its key waits until the bucket has made up for it`()
  {
    let table = RateLimiter<UInt64>(rate: Self.rate, capacity: 64)
    #expect(table.take(1, cost: 200, at: Self.second) == nil)
    // 200 requests at ten a second, less the burst; one more needs another interval.
    #expect(table.take(1, at: Self.second) == .milliseconds(19_800))
    #expect(table.take(1, cost: 200, at: Self.second) == .milliseconds(19_800))
    #expect(table.take(1, at: Self.second + 19_800_000_000) == nil)
    #expect(table.take(2, at: Self.second) == nil)
  }

  @Test func `a /48 of IPv6 has sixteen times the rate of an address, however many networks it has`() throws {
    let limiter = AddressLimiter(rate: Self.rate)
    func address(_ network: Int, in site: Int = 1) throws -> IPAddress {
      try #require(IPAddress("2001:db8:\(site):\(String(network, radix: 16))::1"))
    }
    let admitted = try (0..<5_000).count { try limiter.take(address($0), at: Self.second) == nil }
    #expect(admitted == 3 * AddressLimiter.multiple)
    #expect(try limiter.wait(address(60_000), at: Self.second) != nil)
    #expect(try limiter.take(address(60_000), at: Self.second + 6_250_000) == nil)
    // A refused request takes nothing from the subscriber's bucket.
    for _ in 0..<3 { #expect(try limiter.take(address(4_999), at: 60 * Self.second) == nil) }
    #expect(try limiter.take(address(4_999), at: 60 * Self.second) != nil)
    #expect(try limiter.take(address(1, in: 2), at: Self.second) == nil)
    // IPv4 has no such network.
    for host in 0..<200 {
      #expect(limiter.take(try #require(IPAddress("203.0.113.\(host)")), at: Self.second) == nil)
    }
  }

  @Test func `the rate limiter's wait takes nothing from the bucket`() {
    let table = RateLimiter<UInt64>(rate: Self.rate, capacity: 64)
    for _ in 0..<100 { #expect(table.wait(1, at: Self.second) == nil) }
    for _ in 0..<3 { #expect(table.take(1, at: Self.second) == nil) }
    #expect(table.wait(1, at: Self.second) == .milliseconds(100))
  }

  @Test func `no key of the rate limiter gets more than the burst and the rate`() {
    var generator = SplitMix64(state: 11)
    for _ in 0..<50 {
      let table = RateLimiter<UInt64>(rate: Self.rate, capacity: 64)
      var now = Self.second
      var taken: [UInt64] = []
      for _ in 0..<400 {
        now += UInt64.random(in: 0...80_000_000, using: &generator)
        if table.take(9, at: now) == nil { taken.append(now) }
      }
      for (index, first) in taken.enumerated() {
        for (offset, last) in taken[index...].enumerated() {
          #expect(UInt64(offset + 1) <= 3 + (last - first) / 100_000_000)
        }
      }
      // A key that asks continuously gets the whole rate.
      #expect(UInt64(taken.count) + 1 >= (now - taken[0]) / 100_000_000)
    }
  }

  @Test func `a rate limiter below its capacity agrees with an unbounded model`() {
    var generator = SplitMix64(state: 5)
    let table = RateLimiter<UInt64>(rate: Self.rate, capacity: 65_536)
    var model: [UInt64: UInt64] = [:]
    var now: UInt64 = 1
    let keys = (0..<500).map { _ in UInt64.random(in: .min ... .max, using: &generator) }
    for _ in 0..<20_000 {
      now += UInt64.random(in: 0...2_000_000, using: &generator)
      let key = keys[Int.random(in: 0..<keys.count, using: &generator)]
      let fullAt = max(now, model[key] ?? 0)
      let isAllowed = fullAt - now <= 200_000_000
      if isAllowed { model[key] = fullAt + 100_000_000 }
      #expect((table.take(key, at: now) == nil) == isAllowed)
    }
  }

  @Test func `a flood of other keys does not refill an empty rate limit bucket`() {
    var generator = SplitMix64(state: 3)
    let table = RateLimiter<UInt64>(rate: Self.rate, capacity: 1_024)
    for _ in 0..<3 { _ = table.take(77, at: Self.second) }
    // A hundred times as many keys as the capacity, with one request each.
    for _ in 0..<102_400 {
      _ = table.take(UInt64.random(in: .min ... .max, using: &generator), at: Self.second)
    }
    #expect(table.take(77, at: Self.second) == .milliseconds(100))
  }

  @Test func `a full rate limiter still admits a new key`() {
    var generator = SplitMix64(state: 4)
    let table = RateLimiter<UInt64>(rate: Self.rate, capacity: 64)
    for _ in 0..<640 {
      let key = UInt64.random(in: .min ... .max, using: &generator)
      for _ in 0..<3 { _ = table.take(key, at: Self.second) }
    }
    #expect(table.take(12_345, at: Self.second) == nil)
  }

  @Test func `concurrent tasks share the buckets of a rate limiter`() async {
    let table = RateLimiter<String>(rate: RequestRate(oneEach: .seconds(1), burst: 50), capacity: 1_024)
    let admitted = await withTaskGroup(of: Int.self) { group in
      for _ in 0..<8 {
        group.addTask { (0..<100).count { _ in table.take("one", at: Self.second) == nil } }
      }
      return await group.reduce(0, +)
    }
    #expect(admitted == 50)
    #expect(table.wait("one", at: Self.second) == .seconds(1))
    #expect(table.wait("another", at: Self.second) == nil)
  }
}
