import Actions
import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import Testing

@testable import Console
@testable import ReceiptService

/// *Health*: all servers by their heartbeats, and what an operator should look at; the switches, and the readable
/// export.
@Suite struct ConsoleHealthTests {
  private static func beat(_ service: Service) async throws {
    try await service.sharedResources.heartbeat.beat(configuration: service.configurationDigest)
  }

  /// The page without the list of runs.
  private static func health(_ lead: ConsoleBrowser) async throws -> String {
    let page = try await lead.page("/console/health")
    return page.split(separator: "<h2>Reconciling").first.map(String.init) ?? page
  }

  @Test func `any server shows all servers, and the figures of their last minute`() async throws {
    try await withHarness(role: "receiptd_app") { harness in
      let lead = try await ConsoleBrowser(harness, .lead)
      #expect(try await Self.health(lead).contains("No heartbeat yet."))
      try await Self.beat(harness.service)
      // Before there are two readings, there is no rate.
      #expect(
        try await harness.count("servers WHERE requests_per_second IS NULL AND p99_seconds IS NULL") == 1)
      for _ in 0..<90 {
        #expect(try await harness.send(.get, "/.well-known/jwks.json").status == 200)
      }
      harness.clock.advance(seconds: 15)
      try await Self.beat(harness.service)
      let row = try await harness.pool.query("SELECT * FROM servers")[0]
      #expect(try row.decode("requests_per_second", as: Double.self) == 6)
      #expect(try row.decode("server_errors", as: Int.self) == 0)
      #expect(try row.decode("p99_seconds", as: Double.self) > 0)
      #expect(try row.decode("version", as: String.self) == BuildInfo.current.version)

      // The window is about a minute: what was before counts no more.
      for _ in 0..<5 {
        harness.clock.advance(seconds: 15)
        try await Self.beat(harness.service)
      }
      let idle = try await harness.pool.query("SELECT * FROM servers")[0]
      #expect(try idle.decode("requests_per_second", as: Double.self) == 0)
      #expect(try idle.decode("p99_seconds", as: Double?.self) == nil)

      let other = try await harness.service(configuration: TestApps.json + " ", settings: ["PORT": "3999"])
      try await Self.beat(other)
      let page = try await Self.health(lead)
      #expect(page.contains(":3999</td>") && page.contains(other.configurationDigest))
      #expect(page.contains(harness.service.configurationDigest))
      #expect(page.contains("/console/runbooks/ReceiptdConfigurationsDiffer"))
      // A server that stops takes its row with it.
      await other.close()
      #expect(try await harness.count("servers") == 1)
      #expect(!(try await Self.health(lead)).contains("ReceiptdConfigurationsDiffer"))
    }
  }

  @Test func `a server without a heartbeat is told, and forgotten after a day`() async throws {
    try await withHarness(role: "receiptd_app") { harness in
      let lead = try await ConsoleBrowser(harness, .lead)
      _ = try await harness.pool.query(
        """
        INSERT INTO servers (id, name, version, configuration, started_at, seen_at, requests_per_second, p99_seconds)
        VALUES (gen_random_uuid(), 'dead:3000', '0.1.0', 'abc', \(harness.clock.now - 3_600), \(harness.clock.now - 61),
          'NaN', 'Infinity')
        """)
      try await Self.beat(harness.service)
      let page = try await Self.health(lead)
      #expect(page.contains("dead:3000 has had no heartbeat") && page.contains(">silent</span>"))
      // Its configuration is no matter.
      #expect(page.contains("/console/runbooks/ReceiptdDown") && !page.contains("ConfigurationsDiffer"))
      harness.clock.advance(seconds: 86_400)
      let next = try await ConsoleBrowser(harness, .lead)
      try await Self.beat(harness.service)
      #expect(!(try await Self.health(next)).contains("dead:3000"))
    }
  }

  @Test func `each condition leads to a runbook that exists`() async throws {
    try await withHarness(role: "receiptd_app") { harness in
      let lead = try await ConsoleBrowser(harness, .lead)
      try await Self.beat(harness.service)
      #expect(try await Self.health(lead).contains("Nothing. Prometheus has further alerts."))
      let (_, bought) = try await harness.customer()
      let now = harness.clock.now
      for statement: Query in [
        """
        INSERT INTO servers (id, name, version, configuration, started_at, seen_at, requests_per_second, server_errors,
          p99_seconds, open_circuits)
        VALUES (gen_random_uuid(), 'other:3000', '0.1.0', 'abc', \(now), \(now), 5, 40, 10, '{com.example (Sandbox)}'),
          (gen_random_uuid(), 'dead:3000', '0.1.0', 'abc', \(now), \(now - 100), 5, 40, 10, '{}')
        """,
        "UPDATE subscriptions SET next_change_at = \(now - 301)",
        """
        UPDATE notifications SET processed_at = NULL, outcome = 'unknown_product'
        WHERE original_transaction_id = \(bought.originalTransactionID)
        """,
        """
        INSERT INTO outbox (destination, key, bundle_id, endpoint, payload, dead_at, created_at, last_error)
        VALUES ('cloudkit', 'a', \(TestApps.family), '', '{}', \(now), \(now - 901), 'BAD'),
          ('cloudkit', 'b', \(TestApps.family), '', '{}', NULL, \(now - 901), NULL),
          ('profiles', 'c', NULL, '', '{}', NULL, \(now - 10), 'profiles: refused (P0001)')
        """,
        """
        INSERT INTO reconcile_runs (bundle_id, environment, started_at, finished_at, read_from, notifications_read,
          notifications_missed, statuses_asked, repaired, error)
        VALUES (\(TestApps.climbing), 'Production', \(now), \(now), \(now), 1, 0, 0, '{}', 'no response')
        """,
      ] {
        _ = try await harness.pool.query(statement)
      }
      let page = try await Self.health(lead)
      let alerts = Set(page.matches(of: /\/console\/runbooks\/(\w+)/).map { String($0.1) })
      #expect(
        alerts == [
          "ReceiptdDown", "ReceiptdServerErrors", "ReceiptdValidationSlow", "ReceiptdStoreCircuitOpen",
          "ReceiptdConfigurationsDiffer", "ReceiptdSweepLag", "ReceiptdNotificationsWaiting",
          "ReceiptdOutboxOld",
          "ReceiptdDeadLetters", "ReceiptdProfileWrites", "ReceiptdReconcileIncomplete",
        ])
      for alert in alerts {
        let runbook = try await lead.page("/console/runbooks/\(alert)")
        #expect(runbook.contains("<h1>\(alert)</h1>") && runbook.contains("<p>"))
      }
      #expect(try await lead.get("/console/runbooks/Nothing").status == 404)
    }
  }

  @Test func `every alert of the configuration has a runbook that the console shows`() async throws {
    let file = URL(filePath: #filePath).deletingLastPathComponent().appending(
      path: "../../../config/alerts.yml")
    let text = try String(contentsOf: file.standardizedFileURL, encoding: .utf8)
    let alerts = text.matches(of: /alert: (\w+)/).map { String($0.1) }
    #expect(alerts.count > 30)
    try await withHarness { harness in
      let lead = try await ConsoleBrowser(harness, .lead)
      for alert in alerts {
        #expect(try await lead.get("/console/runbooks/\(alert)").status == 200, "\(alert)")
      }
    }
  }

  @Test func `a banner tells that new trials are paused, and the configuration page the line to change`()
    async throws
  {
    func page(_ configuration: String, _ path: String) async throws -> String {
      var text = ""
      try await withHarness(configuration: configuration) { harness in
        text = try await ConsoleBrowser(harness, .lead).page(path)
      }
      return text
    }
    let top = try #require(
      JSONSerialization.jsonObject(with: Data(TestApps.json.utf8)) as? [String: Any])
    var apps = try #require(top["apps"] as? [[String: Any]])
    let index = try #require(apps.firstIndex { $0["bundleID"] as? String == TestApps.family })
    apps[index]["newTrials"] = "paused"
    let paused = String(
      decoding: try JSONSerialization.data(withJSONObject: ["apps": apps]), as: UTF8.self)
    let banner = "New trials are paused: no trial of \(TestApps.family) starts"
    #expect(try await page(paused, "/console/search").contains(banner))
    #expect(!(try await page(TestApps.json, "/console/search")).contains("New trials are paused"))
    let switches = try await page(paused, "/console/configuration")
    #expect(
      switches.contains("&quot;newTrials&quot;: &quot;open&quot;") && switches.contains(">paused</span>"))
    let open = try await page(TestApps.json, "/console/configuration")
    #expect(open.contains("&quot;newTrials&quot;: &quot;paused&quot;") && !open.contains(">paused</span>"))
  }

  @Test func `the export is a page to read and print, with a row for all that the file has`() async throws {
    try await withHarness(role: "receiptd_app") { harness in
      let (user, bought) = try await harness.customer()
      let lead = try await ConsoleBrowser(harness, .lead)
      let id = user.uuidString.lowercased()
      let customer = try await lead.page("/console/customer/\(id)")
      let path = "/console/customer/\(id)/export/page?bundleID=\(TestApps.climbing)"
      #expect(customer.contains(path))
      let page = try await lead.page(path)
      let file = try await lead.get("/console/customer/\(id)/export?bundleID=\(TestApps.climbing)")
      let tables = try #require(file["tables"] as? [[String: Any]])
      #expect(tables.count > 3)
      for table in tables {
        let name = try #require(table["table"] as? String)
        let rows = try #require(table["rows"] as? [Any])
        #expect(page.contains("<h2>\(name) <span class=\"quiet\">\(rows.count)</span></h2>"), "\(name)")
      }
      #expect(
        page.contains(bought.originalTransactionID) && page.contains("<dt>original transaction id</dt>"))
      #expect(page.contains("The same as JSON"))
      _ = try await harness.pool.query(
        """
        INSERT INTO support_actions (action, by, actor, reason, bundle_id, to_customer, customer_kind)
        SELECT 'note', 'ada', 'operator', 'note ' || n, \(TestApps.climbing), \(id), 'user' FROM generate_series(1, 130) AS n
        """)
      #expect(try await lead.page(path).contains("more rows are in the JSON file"))
      #expect(try await ConsoleBrowser(harness, .agent).get(path).status == 403)
    }
  }
}
