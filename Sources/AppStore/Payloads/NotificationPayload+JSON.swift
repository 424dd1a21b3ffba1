import Foundation
import JSON

extension NotificationPayload: JSONReadable {
  enum CodingKeys: String, CodingKey, CaseIterable {
    case notificationType, subtype, notificationUUID, version, signedDate, data, summary,
      externalPurchaseToken, appData
  }

  private static let names = JSONNames<CodingKeys>()

  /// Reads the object and ignores unknown members.
  public init(reading json: inout JSONReader) throws(JSONFailure) {
    self.init(
      notificationType: NotificationType(rawValue: ""), notificationUUID: "", signedDate: .distantPast)
    var members = try json.members(of: Self.names)
    while let member = try members.next(in: &json) {
      switch member {
      case .notificationType: notificationType = try json.read()
      case .subtype: subtype = try json.readOrNull()
      case .notificationUUID: notificationUUID = try json.read()
      case .version: version = try json.readOrNull()
      case .signedDate: signedDate = try json.milliseconds()
      case .data: data = try json.readOrNull()
      case .summary: summary = try json.readOrNull()
      case .externalPurchaseToken: externalPurchaseToken = try json.readOrNull()
      case .appData: appData = try json.readOrNull()
      }
    }
    try members.require(.notificationType, .notificationUUID, .signedDate)
  }
}

extension NotificationData: JSONReadable {
  enum CodingKeys: String, CodingKey, CaseIterable {
    case environment, appAppleId, bundleId, bundleVersion, signedTransactionInfo, signedRenewalInfo, status,
      consumptionRequestReason
  }

  private static let names = JSONNames<CodingKeys>()

  /// Reads the object and ignores unknown members.
  public init(reading json: inout JSONReader) throws(JSONFailure) {
    var members = try json.members(of: Self.names)
    while let member = try members.next(in: &json) {
      switch member {
      case .environment: environment = try json.readOrNull()
      case .appAppleId: appAppleId = try json.readOrNull()
      case .bundleId: bundleId = try json.readOrNull()
      case .bundleVersion: bundleVersion = try json.readOrNull()
      case .signedTransactionInfo: signedTransactionInfo = try json.readOrNull()
      case .signedRenewalInfo: signedRenewalInfo = try json.readOrNull()
      case .status: status = try json.readOrNull()
      case .consumptionRequestReason: consumptionRequestReason = try json.readOrNull()
      }
    }
  }
}

extension NotificationSummary: JSONReadable {
  enum CodingKeys: String, CodingKey, CaseIterable {
    case environment, appAppleId, bundleId, productId, requestIdentifier, storefrontCountryCodes,
      succeededCount, failedCount
  }

  private static let names = JSONNames<CodingKeys>()

  /// Reads the object and ignores unknown members.
  public init(reading json: inout JSONReader) throws(JSONFailure) {
    var members = try json.members(of: Self.names)
    while let member = try members.next(in: &json) {
      switch member {
      case .environment: environment = try json.readOrNull()
      case .appAppleId: appAppleId = try json.readOrNull()
      case .bundleId: bundleId = try json.readOrNull()
      case .productId: productId = try json.readOrNull()
      case .requestIdentifier: requestIdentifier = try json.readOrNull()
      case .storefrontCountryCodes: storefrontCountryCodes = try json.readOrNull()
      case .succeededCount: succeededCount = try json.readOrNull()
      case .failedCount: failedCount = try json.readOrNull()
      }
    }
  }
}

extension ExternalPurchaseToken: JSONReadable {
  enum CodingKeys: String, CodingKey, CaseIterable {
    case externalPurchaseId, tokenCreationDate, tokenExpirationDate, tokenType, appAppleId, bundleId
  }

  private static let names = JSONNames<CodingKeys>()

  /// Reads the object and ignores unknown members.
  public init(reading json: inout JSONReader) throws(JSONFailure) {
    self.init()
    var members = try json.members(of: Self.names)
    while let member = try members.next(in: &json) {
      switch member {
      case .externalPurchaseId: externalPurchaseId = try json.readOrNull()
      case .tokenCreationDate: tokenCreationDate = try json.millisecondsOrNull()
      case .tokenExpirationDate: tokenExpirationDate = try json.millisecondsOrNull()
      case .tokenType: tokenType = try json.readOrNull()
      case .appAppleId: appAppleId = try json.readOrNull()
      case .bundleId: bundleId = try json.readOrNull()
      }
    }
  }
}

extension NotificationAppData: JSONReadable {
  enum CodingKeys: String, CodingKey, CaseIterable {
    case environment, appAppleId, bundleId, signedAppTransactionInfo
  }

  private static let names = JSONNames<CodingKeys>()

  /// Reads the object and ignores unknown members.
  public init(reading json: inout JSONReader) throws(JSONFailure) {
    var members = try json.members(of: Self.names)
    while let member = try members.next(in: &json) {
      switch member {
      case .environment: environment = try json.readOrNull()
      case .appAppleId: appAppleId = try json.readOrNull()
      case .bundleId: bundleId = try json.readOrNull()
      case .signedAppTransactionInfo: signedAppTransactionInfo = try json.readOrNull()
      }
    }
  }
}
