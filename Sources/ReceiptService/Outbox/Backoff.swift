import Foundation

/// Growing, jittered delays: two seconds, doubling, at most an hour.
enum Backoff {
  /// - Parameters:
  ///   - attempts: how often it was tried before this time.
  ///   - jitter: from 0 to 1; half of the delay is certain, half is chance, so that what failed together is
  ///     not tried together.
  ///   - ceiling: the longest delay, in seconds.
  static func delay(
    afterAttempts attempts: Int, jitter: Double, atMost ceiling: TimeInterval = 3_600
  ) -> TimeInterval {
    let longest = min(2 * pow(2, Double(min(max(attempts, 0), 30))), ceiling)
    return longest * (0.5 + 0.5 * jitter)
  }
}
