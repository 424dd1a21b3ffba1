import AppStore
import Foundation

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
