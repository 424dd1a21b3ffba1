import AppStore
import HTTP
import Postgres
import Requests

extension AppStoreServerError {
  /// What a job does after a failed request about one purchase.
  enum RetryDecision {
    /// Stop: requests about other purchases would fail too, because the App Store is unreachable or refuses all requests.
    case stop
    /// Continue with the next purchase and retry this one in the next run.
    case retryLater
    /// Continue with the next purchase: the App Store will never answer for this one.
    case skip
  }

  /// The decision by Apple's error codes. The first three digits of a code are the HTTP status.
  var retryDecision: RetryDecision {
    switch self {
    case .rejected(let rejection):
      // A response without a code is not from the API. An error about the app concerns all its purchases.
      guard let code = rejection.code, rejection.status < 500, ![401, 429].contains(rejection.status),
        ![.rateLimitExceeded, .appNotFound, .appNotFoundRetryable].contains(code)
      else { return .stop }
      let isPermanent = [400, 404].contains(code.rawValue / 10_000) && !code.isRetryable
      return isPermanent ? .skip : .retryLater
    case .transactionNotFound, .invalidArgument: return .skip
    case .undecodableAnswer(let status, _): return status < 400 ? .retryLater : .stop
    case .unauthorizedWithoutJSON, .transport, .tokenNotSigned, .overloaded, .circuitOpen: return .stop
    }
  }

  /// Whether the App Store said that it does not know the transaction. Other permanent errors say nothing about it.
  var meansUnknown: Bool {
    switch self {
    case .transactionNotFound: true
    case .rejected(let rejection): rejection.code?.meansUnknown == true
    default: false
    }
  }
}

/// Whether an error comes from an unavailable database and not from the row that was to be written.
func isDatabaseUnavailable(_ error: any Error) -> Bool {
  if let error = error as? PostgresError { return error.isUnavailable || error.isSchemaIncomplete }
  return (error as? Problem)?.code == ServiceError.databaseUnavailable.code
}
