import AppStore

/// An app on sale in the simulated store.
public struct StoreApp: Codable, Hashable, Sendable {
  /// The bundle id.
  public var bundleID: String
  /// The app's number in the App Store.
  public var appAppleID: Int64
  /// `bundleVersion` of notifications and `applicationVersion` of app transactions.
  public var version: String
  /// Whether the app was ever released. The production API knows nothing of an app that was not, and
  /// answers 401 to its developer.
  public var isReleased = true
  /// How long billing grace lasts where it is switched on (App Store Connect offers 3, 16 and 28 days);
  /// nil where it is off.
  public var billingGrace: StorePeriod?
  /// What can be bought, by product id.
  public var products: [String: StoreProduct]

  /// An app with these products; the billing grace of sixteen days is on unless nil is given.
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
  /// What kind of purchase it is.
  public var type: ProductType
  /// How long one purchase lasts; nil for what does not renew.
  public var period: StorePeriod?
  /// The subscription group's number; nil for what does not renew.
  public var group: String?
  /// The level within the group: changing to a higher rank is an upgrade.
  public var rank: Int
  /// The price in milliunits of ``currency``: 4990 is 4.99.
  public var price: Int64
  /// ISO 4217.
  public var currency: String
  /// What a new subscriber may be given first.
  public var introductoryOffer: StoreOffer?
  /// Whether the customer's family may use it.
  public var isFamilyShareable: Bool

  /// An auto-renewable subscription.
  public static func subscription(
    _ id: String, period: StorePeriod = .month, group: String = "20000001", rank: Int = 1,
    price: Int64 = 4990, currency: String = "USD", introductoryOffer: StoreOffer? = nil,
    isFamilyShareable: Bool = false
  ) -> StoreProduct {
    StoreProduct(
      id: id, type: .autoRenewableSubscription, period: period, group: group, rank: rank, price: price,
      currency: currency, introductoryOffer: introductoryOffer, isFamilyShareable: isFamilyShareable)
  }

  /// A product that is charged once: a non-consumable unless another type is given.
  public static func oneTime(
    _ id: String, type: ProductType = .nonConsumable, price: Int64 = 990, currency: String = "USD",
    isFamilyShareable: Bool = false
  ) -> StoreProduct {
    StoreProduct(
      id: id, type: type, period: nil, group: nil, rank: 1, price: price, currency: currency,
      introductoryOffer: nil, isFamilyShareable: isFamilyShareable)
  }
}

/// An offer at which a subscription is bought for its first period.
public struct StoreOffer: Codable, Hashable, Sendable {
  /// Introductory, promotional, offer code or win-back.
  public var type: OfferType
  /// Free, or paid by period or up front.
  public var discountType: OfferDiscountType
  /// How long the first period lasts.
  public var period: StorePeriod
  /// What it costs, in milliunits.
  public var price: Int64
  /// `offerIdentifier`; introductory offers have none.
  public var identifier: String?

  /// An offer.
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

  /// A lower price for one month by a promotional offer, an offer code or a win-back offer.
  public static func discount(
    _ type: OfferType, price: Int64 = 990, period: StorePeriod = .month, identifier: String = "offer"
  ) -> StoreOffer {
    StoreOffer(
      type: type, discountType: .payUpFront, period: period, price: price, identifier: identifier)
  }

  /// A free introductory period, a week by default.
  public static func freeTrial(_ period: StorePeriod = .week) -> StoreOffer {
    StoreOffer(type: .introductoryOffer, discountType: .freeTrial, period: period, price: 0)
  }
}
