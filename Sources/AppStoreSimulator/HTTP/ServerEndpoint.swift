import AppStore
import Foundation
import HTTP
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

/// An error of the App Store Server API: the first three digits of the code are the status.
struct ServerAPIError: Error, Hashable {
  let code: AppStoreErrorCode

  init(_ code: AppStoreErrorCode) { self.code = code }

  /// The error for a body that does not have the form of Apple's request. Apple's error names the wrong member.
  init(_ error: any Error) {
    let member: String? =
      switch error as? DecodingError {
      case .keyNotFound(let key, _)?: key.stringValue
      case .typeMismatch(_, let context)?, .valueNotFound(_, let context)?, .dataCorrupted(let context)?:
        context.codingPath.first?.stringValue
      default: nil
      }
    code = member.flatMap { Self.codes[$0] } ?? .generalBadRequest
  }

  private static let codes: [String: AppStoreErrorCode] = [
    "appAccountToken": .invalidAppAccountTokenUUID,
    "customerConsented": .invalidCustomerConsented,
    "deliveryStatus": .invalidDeliveryStatus,
    "endDate": .invalidEndDate,
    "extendByDays": .invalidExtendByDays,
    "extendReasonCode": .invalidExtendReasonCode,
    "productId": .invalidProductId,
    "requestIdentifier": .invalidRequestIdentifier,
    "sampleContentProvided": .invalidSampleContentProvided,
    "startDate": .invalidStartDate,
    "storefrontCountryCodes": .invalidStorefrontCountryCode,
  ]

  /// The response. Its media type has no parameter, because Apple's client compares the whole value.
  var response: Response {
    struct Body: Encodable {
      let errorCode: AppStoreErrorCode
      let errorMessage: String
    }
    let body = Body(errorCode: code, errorMessage: "The simulated App Store refuses the request.")
    return (try? .json(HTTPResponse.Status(code: Int(code.rawValue / 10_000)), body))
      ?? .empty(.internalServerError)
  }
}
