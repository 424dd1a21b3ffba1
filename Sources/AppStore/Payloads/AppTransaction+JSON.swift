import Foundation
import JSON

extension AppTransaction: JSONReadable {
  enum CodingKeys: String, CodingKey, CaseIterable {
    case bundleId, receiptType, receiptCreationDate, appAppleId, applicationVersion,
      versionExternalIdentifier, originalPurchaseDate, originalApplicationVersion, originalPlatform,
      preorderDate, appTransactionId, deviceVerification, deviceVerificationNonce
  }

  private static let names = JSONNames<CodingKeys>()

  /// Reads the object and ignores unknown members.
  public init(reading json: inout JSONReader) throws(JSONFailure) {
    self.init(
      bundleId: "", receiptType: Environment(rawValue: ""), receiptCreationDate: .distantPast)
    var members = try json.members(of: Self.names)
    while let member = try members.next(in: &json) {
      switch member {
      case .bundleId: bundleId = try json.read()
      case .receiptType: receiptType = try json.read()
      case .receiptCreationDate: receiptCreationDate = try json.milliseconds()
      case .appAppleId: appAppleId = try json.readOrNull()
      case .applicationVersion: applicationVersion = try json.readOrNull()
      case .versionExternalIdentifier: versionExternalIdentifier = try json.readOrNull()
      case .originalPurchaseDate: originalPurchaseDate = try json.millisecondsOrNull()
      case .originalApplicationVersion: originalApplicationVersion = try json.readOrNull()
      case .originalPlatform: originalPlatform = try json.readOrNull()
      case .preorderDate: preorderDate = try json.millisecondsOrNull()
      case .appTransactionId: appTransactionId = try json.readOrNull()
      case .deviceVerification: deviceVerification = try json.readOrNull()
      case .deviceVerificationNonce: deviceVerificationNonce = try json.uuidOrNull()
      }
    }
    try members.require(.bundleId, .receiptType, .receiptCreationDate)
  }
}
