import AppStore
import FoundationEssentials

/// A customer's purchase.
public struct PurchaseRequest: Hashable, Sendable {
  /// The app.
  public var bundleID: String
  /// What is bought.
  public var productID: String
  /// The Apple Account; nil for a customer who was never seen before.
  public var accountID: String?
  /// The app's own id of its customer.
  public var appAccountToken: UUID?
  /// The offer for the first period.
  public var offer: StoreOffer?
  /// Whether a purchase with an offer is announced by `OFFER_REDEEMED`, as the App Store once did, and not
  /// by `SUBSCRIBED`.
  public var announcesOffer: Bool
  /// Bought, or received from a family that is not known here. What a known purchaser shares comes by
  /// ``SubscriptionCommand/share(accountID:)``.
  public var ownership: InAppOwnershipType
  /// When it was bought; nil for now.
  public var purchaseDate: Date?
  /// How many; more than one of consumables only.
  public var quantity: Int

  /// A purchase at full price by a new customer, unless said otherwise.
  public init(
    bundleID: String, productID: String, accountID: String? = nil, appAccountToken: UUID? = nil,
    offer: StoreOffer? = nil, announcesOffer: Bool = false, ownership: InAppOwnershipType = .purchased,
    purchaseDate: Date? = nil, quantity: Int = 1
  ) {
    self.bundleID = bundleID
    self.productID = productID
    self.accountID = accountID
    self.appAccountToken = appAccountToken
    self.offer = offer
    self.announcesOffer = announcesOffer
    self.ownership = ownership
    self.purchaseDate = purchaseDate
    self.quantity = quantity
  }
}
