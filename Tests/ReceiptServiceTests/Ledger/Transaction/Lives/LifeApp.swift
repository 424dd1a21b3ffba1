import AppStore
import AppStoreSimulator
import Subscriptions

extension App {
  /// receiptd's configuration of the lives' app. For odd seeds it has its own grace and sets the length of products
  /// without renewal.
  static func everything(forSeed seed: UInt64) -> App {
    let hasMore = !seed.isMultiple(of: 2)
    return App(
      bundleID: StoreApp.everything.bundleID, name: "Everything", customer: .user,
      products: StoreApp.everything.products.values.map { product in
        Product(
          id: product.id, tier: "tier\(product.rank)",
          accessDays: product.type == .nonRenewingSubscription && hasMore ? 90 : nil)
      },
      tiers: (1...3).map { Tier(name: "tier\($0)", rank: $0, features: [:]) }, free: [:],
      grace: hasMore ? Allowance(days: 7, features: [:]) : nil)
  }
}
