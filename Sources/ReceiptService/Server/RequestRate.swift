/// A rate of requests: a burst, then one request in each interval.
struct RequestRate: Sendable, Hashable {
  /// The nanoseconds after which one more request is allowed.
  let interval: UInt64
  /// The number of requests allowed at once after a pause.
  let burst: Int

  /// - Parameters:
  ///   - interval: the time after which one more request is allowed; at least a nanosecond.
  ///   - burst: the number of requests allowed at once; at least 1.
  init(oneEach interval: Duration, burst: Int) {
    let (seconds, attoseconds) = interval.components
    self.interval = UInt64(clamping: max(1, seconds * 1_000_000_000 + attoseconds / 1_000_000_000))
    self.burst = max(1, burst)
  }

  /// This many requests a second, with a burst of two seconds, because an app sends several requests when it starts.
  init(perSecond count: Int) {
    self.init(oneEach: .seconds(1) / max(1, count), burst: 2 * count)
  }

  /// This many times the rate and the burst.
  func times(_ count: Int) -> RequestRate {
    RequestRate(oneEach: .nanoseconds(interval) / max(1, count), burst: burst * count)
  }

  /// The most nanoseconds by which a bucket's instant may be in the future while the bucket has a request.
  var tolerance: UInt64 { interval * UInt64(burst - 1) }
}
