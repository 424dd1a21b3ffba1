import AppStore

/// An app on sale in the simulated store.
public struct StoreApp: Hashable, Sendable {
  /// The bundle id.
  public var bundleID: String
  /// The app's number in the App Store.
  public var appAppleID: Int64
  /// `bundleVersion` of notifications and `applicationVersion` of app transactions.
  public let version = "1.0"
  /// The length of billing grace (App Store Connect offers 3, 16 and 28 days); nil if it is off.
  public var billingGrace: StorePeriod? = StorePeriod(16, .day)
  /// The products by product id.
  public var products: [String: StoreProduct]

  /// Makes an app with a billing grace of 16 days.
  public init(bundleID: String, appAppleID: Int64, products: [StoreProduct] = []) {
    self.bundleID = bundleID
    self.appAppleID = appAppleID
    self.products = Dictionary(products.map { ($0.id, $0) }) { _, last in last }
  }
}

/// A product of an app.
public struct StoreProduct: Hashable, Sendable {
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
  public var currency = "USD"
  /// The storefront of purchases: ISO 3166-1 alpha-3.
  public var storefront = "USA"
  /// Whether the customer's family may use the product.
  public var isFamilyShareable: Bool

  /// Makes an auto-renewable subscription.
  public static func subscription(
    _ id: String, period: StorePeriod = .month, group: String = "20000001", rank: Int = 1,
    price: Int64 = 4990, isFamilyShareable: Bool = false
  ) -> StoreProduct {
    StoreProduct(
      id: id, type: .autoRenewableSubscription, period: period, group: group, rank: rank, price: price,
      isFamilyShareable: isFamilyShareable)
  }

  /// Makes a product that is charged once: a non-consumable by default.
  public static func oneTime(
    _ id: String, type: ProductType = .nonConsumable, price: Int64 = 990, isFamilyShareable: Bool = false
  ) -> StoreProduct {
    StoreProduct(id: id, type: type, rank: 1, price: price, isFamilyShareable: isFamilyShareable)
  }
}
