import AppStore
import Foundation

/// A customer's purchase.
public struct PurchaseRequest: Hashable, Sendable {
  /// The app.
  public var bundleID: String
  /// The product.
  public var productID: String
  /// The Apple Account; nil for a new one.
  public var accountID: String?
  /// The app's own id of its customer.
  public var appAccountToken: UUID?
  /// The offer for the first period.
  public var offer: StoreOffer?
  /// Whether the notification of a purchase with an offer is `OFFER_REDEEMED`, the older form, instead of `SUBSCRIBED`.
  public var announcesOffer: Bool
  /// Bought, or shared by a family outside of this store. ``SubscriptionCommand/share(accountID:)`` shares a purchase
  /// of this store.
  public var ownership: InAppOwnershipType
  /// The time of the purchase; nil for now.
  public var purchaseDate: Date?
  /// The quantity; more than one only for consumables.
  public var quantity: Int

  /// Makes a request; by default at full price by a new customer.
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
