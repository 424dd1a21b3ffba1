import FoundationEssentials

/// The purchase or download of the app itself (Apple's `AppTransaction`).
public struct AppTransaction: SignedPayload {
  /// The app.
  public var bundleId: String
  /// Where the app was got. Apple calls it receipt type; the words are those of an environment.
  public var receiptType: Environment
  /// When Apple signed it.
  @Milliseconds public var receiptCreationDate: Date

  /// Apple's number of the app; missing or 0 in the sandbox.
  public var appAppleId: Int64?
  /// The version of the app that the transaction was made for (CFBundleVersion).
  public var applicationVersion: String?
  /// Apple's number of that version.
  public var versionExternalIdentifier: Int64?
  /// When the customer first bought or downloaded the app, on any device.
  @Milliseconds public var originalPurchaseDate: Date? = nil
  /// The version that the customer first got. In the sandbox always 1.0.
  public var originalApplicationVersion: String?
  /// Where the customer first got it.
  public var originalPlatform: PurchasePlatform?
  /// When the customer ordered the app before it was out.
  @Milliseconds public var preorderDate: Date? = nil
  /// One Apple Account and this app, over reinstalls, refunds and storefronts.
  public var appTransactionId: String?
  /// A hash that ties the transaction to a device (base64).
  public var deviceVerification: String?
  /// The nonce in that hash.
  public var deviceVerificationNonce: UUID?

  /// An app transaction with what gives it its identity; everything else is set afterwards.
  public init(bundleId: String, receiptType: Environment, receiptCreationDate: Date) {
    self.bundleId = bundleId
    self.receiptType = receiptType
    self.receiptCreationDate = receiptCreationDate
  }

  /// `receiptCreationDate`.
  public var signedAt: Date { receiptCreationDate }

  /// `receiptType`, by the name that the other payloads give it.
  public var environment: Environment { receiptType }
}
