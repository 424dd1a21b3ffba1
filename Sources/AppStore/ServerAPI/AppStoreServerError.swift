import FoundationEssentials

/// Why a call of the App Store Server API gave no result.
public enum AppStoreServerError: Error, Sendable {
  /// The store said no, in its own words.
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
  }

  /// The store's code, where it gave one.
  public var code: AppStoreErrorCode? {
    if case .rejected(let rejection) = self { rejection.code } else { nil }
  }

  /// Whether the same request may be answered otherwise later: where Apple's code says so, at a rate limit, at
  /// a server's failure without a code, and where there was no answer.
  public var isRetryable: Bool {
    switch self {
    case .rejected(let rejection):
      rejection.code?.isRetryable ?? (rejection.status >= 500 || rejection.status == 429)
    case .transport: true
    case .undecodableAnswer, .unauthorizedWithoutJSON, .transactionNotFound, .invalidArgument,
      .tokenNotSigned:
      false
    }
  }
}
