import AppStore
import Curl

extension AppStoreServerError {
  /// What a job does after a failed request about one purchase.
  package enum RetryDecision {
    /// Stop: requests about other purchases would fail too, because the App Store is unreachable or refuses all
    /// requests.
    case stop
    /// Continue with the next purchase and retry this one in the next run.
    case retryLater
    /// Continue with the next purchase: the App Store will never answer for this one.
    case skip
  }

  /// The decision by Apple's error codes. The first three digits of a code are the HTTP status.
  package var retryDecision: RetryDecision {
    switch self {
    case .rejected(let rejection):
      // A response without a code is not from the API. An error about the app concerns all its purchases.
      guard let code = rejection.code, rejection.status < 500, ![401, 429].contains(rejection.status),
        ![.rateLimitExceeded, .appNotFound, .appNotFoundRetryable].contains(code)
      else { return .stop }
      let isPermanent = [400, 404].contains(code.rawValue / 10_000) && !code.isRetryable
      return isPermanent ? .skip : .retryLater
    case .transactionNotFound, .invalidArgument: return .skip
    case .answeredBySandboxAlone: return .retryLater
    case .undecodableAnswer(let status, _): return status < 400 ? .retryLater : .stop
    case .unauthorizedWithoutJSON, .transport, .tokenNotSigned, .overloaded, .circuitOpen: return .stop
    }
  }

  /// Whether the App Store said that it does not know the transaction. Other permanent errors say nothing about it.
  package var meansUnknown: Bool {
    switch self {
    case .transactionNotFound: true
    case .rejected(let rejection): rejection.code?.meansUnknown == true
    default: false
    }
  }
}

extension AppStoreServerError {
  /// A short text for a log line.
  package var reason: String {
    switch self {
    case .rejected(let rejection):
      "status \(rejection.status), code \(rejection.code.map { "\($0.rawValue)" } ?? "none")"
    case .unauthorizedWithoutJSON:
      "401: the App Store rejects the key, its id or the issuer id, or the clock is wrong"
    case .transactionNotFound: "not found"
    case .answeredBySandboxAlone: "production answers 401, and the sandbox does not know it"
    case .transport(let error): "no response: \((error as? CurlError)?.message ?? "\(error)")"
    case .undecodableAnswer(let status, let detail): "status \(status), \(detail)"
    case .invalidArgument(let name): "the argument \(name) cannot be sent"
    case .tokenNotSigned: "the bearer token could not be signed"
    case .overloaded(let wait): "the request queue is full; retry after \(wait)"
    case .circuitOpen(let wait): "the circuit breaker is open for \(wait)"
    }
  }
}

extension AppStoreServerError {
  /// Whether the App Store may have carried out a call that changes something, though no answer says so.
  ///
  /// A rejection with a status below 500 was not carried out. An internal error may follow the change, and a proxy may
  /// lose the answer.
  package var mayBeCarriedOut: Bool {
    switch self {
    case .rejected(let rejection): rejection.status >= 500
    case .transport, .undecodableAnswer: true
    case .unauthorizedWithoutJSON, .transactionNotFound, .answeredBySandboxAlone, .invalidArgument,
      .tokenNotSigned, .overloaded, .circuitOpen:
      false
    }
  }

  /// Whether the App Store will never do what was asked.
  package var isRefusal: Bool {
    if case .rejected(let rejection) = self, rejection.status == 403, rejection.code != nil { return true }
    return retryDecision == .skip
  }

  /// The reason of a refusal for support.
  package var sentence: String {
    switch code {
    case .subscriptionExtensionIneligible?:
      "the App Store extends paid, active subscriptions only: no free period, no billing retry, not after the end"
    case .subscriptionMaxExtension?: "it was extended twice within 365 days, Apple's limit"
    case .familySharedSubscriptionExtensionIneligible?: "it is a family member's"
    case .originalTransactionIdNotFound?, .transactionIdNotFound?: "the App Store does not know it"
    default: "the App Store refuses it: \(reason)"
    }
  }
}
