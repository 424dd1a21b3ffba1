import HTTPTypes

/// An endpoint of the App Store Server API, and how often an app may ask it.
enum Endpoint: Hashable, Sendable, CaseIterable {
  case transactionInfo, appTransactionInfo, transactionHistory, refundHistory, orderLookup
  case consumption, appAccountToken, finishTransaction
  case subscriptionStatuses, extendRenewalDate, extendRenewalDates, extensionStatus
  case notificationHistory, requestTestNotification, testNotificationStatus

  var method: HTTPRequest.Method {
    switch self {
    case .transactionInfo, .appTransactionInfo, .transactionHistory, .refundHistory, .orderLookup,
      .subscriptionStatuses, .extensionStatus, .testNotificationStatus:
      .get
    case .consumption, .appAccountToken, .extendRenewalDate: .put
    case .finishTransaction, .extendRenewalDates, .notificationHistory, .requestTestNotification: .post
    }
  }

  /// Requests a second in production, as Apple publishes them ("Identifying rate limits").
  ///
  /// None is published for the status of an extension; it gets the lowest of all, which its sibling, the request for
  /// that extension, has too.
  var rate: Int {
    switch self {
    case .transactionInfo, .appTransactionInfo, .transactionHistory, .consumption, .finishTransaction,
      .subscriptionStatuses, .notificationHistory:
      50
    case .appAccountToken, .extendRenewalDate: 20
    case .refundHistory, .orderLookup: 10
    case .extendRenewalDates, .extensionStatus, .requestTestNotification, .testNotificationStatus: 1
    }
  }

  /// How often it may be asked in an environment; the sandbox allows a tenth of production's rate.
  func allowance(in environment: Environment) -> (count: Int, window: Duration) {
    guard environment == .sandbox else { return (rate, .seconds(1)) }
    return rate >= 10 ? (rate / 10, .seconds(1)) : (1, .seconds(10) / rate)
  }

  /// Whether those who ask the same at the same time may have one answer: what is asked about one transaction by
  /// whoever shows it. Pages of histories and states that somebody polls are each asked for by one.
  var isShared: Bool { self == .transactionInfo || self == .subscriptionStatuses }

  /// Whether the store knows something else afterwards.
  var changesPurchases: Bool { method != .get && self != .notificationHistory }

  /// Whether a success has a JSON object for a body.
  var answersWithJSON: Bool {
    switch self {
    case .consumption, .appAccountToken, .finishTransaction: false
    default: true
    }
  }
}
