import AppStore
import Foundation

/// The apps on sale, in the form of receiptd's configuration, so that one file can serve both.
///
/// Of each app it reads `bundleID`, `appAppleID`, `products` and the `rank` of its `tiers`. Members for the simulator
/// alone are `isReleased` and `billingGrace` of an app, and `type`, `period`, `group`, `rank`, `price` (milliunits, or
/// receiptd's units by currency), `currency`, `freeTrial` and `isFamilyShareable` of a product. Defaults: `monthly` or
/// `annual` in a product's id gives its period, and a product without a period is a non-consumable.
public struct CatalogFile: Decodable, Sendable {
  /// The apps.
  public let apps: [StoreApp]

  /// Reads a file.
  public static func read(_ file: URL) throws -> [StoreApp] {
    try JSONDecoder().decode(CatalogFile.self, from: Data(contentsOf: file)).apps
  }

  /// Decodes `{"apps": […]}`.
  public init(from decoder: any Decoder) throws {
    enum Key: CodingKey { case apps }
    apps = try decoder.container(keyedBy: Key.self).decode([CatalogApp].self, forKey: .apps).map(\.app)
  }
}

/// One app of a ``CatalogFile``.
struct CatalogApp: Decodable {
  let bundleID: String
  let appAppleID: Int64?
  let version: String?
  let isReleased: Bool?
  /// An ISO 8601 duration; the empty text turns billing grace off.
  let billingGrace: String?
  let products: [String: CatalogProduct]?
  let tiers: [String: Tier]?

  struct Tier: Decodable {
    let rank: Int?
  }

  var app: StoreApp {
    var app = StoreApp(bundleID: bundleID, appAppleID: appAppleID ?? 1, version: version ?? "1.0")
    app.isReleased = isReleased ?? true
    if let billingGrace { app.billingGrace = StorePeriod(billingGrace) }
    for (id, product) in products ?? [:] {
      let rank = product.rank ?? product.tier.flatMap { tiers?[$0]?.rank } ?? 1
      // Older builds of an app sell the product under an alias.
      for name in [id] + (product.aliases ?? []) {
        app.products[name] = product.storeProduct(id: name, rank: rank)
      }
    }
    return app
  }
}

/// One product of a ``CatalogFile``.
struct CatalogProduct: Decodable {
  let tier: String?
  let aliases: [String]?
  let type: ProductType?
  let period: StorePeriod?
  let group: String?
  let rank: Int?
  let price: CatalogPrice?
  let currency: String?
  let freeTrial: StorePeriod?
  let isFamilyShareable: Bool?

  func storeProduct(id: String, rank: Int) -> StoreProduct {
    let isSubscription = type.map { $0 == .autoRenewableSubscription }
    let period =
      isSubscription == false ? nil : period ?? Self.period(in: id) ?? (isSubscription.map { _ in .month })
    return StoreProduct(
      id: id, type: type ?? (period == nil ? .nonConsumable : .autoRenewableSubscription), period: period,
      group: period == nil ? nil : group ?? "20000001", rank: rank,
      price: price?.milliunits(in: currency) ?? Self.price(for: period),
      currency: price?.currency(preferring: currency) ?? currency ?? "USD",
      introductoryOffer: freeTrial.map(StoreOffer.freeTrial), isFamilyShareable: isFamilyShareable ?? true)
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

/// The price of a product: one amount, or one per currency.
enum CatalogPrice: Decodable {
  case milliunits(Int64)
  case units([String: Double])

  init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    if let amount = try? container.decode(Int64.self) {
      self = .milliunits(amount)
    } else {
      self = .units(try container.decode([String: Double].self))
    }
  }

  /// The currency of the price: the wanted one, else USD, else the first.
  func currency(preferring wanted: String?) -> String? {
    guard case .units(let amounts) = self else { return nil }
    return [wanted, "USD"].compactMap(\.self).first { amounts[$0] != nil } ?? amounts.keys.min()
  }

  func milliunits(in wanted: String?) -> Int64? {
    switch self {
    case .milliunits(let amount): amount
    case .units(let amounts):
      currency(preferring: wanted).flatMap { amounts[$0] }.map { Int64(($0 * 1000).rounded()) }
    }
  }
}
