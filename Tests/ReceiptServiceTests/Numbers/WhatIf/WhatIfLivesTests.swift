import Configuration
import Customers
import Foundation
import Postgres
import Subscriptions
import Testing
import Work

@testable import Ledger
@testable import Numbers
@testable import ReceiptService

/// `receiptd what-if` against a second server with the other configuration, which computes every purchase again; both servers are asked
/// about every customer at many instants. ``WhatIfManyLivesTests`` has more lives.
@Suite struct WhatIfLivesTests {
  @Test(arguments: seeds)
  func `what-if names exactly the customers whose access another server would give differently`(seed: UInt64)
    async throws
  {
    let apps = [ScreenTime.bundleID, Heatlab.bundleID, SwiftClimb.bundleID, Thaqalayn.bundleID]
    try await withShippedApps {
      $0
    } _: { harness in
      var life = CustomerLife(seed: seed, of: apps[Int(seed % 4)], in: harness)
      try await life.run(20, in: harness)
      let instant = harness.clock.now
      var random = SeededGenerator(seed: seed &+ 1_000_003)
      for _ in 0..<10 {
        let other = try OtherConfiguration(of: life.bundleID, &random)
        var findings: [String: WhatIf.Finding] = [:]
        let before = try await harness.allRows(of: "subscriptions")
        let reports = try await harness.service.compare(
          with: AppCatalog(json: Data(other.text.utf8), named: "other"), bundleID: life.bundleID, at: instant
        ) { _, _ in
        } found: { finding in
          findings[finding.customer.id] = finding
        }
        #expect(try await harness.allRows(of: "subscriptions") == before)
        #expect(reports[0].groups.values.reduce(0) { $0 + $1.now + $1.later } == findings.count)
        let problems = try await Self.disagreements(
          findings, about: life, with: other.text, from: instant, harness)
        #expect(
          problems.isEmpty,
          """
          seed \(seed), \(life.bundleID): \(problems.joined(separator: "; "))
          \(other.changes.joined(separator: "; "))
          \(life.history.joined(separator: "\n"))
          """)
      }
    }
  }

  private static let seeds: [UInt64] = Array(0..<12)

  private static func disagreements(
    _ findings: [String: WhatIf.Finding], about life: CustomerLife, with configuration: String,
    from instant: Date, _ harness: Harness
  ) async throws -> [String] {
    let customers = life.customers.map { UUID(uuidString: $0).map(Customer.user) ?? .device($0) }
    let former = try await answers(harness.service, to: customers, of: life.bundleID)
    let second = try await harness.service(configuration: configuration)
    try await recompute(life.bundleID, by: second)
    let latter = try await answers(second, to: customers, of: life.bundleID)
    await second.close()
    try await recompute(life.bundleID, by: harness.service)
    var found: [String] = []
    for customer in customers {
      guard let before = former[customer], let after = latter[customer] else { continue }
      let finding = findings[customer.id]
      func differ(at instant: Date) -> Bool {
        let (a, b) = (before(instant), after(instant))
        return a.isAccessGranted != b.isAccessGranted || a.features != b.features
          || a.isAccessGranted && a.tier != b.tier
      }
      // Every three hours for 450 days, until the found change.
      for step in 0..<3_600 {
        let at = instant + Double(step) * 10_800
        if let finding, at >= finding.change.at { break }
        if differ(at: at) {
          found.append(
            "\(customer.id) differs at \(at), and what-if says \(finding.map { "\($0.change)" } ?? "nothing")"
          )
          break
        }
      }
      if let finding, !differ(at: finding.change.at) {
        found.append("\(customer.id) does not differ at \(finding.change)")
      }
    }
    return found
  }

  /// What a server answers to customers who have a record, by the rows that it wrote.
  private static func answers(
    _ service: Service, to customers: [Customer], of bundleID: String
  ) async throws -> [Customer: (Date) -> Entitlements] {
    let app = try #require(service.catalog[bundleID])
    let records = try await service.pool.customerRecords(
      users: customers.compactMap(\.userID), devices: customers.compactMap(\.deviceID))
    return Dictionary(
      uniqueKeysWithValues: customers.filter { records[$0].has(of: app) }.map { customer in
        (
          customer,
          { at in
            app.entitlements(
              of: records.customerRecords(of: customer, in: app, at: at), for: customer, at: at)
          }
        )
      })
  }

  /// Has a server write all purchases of an app again.
  private static func recompute(_ bundleID: String, by service: Service) async throws {
    let app = try #require(service.catalog[bundleID])
    let rows = try await service.pool.query(
      "SELECT original_transaction_id AS id FROM subscriptions WHERE bundle_id = \(bundleID)")
    for row in rows {
      _ = try await service.notifications.ledger.record(
        LedgerEntry(
          app: app, originalTransactionID: row.decode("id"), because: .time, instant: service.clock.now()))
    }
  }
}

/// The shipped configuration with random changes of one app.
private struct OtherConfiguration {
  private(set) var text: String
  private(set) var changes: [String] = []

  init(of bundleID: String, _ random: inout SeededGenerator) throws {
    let shipped = Data(try ScreenTime.configuration().utf8)
    var file = try #require(try JSONSerialization.jsonObject(with: shipped) as? [String: Any])
    var apps = try #require(file["apps"] as? [[String: Any]])
    let index = try #require(apps.firstIndex { $0["bundleID"] as? String == bundleID })
    var app = apps[index]
    for _ in 0..<Int.random(in: 1...3, using: &random) {
      switch Int.random(in: 0..<5, using: &random) {
      case 0:
        let days = Int.random(in: 0...20, using: &random)
        changes.append("grace of \(days) days")
        app["grace"] = days == 0 ? nil : ["days": days, "features": [:]]
      case 1:
        var products = try #require(app["products"] as? [String: Any])
        guard products.count > 1, let gone = products.keys.sorted().randomElement(using: &random) else {
          continue
        }
        changes.append("without \(gone)")
        products[gone] = nil
        app["products"] = products
      case 2:
        var tiers = try #require(app["tiers"] as? [String: [String: Any]])
        guard let name = tiers.keys.sorted().randomElement(using: &random) else { continue }
        changes.append("other features of \(name)")
        tiers[name]?["features"] = ["novelty": Int.random(in: 0..<3, using: &random)]
        app["tiers"] = tiers
      case 3:
        changes.append("other free features")
        app["free"] = ["features": ["novelty": Int.random(in: 0..<3, using: &random)]]
      default:
        var tiers = try #require(app["tiers"] as? [String: [String: Any]])
        var products = try #require(app["products"] as? [String: [String: Any]])
        guard let product = products.keys.sorted().randomElement(using: &random) else { continue }
        changes.append("\(product) opens a new tier")
        tiers["novel"] = ["rank": Int.random(in: 3...9, using: &random), "features": ["novelty": 9]]
        products[product]?["tier"] = "novel"
        (app["tiers"], app["products"]) = (tiers, products)
      }
    }
    apps[index] = app
    file["apps"] = apps
    text = String(decoding: try JSONSerialization.data(withJSONObject: file), as: UTF8.self)
  }
}

extension Harness {
  /// All rows of a table as one text.
  fileprivate func allRows(of table: String) async throws -> String {
    try await pool.query(
      "SELECT coalesce(string_agg(t::text, ' ' ORDER BY t::text), '') AS text FROM \(unescaped: table) t"
    )[0].decode("text")
  }
}
