import FoundationEssentials

/// Answer of Get Transaction Info.
public struct TransactionInfoResponse: Codable, Hashable, Sendable {
  /// A JWS of a `TransactionInfo`.
  public var signedTransactionInfo: String?

  /// Nothing set.
  public init() {}
}

/// Answer of Get App Transaction Info.
public struct AppTransactionInfoResponse: Codable, Hashable, Sendable {
  /// A JWS of an `AppTransaction`.
  public var signedAppTransactionInfo: String?

  /// Nothing set.
  public init() {}
}

/// Answer of Get All Subscription Statuses.
public struct StatusResponse: Codable, Hashable, Sendable {
  /// Where the subscriptions were bought.
  public var environment: Environment?
  /// The app.
  public var bundleId: String?
  /// Apple's number of the app; missing in the sandbox.
  public var appAppleId: Int64?
  /// The subscription groups.
  public var data: [SubscriptionGroupIdentifierItem]?

  /// Nothing set.
  public init() {}
}

/// One subscription group of a `StatusResponse`.
public struct SubscriptionGroupIdentifierItem: Codable, Hashable, Sendable {
  /// The group.
  public var subscriptionGroupIdentifier: String?
  /// The latest transaction of each subscription in it.
  public var lastTransactions: [LastTransactionsItem]?

  /// Nothing set.
  public init() {}
}

/// One subscription of a `StatusResponse`.
public struct LastTransactionsItem: Codable, Hashable, Sendable {
  /// Its state.
  public var status: SubscriptionStatus?
  /// The subscription.
  public var originalTransactionId: String?
  /// A JWS of its latest `TransactionInfo`.
  public var signedTransactionInfo: String?
  /// A JWS of its `RenewalInfo`.
  public var signedRenewalInfo: String?

  /// Nothing set.
  public init() {}
}

/// One page of Get Transaction History.
public struct HistoryResponse: Codable, Hashable, Sendable {
  /// What to ask the next page with.
  public var revision: String?
  /// Whether there is a next page.
  public var hasMore: Bool?
  /// The app.
  public var bundleId: String?
  /// Apple's number of the app; missing in the sandbox.
  public var appAppleId: Int64?
  /// Where the purchases were made.
  public var environment: Environment?
  /// JWS of `TransactionInfo`s.
  public var signedTransactions: [String]?

  /// Nothing set.
  public init() {}
}

/// One page of Get Refund History.
public struct RefundHistoryResponse: Codable, Hashable, Sendable {
  /// JWS of refunded `TransactionInfo`s.
  public var signedTransactions: [String]?
  /// What to ask the next page with.
  public var revision: String?
  /// Whether there is a next page.
  public var hasMore: Bool?

  /// Nothing set.
  public init() {}
}

/// Answer of Look Up Order ID.
public struct OrderLookupResponse: Codable, Hashable, Sendable {
  /// Whether the order is known.
  public var status: OrderLookupStatus?
  /// JWS of its `TransactionInfo`s.
  public var signedTransactions: [String]?

  /// Nothing set.
  public init() {}
}

/// One page of Get Notification History.
public struct NotificationHistoryResponse: Codable, Hashable, Sendable {
  /// What to ask the next page with.
  public var paginationToken: String?
  /// Whether there is a next page.
  public var hasMore: Bool?
  /// Up to 20 notifications.
  public var notificationHistory: [NotificationHistoryResponseItem]?

  /// Nothing set.
  public init() {}
}

/// One notification of a `NotificationHistoryResponse`.
public struct NotificationHistoryResponseItem: Codable, Hashable, Sendable {
  /// The notification as it was posted: a JWS of a `NotificationPayload`.
  public var signedPayload: String?
  /// The attempts to deliver it.
  public var sendAttempts: [SendAttemptItem]?

  /// Nothing set.
  public init() {}
}

/// One attempt to deliver a notification.
public struct SendAttemptItem: Codable, Hashable, Sendable {
  /// When.
  @Milliseconds public var attemptDate: Date? = nil
  /// What came of it.
  public var sendAttemptResult: SendAttemptResult?

  /// Nothing set.
  public init() {}
}

/// Answer of Request a Test Notification.
public struct SendTestNotificationResponse: Codable, Hashable, Sendable {
  /// What to ask its status with.
  public var testNotificationToken: String?

  /// Nothing set.
  public init() {}
}

/// Answer of Get Test Notification Status.
public struct CheckTestNotificationResponse: Codable, Hashable, Sendable {
  /// The notification as it was posted: a JWS of a `NotificationPayload`.
  public var signedPayload: String?
  /// The attempts to deliver it.
  public var sendAttempts: [SendAttemptItem]?

  /// Nothing set.
  public init() {}
}

/// Answer of Extend a Subscription Renewal Date.
public struct ExtendRenewalDateResponse: Codable, Hashable, Sendable {
  /// The subscription.
  public var originalTransactionId: String?
  /// The period that was extended.
  public var webOrderLineItemId: String?
  /// Whether it was.
  public var success: Bool?
  /// The new renewal date.
  @Milliseconds public var effectiveDate: Date? = nil

  /// Nothing set.
  public init() {}
}

/// Answer of Extend Subscription Renewal Dates for All Active Subscribers.
public struct MassExtendRenewalDateResponse: Codable, Hashable, Sendable {
  /// The id that the request bore.
  public var requestIdentifier: String?

  /// Nothing set.
  public init() {}
}

/// Answer of Get Status of Subscription Renewal Date Extensions.
public struct MassExtendRenewalDateStatusResponse: Codable, Hashable, Sendable {
  /// The id that the request bore.
  public var requestIdentifier: String?
  /// Whether all is done.
  public var complete: Bool?
  /// When it was.
  @Milliseconds public var completeDate: Date? = nil
  /// How many subscriptions were extended.
  public var succeededCount: Int64?
  /// How many could not be extended.
  public var failedCount: Int64?

  /// Nothing set.
  public init() {}
}
