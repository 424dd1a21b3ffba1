import AppStore
import Foundation
import Testing

@testable import AppStoreSimulator

struct CatalogTests {
  private static func app(_ json: String) throws -> StoreApp {
    let catalog = try JSONDecoder().decode(CatalogFile.self, from: Data("{\"apps\":[\(json)]}".utf8))
    return try #require(catalog.apps.first)
  }

  @Test func `the simulator sells the products of receiptd's own configuration`() throws {
    let app = try Self.app(
      """
      { "bundleID": "com.example", "appAppleID": 7, "customer": "user", "trial": { "days": 30 },
        "products": {
          "com.example.individual.monthly": { "tier": "individual", "aliases": ["old.monthly"] },
          "com.example.family.annual": { "tier": "family" },
          "com.example.forever": { "tier": "family" } },
        "tiers": { "individual": { "rank": 1, "features": {} }, "family": { "rank": 2 } } }
      """)
    #expect(app.bundleID == "com.example")
    #expect(app.appAppleID == 7)
    #expect(app.products.count == 4)
    let monthly = try #require(app.products["com.example.individual.monthly"])
    #expect(monthly.period == .month)
    #expect(monthly.type == .autoRenewableSubscription)
    #expect(monthly.rank == 1)
    #expect(app.products["old.monthly"]?.period == .month)
    #expect(app.products["com.example.family.annual"]?.period == .year)
    #expect(app.products["com.example.family.annual"]?.rank == 2)
    #expect(app.products["com.example.family.annual"]?.group == monthly.group)
    #expect(app.products["com.example.forever"]?.type == .nonConsumable)
    #expect(app.products["com.example.forever"]?.group == nil)
  }

  @Test func `explicit members of an app and its products override the simulator's defaults`() throws {
    let app = try Self.app(
      """
      { "bundleID": "b", "appAppleID": 7, "billingGrace": "P3D", "products": {
        "x": { "period": "P6M", "group": "9", "rank": 4, "price": { "EUR": 1.5 },
               "isFamilyShareable": false },
        "monthly.coins": { "type": "Consumable" } } }
      """)
    #expect(app.billingGrace == StorePeriod(3, .day))
    let product = try #require(app.products["x"])
    #expect(product.period == StorePeriod(6, .month))
    #expect(product.group == "9")
    #expect(product.rank == 4)
    #expect(product.price == 1500)
    #expect(product.currency == "EUR")
    #expect(!product.isFamilyShareable)
    #expect(app.products["monthly.coins"]?.type == .consumable)
    #expect(app.products["monthly.coins"]?.period == nil)
  }

  @Test func `an empty billingGrace turns billing grace off, and the default is 16 days`() throws {
    #expect(try Self.app(#"{ "bundleID": "b", "billingGrace": "" }"#).billingGrace == nil)
    #expect(try Self.app(#"{ "bundleID": "b" }"#).billingGrace == StorePeriod(16, .day))
  }
}
