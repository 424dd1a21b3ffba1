import Foundation

/// The error of a call of the App Store Server API.
public enum AppStoreServerError: Error, Sendable {
  /// The store refused the request, also after the retries that Apple advises.
  case rejected(Rejection)
  /// 401 without JSON. The store answers so for an invalid token, and production also for an app that was never
  /// released.
  case unauthorizedWithoutJSON
  /// Neither production nor the sandbox knows the transaction.
  case transactionNotFound
  /// No response arrived.
  case transport(any Error)
  /// The response is not one of the API.
  case undecodableAnswer(status: Int, detail: String)
  /// An argument cannot be part of a request, such as a transaction id with other characters than digits. The text
  /// names the argument.
  case invalidArgument(String)
  /// The bearer token could not be signed.
  case tokenNotSigned(any Error)
  /// No request was sent, because the call would have waited for Apple's rate longer than its timeout. A permit may be
  /// free after this time.
  case overloaded(retryAfter: Duration)
  /// No request was sent, because the circuit is open. The next probe follows after this time.
  case circuitOpen(retryAfter: Duration)

  /// The store's refusal.
  public struct Rejection: Hashable, Sendable {
    /// The HTTP status.
    public let status: Int
    /// `errorCode`; nil if the body is not the API's JSON, for instance the page of a proxy.
    public let code: AppStoreErrorCode?
    /// `errorMessage`.
    public let message: String?
    /// The end of the wait. The API's `Retry-After` is a UNIX time in milliseconds, not a number of seconds.
    public let retryAfter: Date?

    /// Whether the rate limit was exceeded.
    var isRateLimit: Bool { status == 429 || code == .rateLimitExceeded }

    var isRetryable: Bool { code?.isRetryable ?? (status >= 500 || status == 429) }
  }

  /// The store's error code, if it gave one.
  public var code: AppStoreErrorCode? {
    if case .rejected(let rejection) = self { rejection.code } else { nil }
  }

  /// The time after which to call again, if it is known.
  public var retryAfter: Duration? {
    switch self {
    case .overloaded(let wait), .circuitOpen(let wait): wait
    default: nil
    }
  }

  /// Whether the same call may succeed later: Apple's code says so, the rate limit was exceeded, the server failed
  /// without a code, or no response arrived.
  public var isRetryable: Bool {
    switch self {
    case .rejected(let rejection): rejection.isRetryable
    case .transport, .overloaded, .circuitOpen: true
    case .undecodableAnswer, .unauthorizedWithoutJSON, .transactionNotFound, .invalidArgument,
      .tokenNotSigned:
      false
    }
  }
}
