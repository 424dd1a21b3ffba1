import HTTPTypes

/// What the App Store Server API can be asked.
public enum ServerEndpoint: String, Codable, CaseIterable, Sendable {
  case transactionInfo
  case appTransaction
  case history
  case historyV1
  case refundHistory
  case orderLookup
  case statuses
  case extend
  case extendAll
  case extendAllStatus
  case accountToken
  case consumption
  case consumptionV1
  case finish
  case notificationHistory
  case testNotification
  case testNotificationStatus

  var method: HTTPRequest.Method {
    switch self {
    case .transactionInfo, .appTransaction, .history, .historyV1, .refundHistory, .orderLookup, .statuses,
      .extendAllStatus, .testNotificationStatus:
      .get
    case .extendAll, .finish, .notificationHistory, .testNotification: .post
    case .extend, .accountToken, .consumption, .consumptionV1: .put
    }
  }

  /// The pattern of its path, with Apple's names for what varies.
  var path: String {
    switch self {
    case .transactionInfo: "/inApps/v1/transactions/{transactionId}"
    case .appTransaction: "/inApps/v1/transactions/appTransactions/{anyTransactionId}"
    case .history: "/inApps/v2/history/{anyTransactionId}"
    case .historyV1: "/inApps/v1/history/{anyTransactionId}"
    case .refundHistory: "/inApps/v2/refund/lookup/{anyTransactionId}"
    case .orderLookup: "/inApps/v1/lookup/{orderId}"
    case .statuses: "/inApps/v1/subscriptions/{anyTransactionId}"
    case .extend: "/inApps/v1/subscriptions/extend/{originalTransactionId}"
    case .extendAll: "/inApps/v1/subscriptions/extend/mass"
    case .extendAllStatus: "/inApps/v1/subscriptions/extend/mass/{productId}/{requestIdentifier}"
    case .accountToken: "/inApps/v1/transactions/{originalTransactionId}/appAccountToken"
    case .consumption: "/inApps/v2/transactions/consumption/{transactionId}"
    case .consumptionV1: "/inApps/v1/transactions/consumption/{transactionId}"
    case .finish: "/inApps/v1/transactions/{transactionId}/finish"
    case .notificationHistory: "/inApps/v1/notifications/history"
    case .testNotification: "/inApps/v1/notifications/test"
    case .testNotificationStatus: "/inApps/v1/notifications/test/{testNotificationToken}"
    }
  }
}
