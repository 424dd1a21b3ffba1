import Foundation
import Logging
import Postgres
import TestDatabase
import Testing

@testable import Actions
@testable import ReceiptService

/// *What-if*: what a pasted configuration would change, within bounds, stored and logged nowhere.
@Suite struct ConsoleWhatIfTests {
  private static func configuration(_ change: (inout [String: Any]) -> Void) throws -> String {
    let top = try #require(
      JSONSerialization.jsonObject(with: Data(TestApps.json.utf8)) as? [String: Any])
    var apps = try #require(top["apps"] as? [[String: Any]])
    for index in apps.indices where apps[index]["bundleID"] as? String == TestApps.climbing {
      change(&apps[index])
    }
    // Of several lines, as people paste it.
    let data = try JSONSerialization.data(withJSONObject: ["apps": apps], options: .prettyPrinted)
    return String(decoding: data, as: UTF8.self)
  }

  /// A record of all that is stored.
  private static func stored(_ harness: Harness) async throws -> [Int] {
    var counts: [Int] = []
    for table in ["support_actions", "subscriptions", "configured_apps", "outbox", "notifications"] {
      counts.append(try await harness.count(table))
    }
    return counts
  }

  @Test func `a pasted configuration tells who loses what, with the monthly revenue, and stores nothing`()
    async throws
  {
    try await withHarness(role: "receiptd_app") { harness in
      for _ in 0..<3 { _ = try await harness.customer() }
      let lead = try await ConsoleBrowser(harness, .lead)
      #expect(try await lead.page("/console/configuration").contains("/console/what-if"))
      #expect(try await lead.page("/console/what-if").contains("<textarea"))
      let before = try await Self.stored(harness)
      // The product is sold no more.
      let text = try Self.configuration { app in
        var products = app["products"] as? [String: Any] ?? [:]
        products[TestApps.monthly] = nil
        app["products"] = products
      }
      let answer = try await lead.post("/console/what-if", ["configuration": text])
      let page = answer.text.split(whereSeparator: \.isWhitespace).joined(separator: " ")
      #expect(answer.status == 200, "\(page)")
      #expect(page.contains("<b>3</b> of 3 customers would notice"), "\(page)")
      #expect(page.contains("loses access") && page.contains("USD 14.97"), "\(page)")
      let same = try await lead.post("/console/what-if", ["configuration": Self.configuration { _ in }])
      #expect(same.text.contains("<b>0</b> of 3 customers would notice"))
      #expect(try await Self.stored(harness) == before)
      let agent = try await ConsoleBrowser(harness, .agent)
      #expect(try await agent.post("/console/what-if", ["configuration": text]).status == 403)
    }
  }

  @Test func `a faulty configuration is told above the form, and no line of it reaches the log`() async throws
  {
    let log = LogLines()
    let secret = "MIGTAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBHkwdwIBAQQg"
    try await withTestDatabase(migrationsFolder: Harness.migrations) { database in
      let harness = try await Harness(
        databaseURL: database.uri, configuration: TestApps.json, databaseTimeout: .seconds(60),
        logger: Logger(label: "tests") { _ in log })
      let lead = try await ConsoleBrowser(harness, .lead)
      for text in [
        "{\n  \"apps\": [ {\"bundleID\": \"com.example\", \"key\": \"\(secret)\"} ]\n}", "\(secret)",
        "{\"apps\": []}", "",
      ] {
        let answer = try await lead.post("/console/what-if", ["configuration": text])
        #expect(answer.status == 400 && answer.text.contains("role=\"alert\""), "\(answer.text)")
        #expect(answer.text.contains(text.contains(secret) ? secret : "<textarea"))
      }
      let good = try Self.configuration { $0["name"] = secret }
      #expect(try await lead.post("/console/what-if", ["configuration": good]).status == 200)
      #expect(try await lead.post("/console/what-if", ["configuration": "a\u{1}b"]).status == 400)
      await harness.stop()
    }
    #expect(!log.all.contains { $0.contains(secret) })
  }

  @Test func `with more rows than a page compares, it names the command`() async throws {
    try await withHarness(role: "receiptd_app") { harness in
      _ = try await harness.pool.query(
        """
        INSERT INTO trials (bundle_id, device_id, started_at, ends_at)
        SELECT \(TestApps.family), 'phone ' || n, now(), now() + interval '1 day' FROM generate_series(1, 20001) AS n
        """)
      let lead = try await ConsoleBrowser(harness, .lead)
      let answer = try await lead.post("/console/what-if", ["configuration": Self.configuration { _ in }])
      #expect(answer.status == 200 && answer.text.contains("receiptd-admin what-if NEW-APPS.json"))
      #expect(answer.text.contains("&#39;trials&#39; has more rows") && !answer.text.contains("would notice"))
    }
  }
}
