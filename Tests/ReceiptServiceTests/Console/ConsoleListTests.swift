import Actions
import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import Testing

@testable import Console
@testable import ReceiptService

/// The screens *Lists*, *Queues* and *Record* with their filters.
@Suite struct ConsoleListTests {
  /// The lists, each with the customer or purchase of the world that only it must show.
  private static func expected(_ world: ConsoleWorld) -> [String: String] {
    var expected = world.purchases
    expected["trials"] = world.device
    expected["grants"] = world.device
    expected["refused"] = "4000000000000001"
    return expected
  }

  @Test func `each list has its rows, the same in CSV, and its filters narrow it`() async throws {
    try await withHarness(role: "receiptd_app") { harness in
      let world = try await ConsoleWorld(harness)
      let expected = Self.expected(world)
      let browser = try await ConsoleBrowser(harness, .agent)
      let menu = try await browser.page("/console/lists")
      let lists = Set(menu.matches(of: /\/console\/lists\?list=([a-z-]+)"/).map { String($0.1) })
      #expect(lists == Set(expected.keys))
      for (list, id) in expected {
        let isOfDevices = ["trials", "grants", "refused"].contains(list)
        let (own, other) =
          isOfDevices ? (TestApps.family, TestApps.climbing) : (TestApps.climbing, TestApps.family)
        // The monthly purchases of the world end within 31 days.
        let path = "/console/lists?list=\(list)&days=40"
        for app in ["", "&app=\(own)"] {
          let page = try await browser.page(path + app)
          #expect(page.contains(">\(id)</a>"), "\(path)\(app)")
          for (other, otherID) in world.purchases
          where other != list && !["renewing", "without-owner", "sandbox"].contains(list) {
            #expect(!page.contains(">\(otherID)</a>"), "\(other) in \(path)")
          }
          let csv = try await browser.get(path + app + "&format=csv")
          #expect(csv.headers[.contentType] == "text/csv; charset=utf-8")
          #expect(csv.headers[.contentDisposition] == "attachment; filename=\"\(list).csv\"")
          let lines = csv.text.split(separator: "\r\n")
          #expect(lines.first == "at,customer,purchase,app,product,what")
          #expect(lines.dropFirst().contains { $0.contains(id) }, "\(csv.text)")
          #expect(lines.count - 1 == page.components(separatedBy: "<tr><td>").count - 1, "\(list)")
          let row =
            ["twice": "customer", "trials": "trial", "grants": "grant"][list]
            ?? (["refused", "refund-requests"].contains(list) ? "request" : "purchase")
          let count = lines.count - 1
          #expect(page.contains(">\(count) \(row)\(count == 1 ? "" : "s")</p>"), "\(list): \(count)")
        }
        #expect(!(try await browser.page(path + "&app=\(other)")).contains(">\(id)</a>"), "\(path)")
      }
      let twice = try await browser.get("/console/lists?list=twice&format=csv").text
      for account in world.accounts { #expect(twice.contains("(Apple Account \(account))"), "\(twice)") }
      #expect(twice.split(separator: "\r\n").count == 2, "\(twice)")
      for (list, days) in [("renewing", 7), ("billing", 1), ("cancelled", 7)] {
        let id = try #require(expected[list])
        let page = try await browser.page("/console/lists?list=\(list)&days=\(days)")
        #expect(!page.contains(">\(id)</a>"), "\(list)")
      }
      for (days, shown) in [(400, 366), (0, 1), (-1, 1)] {
        let page = try await browser.page("/console/lists?days=\(days)")
        #expect(page.contains("name=\"days\" value=\"\(shown)\"") && page.contains(": \(shown) are shown."))
      }
      for query in ["list=nothing", "days=x", "days=99999999999999999999"] {
        #expect(try await browser.get("/console/lists?\(query)").status == 400, "\(query)")
      }
      #expect(try await browser.get("/console/lists?app=com.unknown").status == 404)
    }
  }

  @Test func `a customer who cancelled is listed until the app's own grace ends`() async throws {
    try await withScreenTime { harness in
      let present = harness.clock.now
      var purchases: [String: SignedOutcome] = [:]
      // A month ends one, three and ten days before now; the app's grace has seven days.
      for (name, days) in [("running", 25), ("graced", 34), ("ended", 45), ("paid", 34)] {
        harness.clock.set(present - TimeInterval(days) * 86_400)
        let bought = try await harness.device(name, buys: ScreenTime.individual)
        if name != "paid" {
          try await harness.happens(.setAutoRenew(false), to: bought.originalTransactionID)
        }
        purchases[name] = bought
      }
      harness.clock.set(present)
      let browser = try await ConsoleBrowser(harness, .agent)
      let page = try await browser.page("/console/lists?list=cancelled")
      let rows = page.components(separatedBy: "<tr><td>").dropFirst()
      #expect(rows.count == 2 && page.contains(">2 purchases</p>"), "\(page)")
      let graced = try #require(rows.first)
      #expect(graced.contains(try #require(purchases["graced"]).originalTransactionID), "\(graced)")
      #expect(
        graced.contains(/paid time is over, the app&#39;s own grace until [0-9-]{10} [0-9:]{5} UTC/),
        "\(graced)")
      let running = try #require(rows.last)
      #expect(running.contains(try #require(purchases["running"]).originalTransactionID))
      #expect(!running.contains("own grace"))
      #expect(running.contains("title=\"\(ScreenTime.bundleID)\">ScreenTime Rewards</td>"))
    }
  }

  @Test func `a list names products by short names with their ids as titles, and its CSV file by ids`()
    async throws
  {
    try await withHarness(role: "receiptd_app") { harness in
      _ = try await ConsoleWorld(harness)
      let browser = try await ConsoleBrowser(harness, .agent)
      for (list, count) in [("renewing", 2), ("twice", 1)] {
        let path = "/console/lists?list=\(list)&days=40"
        let page = try await browser.page(path)
        let cell = "<td title=\"\(TestApps.monthly)\">monthly</td>"
        #expect(page.components(separatedBy: cell).count - 1 >= count, "\(page)")
        #expect(!page.contains(">\(TestApps.monthly)<"))
        let csv = try await browser.get(path + "&format=csv").text
        #expect(csv.contains(",\(TestApps.monthly),") && !csv.contains(",monthly,"), "\(csv)")
      }
      // What the configuration does not have is its own name.
      _ = try await harness.pool.query("UPDATE subscriptions SET product_id = 'a.former.product'")
      let former = try await browser.page("/console/lists?list=renewing&days=40")
      #expect(former.contains("<td>a.former.product</td>"))
    }
  }

  @Test func `a price increase is listed also among those of many`() async throws {
    try await withHarness(role: "receiptd_app") { harness in
      let world = try await ConsoleWorld(harness)
      let browser = try await ConsoleBrowser(harness, .agent)
      let path = "/console/lists?list=price&days=40"
      let before = try await browser.get(path + "&format=csv").text
      #expect(before.contains(try #require(world.purchases["price"])))
      _ = try await harness.pool.query(
        """
        INSERT INTO renewals (original_transaction_id, environment, product_id, is_in_billing_retry, signed_at, other_claims)
        SELECT 'other ' || n, 'Production', \(TestApps.annual), false, \(harness.clock.now), '{"priceIncreaseStatus": 0}'
        FROM generate_series(1, 10001) AS n
        """)
      for app in ["", "&app=\(TestApps.climbing)"] {
        #expect(try await browser.get(path + app + "&format=csv").text == before)
      }
    }
  }

  @Test func `a list that is cut says so`() async throws {
    try await withHarness(role: "receiptd_app") { harness in
      _ = try await harness.pool.query(
        """
        INSERT INTO trials (bundle_id, device_id, started_at, ends_at)
        SELECT \(TestApps.family), 'phone ' || n, \(harness.clock.now - 86_400), \(harness.clock.now + 86_400)
        FROM generate_series(1, 201) AS n
        """)
      let page = try await ConsoleBrowser(harness, .agent).page("/console/lists?list=trials")
      #expect(page.contains("The first 200 trials of more. Narrow the filter, or take the CSV."))
      #expect(page.components(separatedBy: "<tr><td>").count - 1 == 200)

      let reason = String(repeating: "long ", count: 200)
      _ = try await harness.pool.query(
        """
        INSERT INTO grants (bundle_id, user_id, tier, starts_at, ends_at, reason, granted_by)
        SELECT \(TestApps.climbing)::text, gen_random_uuid(), 'premium', \(harness.clock.now - 60)::timestamptz,
          \(harness.clock.now + 60)::timestamptz, \(reason)::text, 'ada'
        FROM generate_series(1, 201)
        """)
      let browser = try await ConsoleBrowser(harness, .agent)
      let grants = try await browser.get("/console/lists?list=grants")
      #expect(grants.text.contains("<td>premium, by ada: long long") && grants.text.contains("…</td>"))
      #expect(grants.body.count < 150_000, "\(grants.body.count)")
      let csv = try await browser.get("/console/lists?list=grants&format=csv").text
      #expect(csv.contains("premium, by ada: \(reason)"))
    }
  }

  @Test func `a text that a spreadsheet would run is a text in a CSV file`() async throws {
    try await withHarness(role: "receiptd_app") { harness in
      let world = try await ConsoleWorld(harness)
      _ = try await harness.pool.query(
        "UPDATE trials SET device_id = \("=HYPERLINK(\"http://evil.example\")") WHERE device_id = \(world.device)"
      )
      let browser = try await ConsoleBrowser(harness, .agent)
      let csv = try await browser.get("/console/lists?list=trials&format=csv")
      #expect(csv.text.contains(#","'=HYPERLINK(""http://evil.example"")","#), "\(csv.text)")
    }
  }

  @Test func `the queues show each delivery by state, and what can be done about it`() async throws {
    try await withHarness(role: "receiptd_app") { harness in
      _ = try await ConsoleWorld(harness)
      let lead = try await ConsoleBrowser(harness, .lead)
      let all = try await lead.page("/console/queues")
      for text in ["the error of phone-1", "the error of phone-2", "Try all again", "id=\"live\""] {
        #expect(all.contains(text), "\(text)")
      }
      #expect(!all.contains("or more") && !all.contains("rows of each queue are counted"))
      _ = try await harness.pool.query(
        """
        INSERT INTO outbox (destination, key, payload, next_attempt_at)
        SELECT 'profiles', gen_random_uuid(), '{}', \(harness.clock.now + 3_600) FROM generate_series(1, 1001)
        """)
      let many = try await lead.page("/console/queues")
      #expect(
        many.contains(">1000 or more<") && many.contains("The first 1000 rows of each queue are counted."))
      #expect(many.components(separatedBy: ">cloudkit<").count >= 3, "\(many)")
      // Long errors do not make a large page.
      _ = try await harness.pool.query(
        """
        INSERT INTO outbox (destination, key, bundle_id, payload, next_attempt_at, last_error)
        SELECT kind, gen_random_uuid(), CASE kind WHEN 'webhook' THEN \(TestApps.family) END, '{"tables": ["profiles"]}',
          \(harness.clock.now + 3_600)::timestamptz, repeat('long error ', 27)
        FROM generate_series(1, 100), unnest(ARRAY['profiles', 'webhook']) AS kind
        """)
      let long = try await lead.get("/console/queues?state=waiting")
      #expect(long.body.count < 150_000, "\(long.body.count)")
      for text in ["These are the first 80.", "These are the first 30."] {
        #expect(long.text.contains(text), "\(text)")
      }
      #expect(
        long.text.contains("…</td>") && !long.text.contains(String(repeating: "long error ", count: 16)))
      _ = try await harness.pool.query("DELETE FROM outbox WHERE last_error LIKE 'long error%'")
      let dead = try await lead.page("/console/queues?state=dead&destination=cloudkit")
      #expect(dead.contains("the error of phone-2") && !dead.contains("the error of phone-1"))
      let waiting = try await lead.page("/console/queues?state=waiting")
      #expect(!waiting.contains("the error of phone-2") && waiting.contains("the error of phone-1"))
      let link = try #require(dead.firstMatch(of: /\/console\/act\/requeue\?rows=outbox%3A([0-9]+)/))
      let done = try await lead.act(
        "/console/act/requeue", ["rows": "outbox:\(link.1)", "reason": "fixed", "step": "do"])
      #expect(done.page.contains("requeue") && done.page.contains("fixed"))
      #expect(!(try await lead.page("/console/queues?state=dead")).contains("the error of phone-2"))
    }
  }

  @Test func `a selection of rows and notifications is one form, with a record of each`() async throws {
    try await withHarness(role: "receiptd_app") { harness in
      _ = try await ConsoleWorld(harness)
      let user = UUID()
      _ = try await harness.pool.query(
        """
        INSERT INTO outbox (destination, key, payload, attempts, last_error, next_attempt_at)
        VALUES ('profiles', \(user.uuidString.lowercased()), '{"tables": ["profiles"]}', 3,
          'profiles: refused (P0001)', \(harness.clock.now + 3_000))
        """)
      let lead = try await ConsoleBrowser(harness, .lead)
      let page = try await lead.page("/console/queues")
      // Which table, why, since when.
      let refused = try #require(page.split(separator: "<h2>").first { $0.hasPrefix("Statuses that an app") })
      for text in [
        user.uuidString.lowercased(), "<td>profiles</td>", "profiles: refused (P0001)", "Try again",
      ] {
        #expect(refused.contains(text), "\(text)")
      }
      let choices = page.matches(of: /name="rows" value="([^"]+)"/).map { String($0.1) }
      #expect(choices.contains { $0.hasPrefix("store_calls:") })
      let rows = try await harness.pool.query(
        "SELECT 'outbox:' || id AS row FROM outbox WHERE last_error IS NOT NULL ORDER BY id"
      ).map { try $0.decode("row", as: String.self) }
      #expect(rows.count == 3 && Set(rows).isSubset(of: choices))
      // Checkboxes come one by one.
      let query = rows.map { "rows=\($0.inQuery)" }.joined(separator: "&")
      let form = try await lead.page("/console/act/requeue?\(query)")
      let joined = rows.joined(separator: " ")
      #expect(form.contains("value=\"\(joined)\""))
      let before = try await harness.count("support_actions")
      let preview = try await lead.post("/console/act/requeue", ["rows": joined, "reason": "table mended"])
      #expect(
        preview.text.contains("3 deliveries requeued: \(rows.joined(separator: ", "))"), "\(preview.text)")
      #expect(try await harness.count("support_actions") == before)
      let some = joined + " outbox:999999"
      // No record tells which row was refused, so the answer is shown.
      let done = try await lead.post(
        "/console/act/requeue", ["rows": some, "reason": "table mended", "step": "do"])
      #expect(done.status == 200 && done.text.contains("The outbox has no row 999999."))
      #expect(done.text.contains("3 deliveries requeued"))
      #expect(try await harness.count("support_actions WHERE reason = 'table mended'") == 3)
      let later = try await harness.pool.query(
        "SELECT FROM outbox WHERE 'outbox:' || id = ANY(\(rows)) AND next_attempt_at > \(harness.clock.now)")
      #expect(later.isEmpty)
      #expect(try await harness.count("outbox WHERE dead_at IS NOT NULL") == 0)

      let uuids = try await harness.pool.query(
        "SELECT notification_uuid::text AS id FROM notifications ORDER BY received_at LIMIT 2"
      ).map { try $0.decode("id", as: String.self) }
      _ = try await lead.act(
        "/console/act/replay", ["notificationUUID": uuids.joined(separator: " "), "reason": "product added"])
      #expect(try await harness.count("support_actions WHERE reason = 'product added'") == 2)
    }
  }

  @Test func `the record is filtered by person, app, customer and action, and has pages`() async throws {
    try await withHarness(role: "receiptd_app") { harness in
      let user = UUID().uuidString.lowercased()
      for (name, days) in [("ada", 1), ("bob", 2)] {
        let author = try #require(Harness.makeAuthor(name, "reason of \(name)"))
        _ = try await harness.desk.grant(
          to: user, bundleID: TestApps.climbing, tier: "premium", days: days, by: author, isForced: true)
      }
      _ = try await harness.desk.grant(
        to: "phone", bundleID: TestApps.family, tier: "family", days: 1,
        by: #require(Harness.makeAuthor("cid", "reason of cid")), isForced: true)
      let browser = try await ConsoleBrowser(harness, .agent)
      func reasons(_ query: String) async throws -> [String] {
        let page = try await browser.page("/console/record?\(query)")
        return page.matches(of: /reason of ([a-z]+)/).map { String($0.1) }
      }
      #expect(try await reasons("") == ["cid", "bob", "ada"])
      #expect(try await reasons("by=bob") == ["bob"])
      #expect(try await reasons("app=\(TestApps.family)") == ["cid"])
      #expect(try await reasons("customer=\(user)") == ["bob", "ada"])
      #expect(try await reasons("action=transfer") == [])
      // What was done about a purchase is on its customer's record.
      for (device, name) in [("tablet", "eve"), ("other", "fay")] {
        let bought = try harness.buy(TestApps.familyPlan, bundleID: TestApps.family)
        _ = try await harness.device(device, shows: bought)
        _ = try await harness.pool.query(
          """
          INSERT INTO support_actions (action, by, actor, reason, bundle_id, original_transaction_id)
          VALUES ('refund-preference', \(name), 'operator', \("reason of " + name), \(TestApps.family),
            \(bought.originalTransactionID))
          """)
      }
      #expect(try await reasons("customer=tablet") == ["eve"])
      let ids = try await harness.pool.query(
        "SELECT id FROM support_actions WHERE action = 'grant' ORDER BY id"
      )
      .map { try $0.decode("id", as: Int.self) }
      #expect(try await reasons("before=\(ids[1])") == ["ada"])
      #expect(try await browser.get("/console/record?before=x").status == 400)

      // What is rare among the records of rules is searched for part by part.
      let reach = Int(Console.recordReach)
      let last = try await harness.pool.query("SELECT max(id) AS id FROM support_actions")[0]
        .decode("id", as: Int.self)
      _ = try await harness.pool.query(
        """
        INSERT INTO support_actions (id, action, by, reason) OVERRIDING SYSTEM VALUE
        VALUES (\(last + 1), 'transfer', 'rule', 'reason of gus'), (\(last + 2 + reach), 'note', 'rule', 'reason of hal')
        """)
      #expect(try await reasons("rules=on") == ["hal", "gus", "fay", "eve", "cid", "bob", "ada"])
      let rare = try await browser.page("/console/record?rules=on&action=transfer")
      #expect(
        !rare.contains("reason of") && rare.contains("This page ends at record \(last + 3)."), "\(rare)")
      let earlier = try #require(rare.firstMatch(of: /href="([^"]*)">Earlier</)).1.replacing(
        "&amp;", with: "&")
      let found = try await browser.page(String(earlier))
      #expect(found.contains("reason of gus") && !found.contains(">Earlier</a>"), "\(found)")
      _ = try await harness.pool.query("DELETE FROM support_actions WHERE by = 'rule'")

      _ = try await harness.pool.query(
        """
        INSERT INTO support_actions (action, by, actor, reason)
        SELECT 'grant', 'dot', 'operator', 'reason of dot' FROM generate_series(1, 100)
        """)
      let first = try await browser.page("/console/record?by=dot")
      #expect(!first.contains(">Earlier</a>"))
      let page = try await browser.page("/console/record")
      let next = try #require(page.firstMatch(of: /href="([^"]*)">Earlier</)).1.replacing("&amp;", with: "&")
      #expect(try await browser.page(String(next)).contains("reason of ada"))
    }
  }
}
