import Foundation
import HTTP
import HTTPTypes

/// An error of the App Store Server API: the first three digits of the code are the status.
struct ServerAPIError: Error, Hashable {
  let code: Int64
  let message: String

  static let generalBadRequest = ServerAPIError(code: 4_000_000, message: "Bad request.")
  static let invalidTransactionID = ServerAPIError(code: 4_000_006, message: "Invalid transaction id.")
  static let invalidStartDate = ServerAPIError(code: 4_000_015, message: "Invalid start date.")
  static let invalidEndDate = ServerAPIError(code: 4_000_016, message: "Invalid end date.")
  static let startDateAfterEndDate = ServerAPIError(
    code: 4_000_013, message: "The end date precedes the start date or the dates are the same.")
  static let invalidPaginationToken = ServerAPIError(
    code: 4_000_014, message: "Request contains invalid pagination token.")
  static let multipleFilters = ServerAPIError(
    code: 4_000_019, message: "Request contains both transaction id and notification type.")
  static let invalidTestNotificationToken = ServerAPIError(
    code: 4_000_020, message: "Request contains invalid test notification token.")
  static let invalidRevision = ServerAPIError(code: 4_000_005, message: "Invalid request revision.")
  static let noWebhook = ServerAPIError(
    code: 4_040_007, message: "No App Store Server Notification URL found for provided app.")
  static let testNotificationNotFound = ServerAPIError(
    code: 4_040_008,
    message: "Either the test notification token is expired or the notification has not been sent yet.")
  static let transactionIDNotFound = ServerAPIError(
    code: 4_040_010, message: "Transaction id not found.")

  /// The answer. The media type has no parameter: Apple's own client compares it as a whole.
  var response: Response {
    struct Body: Encodable {
      let errorCode: Int64
      let errorMessage: String
    }
    let body = Body(errorCode: code, errorMessage: message)
    return (try? .json(HTTPResponse.Status(code: Int(code / 10_000)), body))
      ?? .empty(.internalServerError)
  }
}
