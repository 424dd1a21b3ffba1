import AppStore

extension AppStoreServerError {
  /// Whether the App Store may have carried out a call that changes something, though no answer says so.
  ///
  /// A rejection with a status below 500 was not carried out. An internal error may follow the change, and a proxy may lose the
  /// answer.
  var mayBeCarriedOut: Bool {
    switch self {
    case .rejected(let rejection): rejection.status >= 500
    case .transport, .undecodableAnswer: true
    case .unauthorizedWithoutJSON, .transactionNotFound, .invalidArgument, .tokenNotSigned, .overloaded,
      .circuitOpen:
      false
    }
  }

  /// Whether the App Store will never do what was asked.
  var isRefusal: Bool {
    if case .rejected(let rejection) = self, rejection.status == 403, rejection.code != nil { return true }
    return retryDecision == .skip
  }

  /// The reason of a refusal for support.
  var sentence: String {
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
