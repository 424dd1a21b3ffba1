import AppStore

/// An app on sale in the simulated store.
public struct StoreApp: Codable, Hashable, Sendable {
  /// The bundle id.
  public var bundleID: String
  /// The app's number in the App Store.
  public var appAppleID: Int64
  /// `bundleVersion` of notifications and `applicationVersion` of app transactions.
  public var version: String
  /// Whether the app was ever released. The production API answers 401 for an app that was not.
  public var isReleased = true
  /// The length of billing grace (App Store Connect offers 3, 16 and 28 days); nil if it is off.
  public var billingGrace: StorePeriod?
  /// The products by product id.
  public var products: [String: StoreProduct]

  /// Makes an app with a billing grace of 16 days by default.
  public init(
    bundleID: String, appAppleID: Int64, version: String = "1.0",
    billingGrace: StorePeriod? = StorePeriod(16, .day), products: [StoreProduct] = []
  ) {
    self.bundleID = bundleID
    self.appAppleID = appAppleID
    self.version = version
    self.billingGrace = billingGrace
    self.products = Dictionary(products.map { ($0.id, $0) }) { _, last in last }
  }
}

/// A product of an app.
public struct StoreProduct: Codable, Hashable, Sendable {
  /// The product id.
  public var id: String
  /// The kind of product.
  public var type: ProductType
  /// The length of a period; nil for products that do not renew.
  public var period: StorePeriod?
  /// The number of the subscription group; nil for products that do not renew.
  public var group: String?
  /// The level within the group: a change to a higher rank is an upgrade.
  public var rank: Int
  /// The price in milliunits of ``currency``: 4990 is 4.99.
  public var price: Int64
  /// ISO 4217.
  public var currency: String
  /// The offer for new subscribers.
  public var introductoryOffer: StoreOffer?
  /// Whether the customer's family may use the product.
  public var isFamilyShareable: Bool

  /// Makes an auto-renewable subscription.
  public static func subscription(
    _ id: String, period: StorePeriod = .month, group: String = "20000001", rank: Int = 1,
    price: Int64 = 4990, currency: String = "USD", introductoryOffer: StoreOffer? = nil,
    isFamilyShareable: Bool = false
  ) -> StoreProduct {
    StoreProduct(
      id: id, type: .autoRenewableSubscription, period: period, group: group, rank: rank, price: price,
      currency: currency, introductoryOffer: introductoryOffer, isFamilyShareable: isFamilyShareable)
  }

  /// Makes a product that is charged once: a non-consumable by default.
  public static func oneTime(
    _ id: String, type: ProductType = .nonConsumable, price: Int64 = 990, currency: String = "USD",
    isFamilyShareable: Bool = false
  ) -> StoreProduct {
    StoreProduct(
      id: id, type: type, period: nil, group: nil, rank: 1, price: price, currency: currency,
      introductoryOffer: nil, isFamilyShareable: isFamilyShareable)
  }
}

/// An offer for one period of a subscription.
public struct StoreOffer: Codable, Hashable, Sendable {
  /// Introductory, promotional, offer code or win-back.
  public var type: OfferType
  /// Free, or paid by period or up front.
  public var discountType: OfferDiscountType
  /// The length of the period.
  public var period: StorePeriod
  /// The price in milliunits.
  public var price: Int64
  /// `offerIdentifier`; introductory offers have none.
  public var identifier: String?

  /// Makes an offer.
  public init(
    type: OfferType, discountType: OfferDiscountType, period: StorePeriod, price: Int64,
    identifier: String? = nil
  ) {
    self.type = type
    self.discountType = discountType
    self.period = period
    self.price = price
    self.identifier = identifier
  }

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
