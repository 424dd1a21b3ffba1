import Foundation

/// Exponential backoff with full jitter for one call.
///
/// A call is repeated only where Apple says that it may succeed: for the codes with 'retryable' in their names, for
/// 5000000 ('try again later'), and after a rate limit whose `Retry-After` has passed. After 5000000 and 5000001 the
/// call may have been carried out, so ``Endpoint/isRepeatable`` excludes an endpoint. A call without a response may
/// have been carried out, and Apple does not document such retries. None is made, not even for reads, because retries
/// make a slow store slower.
struct RetrySchedule {
  /// The largest number of retries of one call; the timeout usually ends before.
  static let maximumRetries = 10

  private var retries = 0

  /// The delay before the next try; nil if the call is not repeated.
  ///
  /// - Parameters:
  ///   - date: the calendar time, for `Retry-After`.
  ///   - jitter: from 0 to 1. The whole delay is random, which spreads the retries of many clients best.
  mutating func pause(after error: AppStoreServerError, at date: Date, jitter: Double) -> Duration? {
    guard retries < Self.maximumRetries, case .rejected(let rejection) = error else { return nil }
    let longest: Duration
    switch rejection.code {
    case .accountNotFoundRetryable, .appNotFoundRetryable, .originalTransactionIdNotFoundRetryable,
      .generalInternalRetryable:
      longest = min(.milliseconds(250) * (1 << retries), .seconds(8))
    case .generalInternal:
      longest = min(.seconds(1) * (1 << retries), .seconds(32))
    default:
      // The rate limit itself delays the call until the store accepts it.
      guard rejection.isRateLimit, RateLimitPause(rejection, at: date).isTold else { return nil }
      longest = .zero
    }
    retries += 1
    return longest * jitter
  }
}

/// The pause of an endpoint after 429.
struct RateLimitPause: Equatable {
  /// The largest distance of a `Retry-After` that is obeyed.
  static let longest: TimeInterval = 3600

  let length: Duration
  /// Whether the store gave the length in a plausible `Retry-After`.
  let isTold: Bool

  /// `Retry-After` is a UNIX time in milliseconds. A value that has passed, is missing, or lies implausibly far ahead
  /// (seconds or microseconds instead) gives a short default: it must not stop all calls for years.
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
