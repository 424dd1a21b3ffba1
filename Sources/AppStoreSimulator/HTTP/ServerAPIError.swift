import AppStore
import Foundation
import HTTP
import HTTPTypes

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
