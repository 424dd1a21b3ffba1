import AppStore
import HTTP
import HTTPTypes

/// An error of the App Store Server API: the first three digits of the code are the status.
struct ServerAPIError: Error, Hashable {
  let code: AppStoreErrorCode
  let message: String

  init(code: AppStoreErrorCode, message: String) {
    self.code = code
    self.message = message
  }

  /// Makes an error with a general message.
  init(_ code: AppStoreErrorCode) {
    self.init(code: code, message: "The request is not valid.")
  }

  private init(_ code: AppStoreErrorCode, _ message: String) {
    self.init(code: code, message: message)
  }

  static let generalBadRequest = Self(.generalBadRequest, "Bad request.")
  static let invalidTransactionID = Self(.invalidTransactionId, "Invalid transaction id.")
  static let invalidOriginalTransactionID = Self(
    .invalidOriginalTransactionId, "Invalid original transaction id.")
  static let invalidRevision = Self(.invalidRequestRevision, "Invalid request revision.")
  static let invalidExtendByDays = Self(.invalidExtendByDays, "Invalid extend by days value.")
  static let invalidExtendReasonCode = Self(.invalidExtendReasonCode, "Invalid extend reason code.")
  static let invalidRequestIdentifier = Self(.invalidRequestIdentifier, "Invalid request identifier.")
  static let startDateTooFarInPast = Self(
    .startDateTooFarInPast, "The start date is earlier than the earliest allowed date.")
  static let startDateAfterEndDate = Self(
    .startDateAfterEndDate, "The end date precedes the start date or the dates are the same.")
  static let invalidPaginationToken = Self(
    .invalidPaginationToken, "Request contains invalid pagination token.")
  static let invalidStartDate = Self(.invalidStartDate, "Invalid start date.")
  static let invalidEndDate = Self(.invalidEndDate, "Invalid end date.")
  static let invalidNotificationType = Self(
    .invalidNotificationType, "The notification type or subtype is invalid.")
  static let multipleFilters = Self(
    .multipleFiltersSupplied, "Request contains both transaction id and notification type.")
  static let invalidTestNotificationToken = Self(
    .invalidTestNotificationToken, "Request contains invalid test notification token.")
  static let invalidSort = Self(.invalidSort, "Invalid sort.")
  static let invalidProductType = Self(.invalidProductType, "Invalid product type.")
  static let invalidProductID = Self(.invalidProductId, "Invalid product id.")
  static let invalidSubscriptionGroup = Self(
    .invalidSubscriptionGroupIdentifier, "Invalid subscription group identifier.")
  static let invalidOwnershipType = Self(.invalidInAppOwnershipType, "Invalid in-app ownership type.")
  static let emptyStorefronts = Self(
    .invalidEmptyStorefrontCountryCodeList, "The list of storefront country codes is empty.")
  static let invalidStorefront = Self(.invalidStorefrontCountryCode, "Invalid storefront country code.")
  static let invalidRevoked = Self(.invalidRevoked, "Invalid revoked value.")
  static let invalidStatus = Self(.invalidStatus, "Invalid status.")
  static let appTransactionIDNotSupported = Self(
    .appTransactionIdNotSupported, "App transaction ids are not supported here.")
  static let invalidAppAccountTokenUUID = Self(
    .invalidAppAccountTokenUUID, "The app account token must be a UUID.")
  static let familyTransactionNotSupported = Self(
    .familyTransactionNotSupported, "Family-shared transactions are not supported.")
  static let notAnOriginalTransactionID = Self(
    .transactionIdNotOriginalTransactionId, "The transaction id is not an original transaction id.")
  static let extensionIneligible = Self(
    .subscriptionExtensionIneligible, "The subscription cannot be extended.")
  static let maximumExtensions = Self(
    .subscriptionMaxExtension, "The subscription was extended as often as is allowed.")
  static let familySharedExtension = Self(
    .familySharedSubscriptionExtensionIneligible, "A family-shared subscription cannot be extended.")
  static let originalTransactionIDNotFound = Self(
    .originalTransactionIdNotFound, "Original transaction id not found.")
  static let noWebhook = Self(
    .serverNotificationUrlNotFound, "No App Store Server Notification URL found for provided app.")
  static let testNotificationNotFound = Self(
    .testNotificationNotFound,
    "Either the test notification token is expired or the notification has not been sent yet.")
  static let statusRequestNotFound = Self(.statusRequestNotFound, "No such request to extend renewal dates.")
  static let transactionIDNotFound = Self(.transactionIdNotFound, "Transaction id not found.")

  /// The response. Its media type has no parameter, because Apple's client compares the whole value.
  var response: Response {
    struct Body: Encodable {
      let errorCode: Int64
      let errorMessage: String
    }
    let body = Body(errorCode: code.rawValue, errorMessage: message)
    return (try? .json(HTTPResponse.Status(code: Int(code.rawValue / 10_000)), body))
      ?? .empty(.internalServerError)
  }
}
