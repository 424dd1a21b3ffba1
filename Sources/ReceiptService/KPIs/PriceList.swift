import Configuration
import Subscriptions

/// The products and prices of the configuration as rows, one for each name of a product.
struct PriceList: Sendable {
  struct ListedProduct: Sendable, Hashable {
    var bundleID: String
    /// The product id or an alias.
    var name: String
    /// The product id.
    var productID: String
    var tier: String
    var accessDays: Int32?
  }

  struct ListedPrice: Sendable, Hashable {
    var bundleID: String
    var name: String
    var currency: String
    var milliunits: Int64
    /// Whether it is used for a transaction without a currency: USD, else the first by alphabet.
    var isDefault: Bool
  }

  private(set) var products: [ListedProduct] = []
  private(set) var prices: [ListedPrice] = []

  init(_ catalog: AppCatalog) {
    for app in catalog.apps {
      for product in app.products.values.sorted(by: { $0.id < $1.id }) {
        for name in [product.id] + product.aliases {
          products.append(
            ListedProduct(
              bundleID: app.bundleID, name: name, productID: product.id, tier: product.tier,
              accessDays: product.accessDays.map { Int32(clamping: $0) }))
          let usual = product.prices["USD"] != nil ? "USD" : product.prices.keys.min()
          for (currency, milliunits) in product.prices.sorted(by: { $0.key < $1.key }) {
            prices.append(
              ListedPrice(
                bundleID: app.bundleID, name: name, currency: currency, milliunits: milliunits,
                isDefault: currency == usual))
          }
        }
      }
    }
  }
}
