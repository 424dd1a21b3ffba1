import HTTPTypes

/// The endpoints of the App Store Server API.
public enum ServerEndpoint: String, Codable, CaseIterable, Sendable {
  case transactionInfo
  case history
  case orderLookup
  case statuses
  case extend
  case extendAll
  case extendAllStatus
  case accountToken
  case consumption
  case notificationHistory
  case testNotification
  case testNotificationStatus

  var method: HTTPRequest.Method {
    switch self {
    case .transactionInfo, .history, .orderLookup, .statuses, .extendAllStatus, .testNotificationStatus: .get
    case .extendAll, .notificationHistory, .testNotification: .post
    case .extend, .accountToken, .consumption: .put
    }
  }

  /// Whether a request changes a purchase or tells the store something.
  var isAction: Bool {
    switch self {
    case .extend, .extendAll, .accountToken, .consumption: true
    default: false
    }
  }

  /// The path pattern with Apple's parameter names.
  var path: String {
    switch self {
    case .transactionInfo: "/inApps/v1/transactions/{transactionId}"
    case .history: "/inApps/v2/history/{anyTransactionId}"
    case .orderLookup: "/inApps/v1/lookup/{orderId}"
    case .statuses: "/inApps/v1/subscriptions/{anyTransactionId}"
    case .extend: "/inApps/v1/subscriptions/extend/{originalTransactionId}"
    case .extendAll: "/inApps/v1/subscriptions/extend/mass"
    case .extendAllStatus: "/inApps/v1/subscriptions/extend/mass/{productId}/{requestIdentifier}"
    case .accountToken: "/inApps/v1/transactions/{originalTransactionId}/appAccountToken"
    case .consumption: "/inApps/v2/transactions/consumption/{transactionId}"
    case .notificationHistory: "/inApps/v1/notifications/history"
    case .testNotification: "/inApps/v1/notifications/test"
    case .testNotificationStatus: "/inApps/v1/notifications/test/{testNotificationToken}"
    }
  }
}
