import Foundation
import JSON

/// The purchase or download of the app itself (Apple's `AppTransaction`).
public struct AppTransaction: SignedPayload {
  /// The app.
  public var bundleId: String
  /// The environment of the download. Apple calls it receipt type; the values are those of an environment.
  public var receiptType: Environment
  /// The time of signing.
  @Milliseconds public var receiptCreationDate: Date

  /// Apple's number of the app; missing or 0 in the sandbox.
  public var appAppleId: Int64?
  /// The version of the app that the transaction was made for (CFBundleVersion).
  public var applicationVersion: String?
  /// Apple's number of that version.
  public var versionExternalIdentifier: Int64?
  /// The time of the customer's first purchase or download of the app, on any device.
  @Milliseconds public var originalPurchaseDate: Date? = nil
  /// The version of the first download. In the sandbox always 1.0.
  public var originalApplicationVersion: String?
  /// The platform of the first download.
  public var originalPlatform: PurchasePlatform?
  /// The time of the pre-order.
  @Milliseconds public var preorderDate: Date? = nil
  /// The id of one Apple Account in this app; stable over reinstalls, refunds and storefront changes.
  public var appTransactionId: String?
  /// A hash that ties the transaction to a device (base64).
  public var deviceVerification: String?
  /// The nonce in that hash.
  public var deviceVerificationNonce: UUID?

  /// Makes an app transaction with its required fields.
  public init(bundleId: String, receiptType: Environment, receiptCreationDate: Date) {
    self.bundleId = bundleId
    self.receiptType = receiptType
    self.receiptCreationDate = receiptCreationDate
  }

  /// `receiptCreationDate`.
  public var signedAt: Date { receiptCreationDate }

  /// `receiptType` under the name that other payloads use.
  public var environment: Environment { receiptType }
}

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
