/// How much is allowed: so many at once, and then one after each interval.
struct TrafficRate: Sendable, Hashable {
  /// Nanoseconds in which one more is earned.
  let interval: UInt64
  /// How much may come at once after a rest.
  let burst: Int

  /// - Parameters:
  ///   - interval: in which one more is earned; at least a nanosecond.
  ///   - burst: at least 1.
  init(oneEach interval: Duration, burst: Int) {
    let (seconds, attoseconds) = interval.components
    self.interval = UInt64(clamping: max(1, seconds * 1_000_000_000 + attoseconds / 1_000_000_000))
    self.burst = max(1, burst)
  }

  /// So many a second, and two seconds' worth at once: an app that starts asks several things in one breath.
  init(perSecond count: Int) {
    self.init(oneEach: .seconds(1) / max(1, count), burst: 2 * count)
  }

  /// How far ahead of the clock a bucket may be and still take one more.
  var tolerance: UInt64 { interval * UInt64(burst - 1) }
}
