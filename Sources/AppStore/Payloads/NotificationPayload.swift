import FoundationEssentials

/// An App Store Server Notification, version 2 (Apple's `ResponseBodyV2DecodedPayload`).
///
/// One of `data`, `summary`, `externalPurchaseToken` and `appData` is present.
public struct NotificationPayload: SignedPayload {
  /// What it reports.
  public var notificationType: NotificationType
  /// What more there is to say about it.
  public var subtype: Subtype?
  /// The notification; the same on every delivery of it.
  public var notificationUUID: String
  /// The version of the format: 2.0.
  public var version: String?
  /// When Apple signed it; the same on every delivery of it.
  @Milliseconds public var signedDate: Date

  /// A subscription or purchase.
  public var data: NotificationData?
  /// The outcome of an extension of many renewal dates.
  public var summary: NotificationSummary?
  /// A token for an external purchase.
  public var externalPurchaseToken: ExternalPurchaseToken?
  /// The app as a whole.
  public var appData: NotificationAppData?

  /// A notification with what gives it its identity; everything else is set afterwards.
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

  /// Where it happened. An external purchase token does not say, but for the beginning of its id.
  public var environment: Environment? {
    data?.environment ?? summary?.environment ?? appData?.environment ?? externalPurchaseToken?.environment
  }
}

/// A subscription or purchase (`data` of a notification).
public struct NotificationData: Codable, Hashable, Sendable {
  /// Where it happened.
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
  /// Why the customer asks for a refund.
  public var consumptionRequestReason: ConsumptionRequestReason?

  /// Data of an app; everything else is set afterwards.
  public init(environment: Environment, bundleId: String) {
    self.environment = environment
    self.bundleId = bundleId
  }
}

/// The outcome of an extension of many renewal dates (`summary` of a notification).
public struct NotificationSummary: Codable, Hashable, Sendable {
  /// Where it happened.
  public var environment: Environment?
  /// Apple's number of the app; missing in the sandbox.
  public var appAppleId: Int64?
  /// The app.
  public var bundleId: String?
  /// The product whose renewal dates were extended.
  public var productId: String?
  /// The id that the request for the extension bore.
  public var requestIdentifier: String?
  /// The storefronts of the request, as ISO 3166-1 alpha-3 codes.
  public var storefrontCountryCodes: [String]?
  /// How many subscriptions were extended.
  public var succeededCount: Int64?
  /// How many could not be extended.
  public var failedCount: Int64?

  /// A summary for an app; everything else is set afterwards.
  public init(environment: Environment, bundleId: String) {
    self.environment = environment
    self.bundleId = bundleId
  }
}

/// A token for an external purchase (`externalPurchaseToken` of a notification).
public struct ExternalPurchaseToken: Codable, Hashable, Sendable {
  /// The token's id; begins with SANDBOX in the sandbox.
  public var externalPurchaseId: String?
  /// When it was made.
  @Milliseconds public var tokenCreationDate: Date? = nil
  /// When it expires.
  @Milliseconds public var tokenExpirationDate: Date? = nil
  /// What it is for: ACQUISITION or SERVICES.
  public var tokenType: String?
  /// Apple's number of the app.
  public var appAppleId: Int64?
  /// The app.
  public var bundleId: String?

  /// Nothing set.
  public init() {}

  /// The sandbox if the id begins with SANDBOX, else production; nil without an id.
  public var environment: Environment? {
    externalPurchaseId.map { $0.utf8.starts(with: "SANDBOX".utf8) ? .sandbox : .production }
  }
}

/// The app as a whole (`appData` of a notification).
public struct NotificationAppData: Codable, Hashable, Sendable {
  /// Where it happened.
  public var environment: Environment?
  /// Apple's number of the app; missing in the sandbox.
  public var appAppleId: Int64?
  /// The app.
  public var bundleId: String?
  /// A JWS of an `AppTransaction`.
  public var signedAppTransactionInfo: String?

  /// Data of an app; everything else is set afterwards.
  public init(environment: Environment, bundleId: String) {
    self.environment = environment
    self.bundleId = bundleId
  }
}
