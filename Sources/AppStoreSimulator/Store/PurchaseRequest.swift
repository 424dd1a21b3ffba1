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
  /// The id of the transaction; nil for a new one. For purchases that another database names already.
  public var transactionID: String?

  /// Makes a request; by default at full price by a new customer.
  public init(
    bundleID: String, productID: String, accountID: String? = nil, appAccountToken: UUID? = nil,
    offer: StoreOffer? = nil, announcesOffer: Bool = false, ownership: InAppOwnershipType = .purchased,
    purchaseDate: Date? = nil, transactionID: String? = nil
  ) {
    self.bundleID = bundleID
    self.productID = productID
    self.accountID = accountID
    self.appAccountToken = appAccountToken
    self.offer = offer
    self.announcesOffer = announcesOffer
    self.ownership = ownership
    self.purchaseDate = purchaseDate
    self.transactionID = transactionID
  }
}

extension PurchaseRequest: Decodable {
  private enum Key: CodingKey {
    case bundleID, productID, account, appAccountToken, freeTrial, offer, announcesOffer, ownership
    case purchaseDate, transactionID
  }

  /// Decodes the body of `POST /control/purchases`.
  public init(from decoder: any Decoder) throws {
    let body = try decoder.container(keyedBy: Key.self)
    self.init(
      bundleID: try body.decode(String.self, forKey: .bundleID),
      productID: try body.decode(String.self, forKey: .productID))
    accountID = try body.decodeIfPresent(String.self, forKey: .account)
    appAccountToken = try body.decodeIfPresent(UUID.self, forKey: .appAccountToken)
    if try body.decodeIfPresent(Bool.self, forKey: .freeTrial) == true { offer = .freeTrial() }
    offer = try body.decodeIfPresent(StoreOffer.self, forKey: .offer) ?? offer
    announcesOffer = try body.decodeIfPresent(Bool.self, forKey: .announcesOffer) ?? false
    ownership = try body.decodeIfPresent(InAppOwnershipType.self, forKey: .ownership) ?? .purchased
    purchaseDate = try body.decodeIfPresent(Date.self, forKey: .purchaseDate)
    transactionID = try body.decodeIfPresent(String.self, forKey: .transactionID)
  }
}
