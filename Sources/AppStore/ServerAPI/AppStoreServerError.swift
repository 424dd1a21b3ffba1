import FoundationEssentials

/// Why a call of the App Store Server API gave no result.
public enum AppStoreServerError: Error, Sendable {
  /// The store said no, in its own words, also after the retries that Apple advises.
  case rejected(Rejection)
  /// 401 without JSON. The store says so for a token that it does not take, and production also for an app
  /// that was never released.
  case unauthorizedWithoutJSON
  /// Neither production nor the sandbox knows the transaction.
  case transactionNotFound
  /// There was no answer.
  case transport(any Error)
  /// There was an answer, but not one that the API gives.
  case undecodableAnswer(status: Int, detail: String)
  /// An argument that cannot be part of a request, such as a transaction id with other than digits. The
  /// text names the argument.
  case invalidArgument(String)
  /// The bearer token could not be signed.
  case tokenNotSigned(any Error)
  /// The store was not asked, because Apple's rate would have kept the call waiting longer than its patience. After
  /// this time there may be room.
  case overloaded(retryAfter: Duration)
  /// The store was not asked, because it did not answer lately. After this time it will be tried again.
  case circuitOpen(retryAfter: Duration)

  /// What the store said when it said no.
  public struct Rejection: Hashable, Sendable {
    /// The HTTP status.
    public let status: Int
    /// `errorCode`; nil if the body was not the API's JSON, as when something before the API answered.
    public let code: AppStoreErrorCode?
    /// `errorMessage`.
    public let message: String?
    /// Until when to wait. The API's `Retry-After` is a UNIX time in milliseconds, not seconds to wait.
    public let retryAfter: Date?

    /// Whether it is about the rate of requests.
    var isRateLimit: Bool { status == 429 || code == .rateLimitExceeded }

    var isRetryable: Bool { code?.isRetryable ?? (status >= 500 || status == 429) }
  }

  /// The store's code, where it gave one.
  public var code: AppStoreErrorCode? {
    if case .rejected(let rejection) = self { rejection.code } else { nil }
  }

  /// How long to leave the store alone, where that is known.
  public var retryAfter: Duration? {
    switch self {
    case .overloaded(let wait), .circuitOpen(let wait): wait
    default: nil
    }
  }

  /// Whether the same request may be answered otherwise later: where Apple's code says so, at a rate limit, at
  /// a server's failure without a code, and where there was no answer.
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
