import AppStore
import HTTP
import HTTPTypes

/// An error of the App Store Server API: the first three digits of the code are the status.
struct ServerAPIError: Error, Hashable {
  let code: AppStoreErrorCode
  let message: String

  static let generalBadRequest = ServerAPIError(code: .generalBadRequest, message: "Bad request.")
  static let invalidTransactionID = ServerAPIError(
    code: .invalidTransactionId, message: "Invalid transaction id.")
  static let invalidStartDate = ServerAPIError(code: .invalidStartDate, message: "Invalid start date.")
  static let invalidEndDate = ServerAPIError(code: .invalidEndDate, message: "Invalid end date.")
  static let startDateAfterEndDate = ServerAPIError(
    code: .startDateAfterEndDate, message: "The end date precedes the start date or the dates are the same.")
  static let invalidPaginationToken = ServerAPIError(
    code: .invalidPaginationToken, message: "Request contains invalid pagination token.")
  static let multipleFilters = ServerAPIError(
    code: .multipleFiltersSupplied, message: "Request contains both transaction id and notification type.")
  static let invalidTestNotificationToken = ServerAPIError(
    code: .invalidTestNotificationToken, message: "Request contains invalid test notification token.")
  static let invalidRevision = ServerAPIError(
    code: .invalidRequestRevision, message: "Invalid request revision.")
  static let noWebhook = ServerAPIError(
    code: .serverNotificationUrlNotFound,
    message: "No App Store Server Notification URL found for provided app.")
  static let testNotificationNotFound = ServerAPIError(
    code: .testNotificationNotFound,
    message: "Either the test notification token is expired or the notification has not been sent yet.")
  static let transactionIDNotFound = ServerAPIError(
    code: .transactionIdNotFound, message: "Transaction id not found.")

  /// The answer. The media type has no parameter: Apple's own client compares it as a whole.
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
