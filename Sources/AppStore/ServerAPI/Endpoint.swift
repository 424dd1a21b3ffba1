import HTTPTypes

/// An endpoint of the App Store Server API and its rate limit.
enum Endpoint: Hashable, Sendable, CaseIterable {
  case transactionInfo, transactionHistory, orderLookup, consumption, appAccountToken
  case subscriptionStatuses, extendRenewalDate, extendRenewalDates, extensionStatus
  case notificationHistory, requestTestNotification, testNotificationStatus

  var method: HTTPRequest.Method {
    switch self {
    case .transactionInfo, .transactionHistory, .orderLookup, .subscriptionStatuses, .extensionStatus,
      .testNotificationStatus:
      .get
    case .consumption, .appAccountToken, .extendRenewalDate: .put
    case .extendRenewalDates, .notificationHistory, .requestTestNotification: .post
    }
  }

  /// Requests per second in production, as Apple publishes them ("Identifying rate limits").
  ///
  /// Apple publishes none for the status of an extension. It gets the rate of the request for that extension, the
  /// lowest.
  var rate: Int {
    switch self {
    case .transactionInfo, .transactionHistory, .consumption, .subscriptionStatuses, .notificationHistory: 50
    case .appAccountToken, .extendRenewalDate: 20
    case .orderLookup: 10
    case .extendRenewalDates, .extensionStatus, .requestTestNotification, .testNotificationStatus: 1
    }
  }

  /// The rate limit in an environment; the sandbox allows a tenth of production's rate.
  func allowance(in environment: Environment) -> (count: Int, window: Duration) {
    guard environment == .sandbox else { return (rate, .seconds(1)) }
    return rate >= 10 ? (rate / 10, .seconds(1)) : (1, .seconds(10) / rate)
  }

  /// Whether equal concurrent requests are coalesced. Many clients may show one transaction at the same time; pages of
  /// a history have one reader.
  var isShared: Bool { self == .transactionInfo || self == .subscriptionStatuses }

  /// Whether a request changes the state of purchases at the store.
  var changesPurchases: Bool { method != .get && self != .notificationHistory }

  /// Whether a request may be sent again after a server error, which does not tell whether the request was carried out. Apple
  /// takes a repeated extension of one subscription as another one.
  var isRepeatable: Bool { self != .extendRenewalDate }

  /// Whether the body of a success is a JSON object.
  var answersWithJSON: Bool {
    switch self {
    case .consumption, .appAccountToken: false
    default: true
    }
  }
}
