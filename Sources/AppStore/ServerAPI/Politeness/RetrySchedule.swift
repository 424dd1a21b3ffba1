import FoundationEssentials

/// Whether and when one call is tried again.
///
/// Only where Apple says that it may succeed: the codes that have it in their names, 5000000 ('try again later'), and
/// a rate limit once its `Retry-After` has passed. That holds for every endpoint, because a call that was refused so
/// was not carried out. Without an answer nobody knows whether it was, and Apple says nothing of such retries: there
/// are none, not even of what only reads, since a client that asks again when the store is slow makes it slower.
struct RetrySchedule {
  /// The most retries of one call; the caller's patience usually ends before.
  static let most = 10

  private var retries = 0

  /// How long to wait before the next try; nil if there shall be none.
  ///
  /// - Parameters:
  ///   - date: the calendar's time, for `Retry-After`.
  ///   - jitter: from 0 to 1. The whole delay is chance, which spreads the retries of many best.
  mutating func pause(after error: AppStoreServerError, at date: Date, jitter: Double) -> Duration? {
    guard retries < Self.most, case .rejected(let rejection) = error else { return nil }
    let longest: Duration
    switch rejection.code {
    case .accountNotFoundRetryable, .appNotFoundRetryable, .originalTransactionIdNotFoundRetryable,
      .generalInternalRetryable:
      longest = min(.milliseconds(250) * (1 << retries), .seconds(8))
    case .generalInternal:
      longest = min(.seconds(1) * (1 << retries), .seconds(32))
    default:
      // The rate limit itself holds the call back until the store wants it.
      guard rejection.isRateLimit, RateLimitPause(rejection, at: date).isTold else { return nil }
      longest = .zero
    }
    retries += 1
    return longest * jitter
  }
}

/// How long an endpoint is left alone after 429.
struct RateLimitPause: Equatable {
  /// The farthest `Retry-After` that is believed.
  static let longest: TimeInterval = 3600

  /// How long.
  let length: Duration
  /// Whether the store said so, in a way that can be followed.
  let isTold: Bool

  /// `Retry-After` is a UNIX time in milliseconds. One that has passed, is missing, or is farther off than any rate
  /// limit lasts (somebody's seconds or microseconds) must neither be ignored nor stop all calls for years.
  init(_ rejection: AppStoreServerError.Rejection, at date: Date) {
    let seconds = rejection.retryAfter?.timeIntervalSince(date) ?? 0
    isTold = seconds > 0 && seconds <= Self.longest
    if isTold {
      length = .milliseconds(Int64((seconds * 1000).rounded(.up)))
    } else {
      length = seconds > 0 ? .seconds(60) : .seconds(1)
    }
  }
}
