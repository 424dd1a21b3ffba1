import FoundationEssentials

/// What one signed transaction (Apple's `JWSTransactionDecodedPayload`) says, as far as the rules need it.
///
/// A transaction is signed again whenever something about it changes (a refund, an extension, a
/// re-download), so a fact is identified by `transactionID` and replaced by a later `signedAt`.
public struct TransactionFact: Sendable, Hashable {
  /// Apple's `transactionId`: unique to the purchase or renewal.
  public var transactionID: String
  /// Apple's `originalTransactionId`: the same for every period of one subscription.
  public var originalTransactionID: String
  /// Apple's `bundleId`.
  public var bundleID: String
  /// Apple's `environment`.
  public var environment: StoreEnvironment
  /// Apple's `productId`, as it was sold (an alias is not resolved here).
  public var productID: String
  /// Apple's `type`.
  public var kind: PurchaseKind
  /// Apple's `inAppOwnershipType`: `PURCHASED` or `FAMILY_SHARED`.
  public var ownership: String
  /// When this period was bought. A renewal is charged up to a day before, so it can lie ahead of `signedAt`.
  public var purchaseDate: Date
  /// Apple's `originalPurchaseDate`.
  public var originalPurchaseDate: Date?
  /// The end of the paid time; `nil` for what never expires.
  public var expiresDate: Date?
  /// When Apple refunded it or took it back from the family; `nil` if it stands.
  public var revocationDate: Date?
  /// Apple's `isUpgraded`: a better product replaced it before its end.
  public var isUpgraded: Bool
  /// Apple's `appAccountToken` of the latest signature that carries one; `nil` where it is missing or all zeros in
  /// every signature.
  public var appAccountToken: UUID?
  /// The `signedDate` of the signature that carries ``appAccountToken``; `nil` without a token.
  public var tokenSignedAt: Date?
  /// Apple's `appTransactionId`: stable for one Apple Account and app.
  public var appTransactionID: String?
  /// The configured price in thousandths of the currency's unit, not what was earned.
  public var priceMilliunits: Int64?
  /// ISO 4217.
  public var currency: String?
  /// Apple's `signedDate`.
  public var signedAt: Date

  /// Creates a fact; every parameter is described at its property.
  /// - Parameter tokenSignedAt: `nil` where the signature of `signedAt` carries the token.
  public init(
    transactionID: String, originalTransactionID: String, bundleID: String,
    environment: StoreEnvironment, productID: String, kind: PurchaseKind,
    ownership: String = "PURCHASED", purchaseDate: Date, originalPurchaseDate: Date? = nil,
    expiresDate: Date? = nil, revocationDate: Date? = nil, isUpgraded: Bool = false,
    appAccountToken: UUID? = nil, appTransactionID: String? = nil, priceMilliunits: Int64? = nil,
    currency: String? = nil, signedAt: Date, tokenSignedAt: Date? = nil
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
    self.isUpgraded = isUpgraded
    self.appAccountToken = appAccountToken
    self.appTransactionID = appTransactionID
    self.priceMilliunits = priceMilliunits
    self.currency = currency
    self.signedAt = signedAt
    self.tokenSignedAt = appAccountToken == nil ? nil : tokenSignedAt ?? signedAt
  }
}

/// Apple's `type` of a transaction. Open, because Apple may add to it.
public struct PurchaseKind: RawRepresentable, Sendable, Hashable {
  /// Apple's own word.
  public var rawValue: String
  /// Keeps any word, known or not.
  public init(rawValue: String) { self.rawValue = rawValue }
  /// `Auto-Renewable Subscription`
  public static let autoRenewable = PurchaseKind(rawValue: "Auto-Renewable Subscription")
  /// `Non-Consumable`
  public static let nonConsumable = PurchaseKind(rawValue: "Non-Consumable")
  /// `Non-Renewing Subscription`
  public static let nonRenewing = PurchaseKind(rawValue: "Non-Renewing Subscription")
  /// `Consumable`
  public static let consumable = PurchaseKind(rawValue: "Consumable")
}
