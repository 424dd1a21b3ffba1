import Foundation

/// The fields of a signed transaction (Apple's `JWSTransactionDecodedPayload`) that the rules need.
///
/// Apple signs a transaction again after each change (a refund, an extension, a re-download). So `transactionID`
/// identifies a fact, and a later `signedAt` replaces it.
public struct TransactionFact: Sendable, Hashable {
  /// Apple's `transactionId`: unique to the purchase or renewal.
  public var transactionID: String
  /// Apple's `originalTransactionId`: the same for every period of one subscription.
  public var originalTransactionID: String
  /// Apple's `bundleId`.
  public var bundleID: String
  /// Apple's `environment`.
  public var environment: StoreEnvironment
  /// Apple's `productId`; aliases are not resolved.
  public var productID: String
  /// Apple's `type`.
  public var kind: PurchaseKind
  /// Apple's `inAppOwnershipType`: `PURCHASED` or `FAMILY_SHARED`.
  public var ownership: String
  /// The start of this period. A renewal is charged up to a day ahead, so the date can be later than `signedAt`.
  public var purchaseDate: Date
  /// Apple's `originalPurchaseDate`.
  public var originalPurchaseDate: Date?
  /// The end of the paid time; nil for a purchase without an end.
  public var expiresDate: Date?
  /// When Apple refunded it or revoked it from Family Sharing; nil if it is valid.
  public var revocationDate: Date?
  /// The latest ``revocationDate`` of all signatures, or the date of a notification that reversed one. Where
  /// ``revocationDate`` is nil, Apple has reversed the revocations up to it.
  public var latestRevocation: Date?
  /// Apple's `isUpgraded`: an upgrade replaced it before its end.
  public var isUpgraded: Bool
  /// Apple's `appAccountToken` of the latest signature with one; nil if every signature has none or zeros.
  public var appAccountToken: UUID?
  /// The `signedDate` of the signature with ``appAccountToken``; nil without a token.
  public var tokenSignedAt: Date?
  /// Whether other signatures of the transaction have another token.
  public var isTokenChanged: Bool
  /// Apple's `appTransactionId`: stable for one Apple Account and app.
  public var appTransactionID: String?
  /// The price in thousandths of the currency's unit, not the proceeds.
  public var priceMilliunits: Int64?
  /// The currency code (ISO 4217).
  public var currency: String?
  /// Whether Apple's `offerDiscountType` is `FREE_TRIAL`.
  public var isFreeOffer: Bool
  /// Apple's `signedDate`.
  public var signedAt: Date

  /// Creates a fact; every parameter is described at its property.
  ///
  /// - Parameters:
  ///   - latestRevocation: nil if no other signature had a later revocation.
  ///   - tokenSignedAt: nil if the signature of `signedAt` has the token.
  public init(
    transactionID: String, originalTransactionID: String, bundleID: String,
    environment: StoreEnvironment, productID: String, kind: PurchaseKind,
    ownership: String = "PURCHASED", purchaseDate: Date, originalPurchaseDate: Date? = nil,
    expiresDate: Date? = nil, revocationDate: Date? = nil, isUpgraded: Bool = false,
    appAccountToken: UUID? = nil, appTransactionID: String? = nil, priceMilliunits: Int64? = nil,
    currency: String? = nil, isFreeOffer: Bool = false, signedAt: Date, tokenSignedAt: Date? = nil,
    latestRevocation: Date? = nil, isTokenChanged: Bool = false
  ) {
    self.transactionID = transactionID
    self.originalTransactionID = originalTransactionID
    self.bundleID = bundleID
    self.environment = environment
    self.productID = productID
    self.kind = kind
    self.ownership = ownership
    self.purchaseDate = purchaseDate
    self.originalPurchaseDate = originalPurchaseDate
    self.expiresDate = expiresDate
    self.revocationDate = revocationDate
    self.isTokenChanged = isTokenChanged
    self.latestRevocation = [revocationDate, latestRevocation].compactMap(\.self).max()
    self.isUpgraded = isUpgraded
    self.appAccountToken = appAccountToken
    self.appTransactionID = appTransactionID
    self.priceMilliunits = priceMilliunits
    self.currency = currency
    self.isFreeOffer = isFreeOffer
    self.signedAt = signedAt
    self.tokenSignedAt = appAccountToken == nil ? nil : tokenSignedAt ?? signedAt
  }
}

/// Apple's `type` of a transaction. Not an enumeration, because Apple may add types.
public struct PurchaseKind: RawRepresentable, Sendable, Hashable {
  /// Apple's value.
  public var rawValue: String
  /// A kind from any value.
  public init(rawValue: String) { self.rawValue = rawValue }
  /// `Auto-Renewable Subscription`
  public static let autoRenewable = PurchaseKind(rawValue: "Auto-Renewable Subscription")
  /// `Non-Consumable`
  public static let nonConsumable = PurchaseKind(rawValue: "Non-Consumable")
  /// `Non-Renewing Subscription`
  public static let nonRenewing = PurchaseKind(rawValue: "Non-Renewing Subscription")
  /// `Consumable`
  public static let consumable = PurchaseKind(rawValue: "Consumable")

  /// Whether a restore may give the purchase another transaction: it has no periods, and the customer does not consume it.
  package var isRestoredWhole: Bool { self == .nonConsumable || self == .nonRenewing }
}

extension TransactionFact {
  /// The part of a purchase's time that has passed, from 0 to 1.
  ///
  /// - Parameter accessDays: how long a purchase without an expiry of its own gives access; nil for no end.
  /// - Returns: nil for a purchase without an end, such as a lifetime unlock.
  public func consumedShare(at instant: Date, accessDays: Int?) -> Double? {
    let end = expiresDate ?? accessDays.map { purchaseDate.addingTimeInterval(TimeInterval($0) * 86_400) }
    guard let end else { return nil }
    let length = end.timeIntervalSince(purchaseDate)
    guard length > 0 else { return 1 }
    return min(max(instant.timeIntervalSince(purchaseDate) / length, 0), 1)
  }
}

/// Apple's `environment` of a purchase.
public enum StoreEnvironment: String, Sendable, Hashable, CaseIterable {
  /// Real purchases.
  case production = "Production"
  /// Testers, TestFlight and App Review.
  case sandbox = "Sandbox"
  /// StoreKit tests in Xcode, on a development server. They count like the sandbox.
  case xcode = "Xcode"
}
