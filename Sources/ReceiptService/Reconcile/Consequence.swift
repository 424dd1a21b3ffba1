import AppStore
import HTTP
import Postgres

extension AppStoreServerError {
  /// What an answer to a question about one purchase means for the questions about the others.
  enum Consequence {
    /// It would be the same for every purchase: the App Store is out of reach, or takes none of our questions.
    case stop
    /// It is about this purchase, and may be another one later.
    case askAgain
    /// It is about this purchase, and will stay so: there is nothing to learn.
    case nothingToLearn
  }

  /// By Apple's codes, of which the first three digits are the status.
  var consequence: Consequence {
    switch self {
    case .rejected(let rejection):
      // Without a code it is not the API that answered; about the app it is the same for all its purchases.
      guard let code = rejection.code, rejection.status < 500, ![401, 429].contains(rejection.status),
        ![.rateLimitExceeded, .appNotFound, .appNotFoundRetryable].contains(code)
      else { return .stop }
      let isPermanent = [400, 404].contains(code.rawValue / 10_000) && !code.isRetryable
      return isPermanent ? .nothingToLearn : .askAgain
    case .transactionNotFound, .invalidArgument: return .nothingToLearn
    case .undecodableAnswer(let status, _): return status < 400 ? .askAgain : .stop
    case .unauthorizedWithoutJSON, .transport, .tokenNotSigned, .overloaded, .circuitOpen: return .stop
    }
  }
}

/// Whether an error is the state of the database, and not the fault of what was to be written.
func isDatabaseUnavailable(_ error: any Error) -> Bool {
  if let error = error as? PostgresError { return error.isAnsweredUnavailable }
  return (error as? Problem)?.code == ServiceError.databaseUnavailable.code
}
