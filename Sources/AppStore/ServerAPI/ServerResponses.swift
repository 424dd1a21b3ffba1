import Foundation

/// The response of Get Transaction Info.
public struct TransactionInfoResponse: Codable, Hashable, Sendable {
  /// A JWS of a `TransactionInfo`.
  public var signedTransactionInfo: String?

  /// Makes an empty response.
  public init() {}
}

/// The response of Get All Subscription Statuses.
public struct StatusResponse: Codable, Hashable, Sendable {
  /// The environment of the purchases.
  public var environment: Environment?
  /// The app.
  public var bundleId: String?
  /// Apple's number of the app; missing in the sandbox.
  public var appAppleId: Int64?
  /// The subscription groups.
  public var data: [SubscriptionGroupIdentifierItem]?

  /// Makes an empty response.
  public init() {}
}

/// One subscription group of a `StatusResponse`.
public struct SubscriptionGroupIdentifierItem: Codable, Hashable, Sendable {
  /// The group.
  public var subscriptionGroupIdentifier: String?
  /// The latest transaction of each subscription in it.
  public var lastTransactions: [LastTransactionsItem]?

  /// Makes an empty response.
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

  /// Makes an empty response.
  public init() {}
}

/// One page of Get Transaction History.
public struct HistoryResponse: Codable, Hashable, Sendable {
  /// The token for the next page.
  public var revision: String?
  /// Whether there is a next page.
  public var hasMore: Bool?
  /// The app.
  public var bundleId: String?
  /// Apple's number of the app; missing in the sandbox.
  public var appAppleId: Int64?
  /// The environment of the purchases.
  public var environment: Environment?
  /// JWS of `TransactionInfo`s.
  public var signedTransactions: [String]?

  /// Makes an empty response.
  public init() {}
}

/// The response of Look Up Order ID.
public struct OrderLookupResponse: Codable, Hashable, Sendable {
  /// Whether the order is known.
  public var status: OrderLookupStatus?
  /// JWS of its `TransactionInfo`s.
  public var signedTransactions: [String]?

  /// Makes an empty response.
  public init() {}
}

/// One page of Get Notification History.
public struct NotificationHistoryResponse: Codable, Hashable, Sendable {
  /// The token for the next page.
  public var paginationToken: String?
  /// Whether there is a next page.
  public var hasMore: Bool?
  /// Up to 20 notifications.
  public var notificationHistory: [NotificationHistoryResponseItem]?

  /// Makes an empty response.
  public init() {}
}

/// One notification of a `NotificationHistoryResponse`.
public struct NotificationHistoryResponseItem: Codable, Hashable, Sendable {
  /// The posted JWS of a `NotificationPayload`.
  public var signedPayload: String?
  /// The attempts to deliver it.
  public var sendAttempts: [SendAttemptItem]?

  /// Makes an empty response.
  public init() {}
}

/// One attempt to deliver a notification.
public struct SendAttemptItem: Codable, Hashable, Sendable {
  /// The time of the attempt.
  @Milliseconds public var attemptDate: Date? = nil
  /// The outcome of the attempt.
  public var sendAttemptResult: SendAttemptResult?

  /// Makes an empty response.
  public init() {}
}

/// The response of Request a Test Notification.
public struct SendTestNotificationResponse: Codable, Hashable, Sendable {
  /// The token for its status.
  public var testNotificationToken: String?

  /// Makes an empty response.
  public init() {}
}

/// The response of Get Test Notification Status.
public struct CheckTestNotificationResponse: Codable, Hashable, Sendable {
  /// The posted JWS of a `NotificationPayload`.
  public var signedPayload: String?
  /// The attempts to deliver it.
  public var sendAttempts: [SendAttemptItem]?

  /// Makes an empty response.
  public init() {}
}

/// The response of Extend a Subscription Renewal Date.
public struct ExtendRenewalDateResponse: Codable, Hashable, Sendable {
  /// The subscription.
  public var originalTransactionId: String?
  /// The period that was extended.
  public var webOrderLineItemId: String?
  /// Whether the extension succeeded.
  public var success: Bool?
  /// The new renewal date.
  @Milliseconds public var effectiveDate: Date? = nil

  /// Makes an empty response.
  public init() {}
}

/// The response of Extend Subscription Renewal Dates for All Active Subscribers.
public struct MassExtendRenewalDateResponse: Codable, Hashable, Sendable {
  /// The request's identifier.
  public var requestIdentifier: String?

  /// Makes an empty response.
  public init() {}
}

/// The response of Get Status of Subscription Renewal Date Extensions.
public struct MassExtendRenewalDateStatusResponse: Codable, Hashable, Sendable {
  /// The request's identifier.
  public var requestIdentifier: String?
  /// Whether the extension is complete.
  public var complete: Bool?
  /// The time of completion.
  @Milliseconds public var completeDate: Date? = nil
  /// The number of extended subscriptions.
  public var succeededCount: Int64?
  /// The number of subscriptions that could not be extended.
  public var failedCount: Int64?

  /// Makes an empty response.
  public init() {}
}
