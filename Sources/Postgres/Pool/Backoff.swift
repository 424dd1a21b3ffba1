/// How long to leave an unreachable server alone: exponential growth with full jitter, so that
/// many pools which lost the same server do not come back in step.
struct Backoff: Sendable {
  var base: Duration = .milliseconds(100)
  var cap: Duration = .seconds(1)

  /// - Parameters:
  ///   - attempts: how many attempts have failed in a row, from 1.
  ///   - jitter: from 0 to 1, evenly spread.
  func pause(attempts: Int, jitter: Double) -> Duration {
    let doublings = min(max(attempts - 1, 0), 20)
    return min(cap, base * (1 << doublings)) * jitter
  }
}
