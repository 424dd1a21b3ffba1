import Configuration
import Foundation
import Subscriptions
import Testing

@testable import Numbers
@testable import ReceiptService

@Suite struct PriceTests {
  private func prices(_ price: String) throws(ConfigurationProblem) -> [String: Int64]? {
    let json = """
      { "apps": [{ "bundleID": "a", "customer": "device", "tiers": { "t": {} },
        "products": { "p": { "tier": "t", "aliases": ["old"], "price": \(price) } } }] }
      """
    return try AppCatalog(json: Data(json.utf8), named: "apps.json")["a"]?.product(named: "old")?.prices
  }

  @Test func `prices are stored in thousandths of each currency's unit`() throws {
    #expect(
      try prices(#"{"USD": 7.99, "JPY": 1200, "KWD": 2.125, "EUR": 0}"#)
        == ["USD": 7_990, "JPY": 1_200_000, "KWD": 2_125, "EUR": 0])
    // Every price in cents, with the rounding error of Double.
    for cents in 0..<2_000 {
      let text = "\(cents / 100).\(cents % 100 / 10)\(cents % 10)"
      #expect(try prices("{\"USD\": \(text)}") == ["USD": Int64(cents) * 10])
    }
  }

  @Test func `an invalid configured price is refused with its path`() throws {
    for (price, place) in [
      ("7.99", "price"), (#"{"usd": 1}"#, "price.usd"), (#"{"DOLLAR": 1}"#, "price.DOLLAR"),
      (#"{"USD": "1"}"#, "price.USD"), (#"{"USD": -1}"#, "price.USD"), (#"{"USD": 1.2345}"#, "price.USD"),
      (#"{"USD": 1e12}"#, "price.USD"), (#"{"USD": null}"#, "price.USD"),
    ] {
      let problem = #expect(throws: ConfigurationProblem.self) { try prices(price) }
      let text = problem?.description ?? ""
      #expect(text.contains("products.p.\(place)"), "\(text)")
    }
  }

  @Test func `the default currency is USD if it is configured, else the first one`() throws {
    func listed(_ price: String) throws -> [String] {
      let json = """
        { "apps": [{ "bundleID": "a", "customer": "device", "tiers": { "t": {} },
          "products": { "p": { "tier": "t", "aliases": ["old"], "price": \(price) } } }] }
        """
      return PriceList(try AppCatalog(json: Data(json.utf8), named: "apps.json")).prices
        .map { "\($0.name) \($0.currency)\($0.isDefault ? " usual" : "")" }
    }
    #expect(try listed(#"{"EUR": 1, "USD": 1}"#) == ["p EUR", "p USD usual", "old EUR", "old USD usual"])
    #expect(try listed(#"{"SEK": 1, "EUR": 1}"#) == ["p EUR usual", "p SEK", "old EUR usual", "old SEK"])
    #expect(try listed("{}") == [])
  }
}
