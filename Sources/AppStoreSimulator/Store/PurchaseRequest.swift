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

/// An offer for one period of a subscription.
public struct StoreOffer: Hashable, Sendable {
  /// Introductory, promotional, offer code or win-back.
  public var type: OfferType
  /// Free, or paid up front.
  public var discountType: OfferDiscountType
  /// The length of the period.
  public var period: StorePeriod
  /// The price in milliunits.
  public var price: Int64
  /// `offerIdentifier`; introductory offers have none.
  public var identifier: String?

  /// Makes a discount for one month: a promotional offer, an offer code or a win-back offer.
  public static func discount(
    _ type: OfferType, price: Int64 = 990, period: StorePeriod = .month, identifier: String = "offer"
  ) -> StoreOffer {
    StoreOffer(
      type: type, discountType: .payUpFront, period: period, price: price, identifier: identifier)
  }

  /// Makes a free introductory period, a week by default.
  public static func freeTrial(_ period: StorePeriod = .week) -> StoreOffer {
    StoreOffer(type: .introductoryOffer, discountType: .freeTrial, period: period, price: 0)
  }
}

extension StoreOffer: Decodable {
  private enum Key: CodingKey { case type, period, price, identifier }

  /// Decodes the `offer` of the control API, by default free for a month.
  public init(from decoder: any Decoder) throws {
    let body = try decoder.container(keyedBy: Key.self)
    type = try body.decode(OfferType.self, forKey: .type)
    period = try body.decodeIfPresent(StorePeriod.self, forKey: .period) ?? .month
    price = try body.decodeIfPresent(Int64.self, forKey: .price) ?? 0
    discountType = price == 0 ? .freeTrial : .payUpFront
    identifier = try body.decodeIfPresent(String.self, forKey: .identifier)
    if type != .introductoryOffer, identifier == nil { identifier = "offer" }
  }
}
