import AppStore
import Foundation

// The answers of the App Store Server API, by Apple's names.

struct TransactionInfoResponse: Encodable {
  let signedTransactionInfo: String
}

struct AppTransactionInfoResponse: Encodable {
  let signedAppTransactionInfo: String
}

struct StatusResponse: Encodable {
  struct Group: Encodable {
    let subscriptionGroupIdentifier: String
    let lastTransactions: [Item]
  }

  struct Item: Encodable {
    let originalTransactionId: String
    let status: SubscriptionStatus
    let signedTransactionInfo: String
    let signedRenewalInfo: String
  }

  let environment: Environment
  let bundleId: String
  let appAppleId: Int64?
  let data: [Group]
}

struct HistoryResponse: Encodable {
  let environment: Environment
  let bundleId: String
  let appAppleId: Int64?
  let revision: String
  let hasMore: Bool
  let signedTransactions: [String]
}

struct NotificationHistoryRequest: Decodable {
  let startDate: Int64?
  let endDate: Int64?
  let notificationType: NotificationType?
  let notificationSubtype: Subtype?
  let transactionId: String?
  let onlyFailures: Bool?
}

struct NotificationHistoryResponse: Encodable {
  struct Item: Encodable {
    let signedPayload: String
    let sendAttempts: [SendAttemptItem]
  }

  let notificationHistory: [Item]
  let hasMore: Bool
  let paginationToken: String?
}

struct SendAttemptItem: Encodable {
  @Milliseconds var attemptDate: Date
  let sendAttemptResult: String

  init(_ attempt: SendAttempt) {
    attemptDate = attempt.attemptDate
    sendAttemptResult = attempt.outcome.result
  }
}

struct SendTestNotificationResponse: Encodable {
  let testNotificationToken: String
}

struct CheckTestNotificationResponse: Encodable {
  let signedPayload: String
  let sendAttempts: [SendAttemptItem]
}
