import AppStore
import Foundation

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

extension StoreApp {
  /// An app with all product variants: levels, lengths and groups of subscriptions, a weekly one that is shorter than
  /// its billing grace, family-shareable products, and one-time purchases of every kind.
  public static let everything = StoreApp(
    bundleID: "com.example.everything", appAppleID: 1_500_000_009,
    products: [
      .subscription("basic.weekly", period: .week), .subscription("basic.monthly"),
      .subscription("basic.monthly.other"), .subscription("basic.annual", period: .year),
      .subscription("plus.weekly", period: .week, rank: 2),
      .subscription("family.monthly", rank: 3, isFamilyShareable: true),
      .subscription("news.monthly", group: "20000002", isFamilyShareable: true),
      .oneTime("lifetime", isFamilyShareable: true), .oneTime("coins", type: .consumable),
      .oneTime("season", type: .nonRenewingSubscription),
    ])
}

/// The apps on sale, in the form of receiptd's configuration, so that one file can serve both.
///
/// Of each app it reads `bundleID`, `appAppleID`, `products` and the `rank` of its `tiers`. Members for the simulator
/// alone are `billingGrace` of an app, and `type`, `period`, `group`, `rank` and `isFamilyShareable` of a product.
/// Defaults: `monthly` or `annual` in a product's id gives its period, and a product without a period is a
/// non-consumable.
public struct CatalogFile: Decodable, Sendable {
  /// The apps.
  public let apps: [StoreApp]

  /// Reads a file.
  public static func read(_ file: URL) throws -> [StoreApp] {
    try JSONDecoder().decode(CatalogFile.self, from: Data(contentsOf: file)).apps
  }
}

extension StoreApp: Decodable {
  private enum Key: CodingKey { case bundleID, appAppleID, billingGrace, products, tiers }

  private struct Tier: Decodable {
    let rank: Int?
  }

  /// Decodes one app of a ``CatalogFile``.
  public init(from decoder: any Decoder) throws {
    let app = try decoder.container(keyedBy: Key.self)
    self.init(
      bundleID: try app.decode(String.self, forKey: .bundleID),
      appAppleID: try app.decodeIfPresent(Int64.self, forKey: .appAppleID) ?? 1)
    // The empty text turns billing grace off.
    if let grace = try app.decodeIfPresent(String.self, forKey: .billingGrace) {
      billingGrace = StorePeriod(grace)
    }
    let tiers = try app.decodeIfPresent([String: Tier].self, forKey: .tiers) ?? [:]
    for (id, product) in try app.decodeIfPresent([String: CatalogProduct].self, forKey: .products) ?? [:] {
      let rank = product.rank ?? product.tier.flatMap { tiers[$0]?.rank } ?? 1
      // Older builds of an app sell the product under an alias.
      for name in [id] + (product.aliases ?? []) {
        products[name] = product.storeProduct(id: name, rank: rank)
      }
    }
  }
}

/// One product of a ``CatalogFile``.
private struct CatalogProduct: Decodable {
  let tier: String?
  let aliases: [String]?
  let type: ProductType?
  let period: StorePeriod?
  let group: String?
  let rank: Int?
  /// In units by currency.
  let price: [String: Double]?
  let isFamilyShareable: Bool?

  func storeProduct(id: String, rank: Int) -> StoreProduct {
    let period = type.map { $0 == .autoRenewableSubscription } == false ? nil : period ?? Self.period(in: id)
    let currency = price.flatMap { $0["USD"] == nil ? $0.keys.min() : nil } ?? "USD"
    return StoreProduct(
      id: id, type: type ?? (period == nil ? .nonConsumable : .autoRenewableSubscription), period: period,
      group: period == nil ? nil : group ?? "20000001", rank: rank,
      price: price?[currency].map { Int64(($0 * 1000).rounded()) } ?? Self.price(for: period),
      currency: currency, isFamilyShareable: isFamilyShareable ?? true)
  }

  private static func period(in id: String) -> StorePeriod? {
    let words = Set(id.lowercased().split { !$0.isLetter })
    if !words.isDisjoint(with: ["monthly", "month"]) { return .month }
    if !words.isDisjoint(with: ["annual", "annually", "yearly", "year"]) { return .year }
    if !words.isDisjoint(with: ["weekly", "week"]) { return .week }
    return nil
  }

  private static func price(for period: StorePeriod?) -> Int64 {
    switch period?.unit {
    case .year: 49_990
    case .month: 4_990
    case .week, .day: 1_990
    case nil: 990
    }
  }
}
