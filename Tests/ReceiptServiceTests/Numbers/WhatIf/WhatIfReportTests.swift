import AppStoreSimulator
import Configuration
import Foundation
import Subscriptions
import Testing
import Text

@testable import Numbers
@testable import ReceiptService

/// The report of `receiptd what-if`, and the lines of its CSV file.
@Suite struct WhatIfReportTests {
  /// The shipped configuration without the individual plan and without days of grace, and with six child devices for a
  /// family.
  private static func other() throws -> AppCatalog {
    let shipped = try JSONSerialization.jsonObject(with: Data(ScreenTime.configuration().utf8))
    var file = try #require(shipped as? [String: Any])
    var apps = try #require(file["apps"] as? [[String: Any]])
    let index = try #require(apps.firstIndex { $0["bundleID"] as? String == ScreenTime.bundleID })
    var products = try #require(apps[index]["products"] as? [String: Any])
    products[ScreenTime.individual] = nil
    apps[index]["products"] = products
    apps[index]["grace"] = nil
    var tiers = try #require(apps[index]["tiers"] as? [String: [String: Any]])
    var features = try #require(tiers["family"]?["features"] as? [String: Any])
    features["childDevices"] = 6
    tiers["family"]?["features"] = features
    apps[index]["tiers"] = tiers
    file["apps"] = apps
    return try AppCatalog(json: JSONSerialization.data(withJSONObject: file), named: "other")
  }

  @Test
  func `the report has the gravest change first, and tells who notices at once, who later and since when`()
    async throws
  {
    try await withScreenTime { harness in
      // A device id that a spreadsheet would take for a formula.
      let odd = #"=1,"phone""#
      try await harness.device(odd, buys: ScreenTime.individual)
      try await harness.device("tablet", buys: ScreenTime.individual)
      try await harness.device("mother", buys: ScreenTime.family)
      // Two trials that end at different times, and then have grace.
      let launched = try await harness.launch("new", account: "anna")
      let end = try #require(launched.date("trial.endsAt"))
      harness.clock.advance(days: 3)
      _ = try await harness.launch("newer", account: "boris")
      var findings: [WhatIf.Finding] = []
      let reports = try await harness.service.compare(
        with: Self.other(), bundleID: ScreenTime.bundleID, at: harness.clock.now
      ) { _, _ in
      } found: {
        findings.append($0)
      }
      #expect(reports.count == 1)
      #expect(
        reports.first?.description == """
          ScreenTime Rewards (com.screentimerewards): 5 of 5 customers would notice
            loses access: 4
              2 at once, 2 later, the first on \(Day(of: end))
              they stand for USD 15.98 a month
            changes childDevices: 1
              1 at once
              they stand for USD 12.99 a month
          """)

      #expect(
        WhatIf.Finding.csvColumns
          == "bundle_id,customer,change,at,access_before,access_after,tier_before,tier_after,monthly_revenue")
      let lines = Dictionary(uniqueKeysWithValues: findings.map { ($0.customer.id, $0.csv) })
      let now = harness.clock.now.rfc3339
      #expect(
        lines[odd]
          == #"com.screentimerewards,"'=1,""phone""",loses access,\#(now),active,expired,individual,,USD 7.99"#
      )
      #expect(
        lines["mother"]
          == "com.screentimerewards,mother,changes childDevices,\(now),active,active,family,family,USD 12.99")
      #expect(
        lines["new"]
          == "com.screentimerewards,new,loses access,\(end.rfc3339),grace,expired,,,")
    }
  }

  @Test func `children's devices that a smaller limit pauses, or a larger one opens, are counted`()
    async throws
  {
    try await withScreenTime { harness in
      try await harness.device("mother", buys: ScreenTime.family)
      for child in ["ann", "ben", "cai"] {
        #expect(try await harness.pair(child, to: "mother").status == 201)
      }
      func line(_ limit: Int) async throws -> String? {
        let configuration = try ScreenTime.configuration()
        let other = configuration.replacing(
          "\"childDevices\": 5", with: "\"childDevices\": \(limit)")
        #expect(limit == 5 || other != configuration)
        return try await harness.service.compare(
          with: AppCatalog(json: Data(other.utf8), named: "other"), bundleID: ScreenTime.bundleID,
          at: harness.clock.now, progress: { _, _ in }, found: { _ in }
        ).first?.childrenWords
      }
      #expect(try await line(1) == "children's devices: 2 would be paused")
      #expect(try await line(5) == nil)
      // Already three of five are open.
      #expect(try await line(6) == nil)
    }
  }

  @Test func `kinds of changes are ordered by their gravity`() {
    let kinds: [AccessChange.Kind] = [
      .losesAccess, .changesTier(from: "family", to: "individual"), .changesFeatures(["analytics"]),
      .gainsAccess,
    ]
    #expect(kinds.reversed().sorted() == kinds)
  }
}
