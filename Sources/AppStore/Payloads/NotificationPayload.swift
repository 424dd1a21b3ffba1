import Foundation
import JSON

/// An App Store Server Notification, version 2 (Apple's `ResponseBodyV2DecodedPayload`).
///
/// Exactly one of `data`, `summary`, `externalPurchaseToken` and `appData` is present.
public struct NotificationPayload: SignedPayload {
  /// The type of the event.
  public var notificationType: NotificationType
  /// The detail of the type.
  public var subtype: Subtype?
  /// The id of the notification; the same on every delivery.
  public var notificationUUID: String
  /// The version of the format: 2.0.
  public var version: String?
  /// The time of signing; the same on every delivery.
  @Milliseconds public var signedDate: Date

  /// A subscription or purchase.
  public var data: NotificationData?
  /// The outcome of an extension of many renewal dates.
  public var summary: NotificationSummary?
  /// A token for an external purchase.
  public var externalPurchaseToken: ExternalPurchaseToken?
  /// The app as a whole.
  public var appData: NotificationAppData?

  /// Makes a notification with its required fields.
  public init(notificationType: NotificationType, notificationUUID: String, signedDate: Date) {
    self.notificationType = notificationType
    self.notificationUUID = notificationUUID
    self.signedDate = signedDate
  }

  /// `signedDate`.
  public var signedAt: Date { signedDate }

  /// The app that the notification is about.
  public var bundleId: String? {
    data?.bundleId ?? summary?.bundleId ?? appData?.bundleId ?? externalPurchaseToken?.bundleId
  }

  /// Apple's number of that app.
  public var appAppleId: Int64? {
    data?.appAppleId ?? summary?.appAppleId ?? appData?.appAppleId ?? externalPurchaseToken?.appAppleId
  }

  /// The environment. An external purchase token shows it only by the prefix of its id.
  public var environment: Environment? {
    data?.environment ?? summary?.environment ?? appData?.environment ?? externalPurchaseToken?.environment
  }
}

/// A subscription or purchase (`data` of a notification).
public struct NotificationData: Codable, Hashable, Sendable {
  /// The environment.
  public var environment: Environment?
  /// Apple's number of the app; missing in the sandbox.
  public var appAppleId: Int64?
  /// The app.
  public var bundleId: String?
  /// The version of the app (CFBundleVersion).
  public var bundleVersion: String?
  /// A JWS of a `TransactionInfo`.
  public var signedTransactionInfo: String?
  /// A JWS of a `RenewalInfo`.
  public var signedRenewalInfo: String?
  /// The subscription's state as of `signedDate`.
  public var status: SubscriptionStatus?
  /// The reason of the refund request.
  public var consumptionRequestReason: ConsumptionRequestReason?

  /// Makes the data of an app.
  public init(environment: Environment, bundleId: String) {
    self.environment = environment
    self.bundleId = bundleId
  }
}

/// The outcome of an extension of many renewal dates (`summary` of a notification).
public struct NotificationSummary: Codable, Hashable, Sendable {
  /// The environment.
  public var environment: Environment?
  /// Apple's number of the app; missing in the sandbox.
  public var appAppleId: Int64?
  /// The app.
  public var bundleId: String?
  /// The product whose renewal dates were extended.
  public var productId: String?
  /// The identifier of the extension request.
  public var requestIdentifier: String?
  /// The storefronts of the request, as ISO 3166-1 alpha-3 codes.
  public var storefrontCountryCodes: [String]?
  /// The number of extended subscriptions.
  public var succeededCount: Int64?
  /// The number of subscriptions that could not be extended.
  public var failedCount: Int64?

  /// Makes a summary for an app.
  public init(environment: Environment, bundleId: String) {
    self.environment = environment
    self.bundleId = bundleId
  }
}

/// A token for an external purchase (`externalPurchaseToken` of a notification).
public struct ExternalPurchaseToken: Codable, Hashable, Sendable {
  /// The token's id; begins with SANDBOX in the sandbox.
  public var externalPurchaseId: String?
  /// The creation time.
  @Milliseconds public var tokenCreationDate: Date? = nil
  /// The expiry time.
  @Milliseconds public var tokenExpirationDate: Date? = nil
  /// The kind of token: ACQUISITION or SERVICES.
  public var tokenType: String?
  /// Apple's number of the app.
  public var appAppleId: Int64?
  /// The app.
  public var bundleId: String?

  /// Makes an empty token.
  public init() {}

  /// The sandbox if the id begins with SANDBOX, else production; nil without an id.
  public var environment: Environment? {
    externalPurchaseId.map { $0.utf8.starts(with: "SANDBOX".utf8) ? .sandbox : .production }
  }
}

/// The app as a whole (`appData` of a notification).
public struct NotificationAppData: Codable, Hashable, Sendable {
  /// The environment.
  public var environment: Environment?
  /// Apple's number of the app; missing in the sandbox.
  public var appAppleId: Int64?
  /// The app.
  public var bundleId: String?
  /// A JWS of an `AppTransaction`.
  public var signedAppTransactionInfo: String?

  /// Makes the data of an app.
  public init(environment: Environment, bundleId: String) {
    self.environment = environment
    self.bundleId = bundleId
  }
}

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
