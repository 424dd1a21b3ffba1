/// Exponential backoff with jitter, and a count of the failures in a row.
public struct Backoff: Sendable {
  /// The longest delay after the first failure. Each further failure doubles it.
  public let base: Duration
  /// The limit of the doubling.
  public let maximum: Duration
  /// The part of a delay that is random, from 0 (none) to 1 (full jitter). Jitter keeps clients that failed together
  /// from retrying together.
  public let jitter: Double
  /// The failures since the last success.
  public private(set) var failures = 0

  /// A backoff without failures.
  public init(base: Duration, maximum: Duration, jitter: Double) {
    self.base = base
    self.maximum = maximum
    self.jitter = jitter
  }

  /// The delay after a number of failures in a row, from 1.
  ///
  /// - Parameter random: evenly distributed from 0 to 1; 1 gives the longest delay.
  public func delay(afterFailures failures: Int, random: Double) -> Duration {
    // 2^30 times the base exceeds any maximum, and more doublings could overflow.
    let doublings = min(max(failures - 1, 0), 30)
    return min(maximum, base * (1 << doublings)) * (1 - jitter + jitter * random)
  }

  /// Counts a failure.
  ///
  /// - Returns: the delay before the next attempt.
  public mutating func failed(random: Double = .random(in: 0...1)) -> Duration {
    if failures < .max { failures += 1 }
    return delay(afterFailures: failures, random: random)
  }

  /// Forgets the failures.
  public mutating func succeeded() { failures = 0 }
}
