import Actions
import AppStore
import AppStoreSimulator
import Deliveries
import Foundation
import HTTP
import HTTPTypes
import Postgres
import Testing
import Text

@testable import Console
@testable import ReceiptService
@testable import Support

/// Every screen of the console, as each role gets it, on a server with the database role of a deployment.
@Suite struct ConsoleScreenTests {
  /// The least role of each page. It repeats the pages' operations on purpose.
  private static let leastRoles: [String: SupportRole] = [
    "/console/search": .agent, "/console/customer/{id}": .agent, "/console/customer/{id}/export": .lead,
    "/console/lists": .agent, "/console/numbers": .numbers, "/console/numbers/{chart}": .numbers,
    "/console/numbers/{chart}/csv": .numbers, "/console/report": .numbers, "/console/queues": .lead,
    "/console/record": .agent, "/console/record/{id}": .agent, "/console/people": .lead,
    "/console/configuration": .lead, "/console/health": .lead, "/console/runbooks/{alert}": .lead,
    "/console/what-if": .lead, "/console/customer/{id}/export/page": .lead, "/console/act/refresh": .agent,
    "/console/act/grant": .agent, "/console/act/note": .agent, "/console/act/extend-trial": .agent,
    "/console/act/revoke-grant": .agent,
    "/console/act/transfer": .lead, "/console/act/extend-renewal": .lead, "/console/act/refund-answer": .lead,
    "/console/act/reset-device-secret": .lead, "/console/act/erase-customer": .lead,
    "/console/act/free-access": .lead, "/console/act/requeue": .lead, "/console/act/requeue-all": .lead,
    "/console/act/replay": .lead, "/console/act/people-add": .lead, "/console/act/people-remove": .lead,
  ]

  @Test func `each screen opens to its roles, and tells the others which role it needs`() async throws {
    try await withHarness(role: "receiptd_app") { harness in
      let world = try await ConsoleWorld(harness)
      let record = try await harness.pool.query("SELECT max(id) AS id FROM support_actions")[0]
        .decode("id", as: Int.self)
      let patterns = harness.service.adminRouter.routes
        .filter { $0.method == .get && $0.pattern.hasPrefix("/console/") }.map(\.pattern)
        .filter { !$0.hasPrefix("/console/static/") && $0 != "/console/sign-in" }
      #expect(Set(patterns) == Set(Self.leastRoles.keys))
      for role in SupportRole.allCases {
        let browser = try await ConsoleBrowser(harness, role)
        for pattern in patterns {
          let path = pattern.replacing("{chart}", with: "mrr").replacing(
            "{alert}", with: "ReceiptdSweepLag"
          ).replacing(
            "record/{id}", with: "record/\(record)"
          )
          .replacing("{id}", with: world.user.uuidString.lowercased())
          let answer = try await browser.get(path)
          let about: Comment = "\(path) as \(role): \(answer.status) \(answer.text.prefix(1_500))"
          let least = try #require(Self.leastRoles[pattern])
          guard role >= least else {
            #expect(answer.status == 403, about)
            #expect(answer.text.contains("needs the role \(least.rawValue)"), about)
            continue
          }
          #expect(answer.status == 200, about)
          if answer.isPage { Self.check(answer, about) }
        }
      }
    }
  }

  /// What holds for every page.
  private static func check(_ answer: Answer, _ about: Comment) {
    let page = answer.text
    #expect(page.contains("<h1") && page.contains("<title>") && page.contains("lang=\"en\""), about)
    #expect(!page.contains("{{") && !page.contains("Optional("), about)
    for inline in ["style=\"", "<style", " onclick", " onload", "javascript:"] {
      #expect(!page.contains(inline), "\(inline) \(about)")
    }
    #expect(answer.body.count < 150_000, about)
    #expect(answer.headers[.cacheControl] == "no-store", about)
  }

  @Test func `every link that a role sees leads to a page that it may see`() async throws {
    try await withHarness(role: "receiptd_app") { harness in
      _ = try await ConsoleWorld(harness)
      for role in SupportRole.allCases {
        let browser = try await ConsoleBrowser(harness, role)
        var seen: Set<String> = ["/console"]
        var waiting = ["/console"]
        while let path = waiting.popLast(), seen.count < 400 {
          let answer = try await browser.get(path)
          #expect([200, 303].contains(answer.status), "\(path) as \(role): \(answer.status)")
          var links = answer.isPage ? Self.links(in: answer.text) : []
          if let next = answer.headers[.location] { links.append(next) }
          for link in links where seen.insert(link).inserted { waiting.append(link) }
        }
        #expect(seen.count > (role == .numbers ? 20 : 60), "\(role): \(seen.count)")
      }
    }
  }

  /// The addresses of a page, without further pages of the same record and further choices of charts.
  private static func links(in page: String) -> [String] {
    page.matches(of: /(?:href|action)="([^"]*)"/).map {
      String($0.1).replacing("&amp;", with: "&").replacing(/#.*/, with: "")
    }.filter {
      $0.hasPrefix("/console") && !$0.hasPrefix("/console/static/") && $0 != "/console/sign-out"
    }
  }

  @Test func `a customer's page tells access, purchases, warnings, grants and replies`() async throws {
    try await withHarness(role: "receiptd_app") { harness in
      let world = try await ConsoleWorld(harness)
      let browser = try await ConsoleBrowser(harness, .agent)
      let page = try await browser.page("/console/customer/\(world.user)")
      for text in [
        ">Access</span>", "premium", world.bought.originalTransactionID, TestApps.monthly, "4.99 USD",
        "When does it renew", "Grant access", "Climbing",
      ] {
        #expect(page.contains(text), "\(text)")
      }
      // An agent may not transfer, and reads that a lead may.
      #expect(!page.contains("/console/act/transfer") && page.contains("A lead may do this."))
      #expect(page.contains("Transfer and refund answer: a lead may do this."))

      let failing = try await browser.page("/console/customer/\(try #require(world.purchases["billing"]))")
      for text in [">No access</span>", "Billing trouble", "The card was declined"] {
        #expect(failing.contains(text), "\(text)")
      }
      let refund = try await browser.page(
        "/console/customer/\(try #require(world.purchases["refund-requests"]))")
      #expect(refund.contains("Open refund request") && refund.contains("consent is missing"))
      let price = try await browser.page("/console/customer/\(try #require(world.purchases["price"]))")
      #expect(price.contains("Price increase"))
      let device = try await browser.page("/console/customer/\(world.device)")
      for text in ["tablet-1", "Emma", "1 of 5", ">running</span>", "ticket 812", ">open</span>"] {
        #expect(device.contains(text), "\(text)")
      }
    }
  }

  /// A purchase of a new user whose paid time ends within a day and a half.
  private static func endingSoon(_ harness: Harness) async throws -> (user: UUID, bought: SignedOutcome) {
    let present = harness.clock.now
    defer { harness.clock.set(present) }
    // A month has 28 to 31 days.
    for days in 27...31 {
      harness.clock.set(present - TimeInterval(days) * 86_400)
      let (user, bought) = try await harness.customer()
      let end = try #require(bought.transaction.expiresDate)
      if end > present + 3_600, end < present + 36 * 3_600 { return (user, bought) }
    }
    throw CocoaError(.featureUnsupported)
  }

  @Test
  func `a charge that fails before the paid time ends is a warning, with the end of access, and in the list`()
    async throws
  {
    try await withHarness(role: "receiptd_app") { harness in
      let (user, bought) = try await Self.endingSoon(harness)
      let id = bought.originalTransactionID
      let browser = try await ConsoleBrowser(harness, .agent)
      let list = "/console/lists?list=billing"
      #expect(!(try await browser.page(list)).contains(id))
      try await harness.happens(.failToRenew(grace: false), to: id)
      let page = try await browser.page("/console/customer/\(user)")
      let end = Moment(try #require(bought.transaction.expiresDate), from: harness.clock.now).text
      for text in [
        ">Access</span>", "Billing trouble", "It is paid until \(end); access ends then (in ",
        "active, charge failed", "charge of the next period failed",
        "Apple could not charge the next period and retries",
        "The card was declined", "You keep your access until",
      ] {
        #expect(page.contains(text), "\(text)")
      }
      #expect(try await browser.page(list).contains("charge failed, paid time runs"))
      // Its renewal may not come.
      let renewing = try await browser.page("/console/lists?list=renewing")
      #expect(renewing.contains("<td>a charge failed, "), "\(renewing)")
      let csv = try await browser.get(list + "&format=csv")
      #expect(csv.text.contains(id))
      // Apple's billing grace follows the paid time.
      let (other, graced) = try await Self.endingSoon(harness)
      try await harness.happens(.failToRenew(grace: true), to: graced.originalTransactionID)
      let purchase = try #require(
        try await harness.desk.customer("\(other)").customers.first?.purchases.first)
      let access = Moment(try #require(purchase.gracePeriodExpiryDate), from: harness.clock.now).text
      #expect(try await browser.page("/console/customer/\(other)").contains("access ends \(access) (in "))
    }
  }

  @Test func `a customer's page tells the paid end, the end with grace, and the tier that comes next`()
    async throws
  {
    try await withScreenTime { harness in
      let bought = try await harness.device("phone", buys: ScreenTime.family)
      let paid = try #require(bought.transaction.expiresDate)
      let agent = try await ConsoleBrowser(harness, .agent)
      func text(_ date: Date) -> String { Moment(date, from: harness.clock.now).text }
      let renewing = try await agent.page("/console/customer/phone")
      #expect(renewing.contains("Paid until \(text(paid)) (in ") && renewing.contains("; it renews then."))
      #expect(renewing.contains("With grace, access ends \(text(paid + 7 * ScreenTime.day)) (in "))
      #expect(!renewing.contains("Then comes the tier"))

      try await harness.happens(.changeProduct(ScreenTime.individual), to: bought.originalTransactionID)
      let changing = try await agent.page("/console/customer/phone")
      #expect(
        changing.contains("Then comes the tier individual: \(ScreenTime.individual) from \(text(paid)) (in "),
        "\(changing)")
      // The renewal is charged a day ahead; the paid tier stays open until it begins.
      harness.clock.set(paid - ScreenTime.day)
      try await harness.happens(.renew, to: bought.originalTransactionID)
      // A session lasts 12 hours.
      let later = try await ConsoleBrowser(harness, .agent)
      let charged = try await later.page("/console/customer/phone")
      #expect(charged.contains("<b>family, active</b>"))
      #expect(
        charged.contains("Then comes the tier individual: \(ScreenTime.individual) from \(text(paid)) ("))

      try await harness.happens(.setAutoRenew(false), to: bought.originalTransactionID)
      harness.clock.set(paid)
      let last = try await ConsoleBrowser(harness, .agent)
      // The reply names the day after which a charge would be odd, and not the end of the app's own grace.
      let ended = try await last.page("/console/customer/phone")
      #expect(!ended.contains("charged you after that day"))
      let cancelled = try await last.page("/console/customer/phone")
      #expect(cancelled.contains("; it does not renew.") && !cancelled.contains("Then comes the tier"))
      // A grant of a lower tier opens the app for longer.
      try await harness.device("tablet", buys: ScreenTime.family)
      _ = try await harness.desk.grant(
        to: "tablet", bundleID: ScreenTime.bundleID, tier: "individual", days: 90, by: #require(Harness.ada))
      let granted = try await last.page("/console/customer/tablet")
      #expect(granted.contains("With all that opens access, such as other purchases and grants: until "))
      // Of several grants the one with the latest end, once.
      _ = try await harness.desk.grant(
        to: "tablet", bundleID: ScreenTime.bundleID, tier: "individual", days: 7, by: #require(Harness.ada))
      let twice = try await last.page("/console/customer/tablet")
      #expect(twice.components(separatedBy: "We have opened individual of ").count == 2)
      #expect(
        twice.contains("id=\"reply-\(ScreenTime.bundleID)-1\"")
          && twice.contains("until \(Day(of: harness.clock.now + 90 * 86_400)). "))
    }
  }

  @Test func `a parent's page has each child with its state, and a child's page its parent`() async throws {
    try await withScreenTime { harness in
      let bought = try await harness.device("phone", buys: ScreenTime.individual)
      let present = harness.clock.now
      _ = try await harness.pool.query(
        """
        INSERT INTO devices (bundle_id, device_id, child_device_id, name, paired_at)
        SELECT \(ScreenTime.bundleID)::text, 'phone', 'child-' || i, 'Emma ' || i, \(present) + i * interval '1 second'
        FROM generate_series(1, 3) AS i
        """)
      let agent = try await ConsoleBrowser(harness, .agent)
      let parent = try await agent.page("/console/customer/phone")
      #expect(parent.components(separatedBy: "<span class=\"tag warn\">paused</span>").count == 3)
      #expect(parent.contains("childDevices is 1 (individual, active), and 1 was paired before it"))
      #expect(!parent.contains(">child's device</span>") && parent.contains("A child&#39;s device is paused"))

      for (child, state) in [
        ("child-1", "active</span> it has what its parent has."),
        ("child-2", "paused</span> more devices are paired than the parent&#39;s tier allows"),
      ] {
        let page = try await agent.page("/console/customer/\(child)")
        for text in [
          "<span class=\"tag\">child's device</span> <b class=\"id\">\(child)</b> (Emma ", state,
          "below is its parent <a href=\"/console/customer/phone\"",
        ] {
          #expect(page.contains(text), "\(text) \(page.prefix(4_000))")
        }
      }
      // A child with a grant of its own has a page of its own.
      _ = try await harness.desk.grant(
        to: "child-2", bundleID: ScreenTime.bundleID, tier: "individual", days: 1, by: #require(Harness.ada),
        isForced: true)
      let own = try await agent.page("/console/customer/child-2")
      #expect(own.contains("Its parent is <a href=\"/console/customer/phone\""))
      #expect(own.contains("<h1 class=\"id\">child-2</h1>") && !own.contains("<h1 class=\"id\">phone</h1>"))

      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      #expect(try await agent.page("/console/customer/child-1").contains("its parent has no access."))
      #expect(try await agent.page("/console/customer/phone").contains("the parent has no access ("))
    }
  }

  @Test func `a child's name leads to the parent, in any case and by its beginning`() async throws {
    try await withHarness(role: "receiptd_app") { harness in
      let world = try await ConsoleWorld(harness)
      let agent = try await ConsoleBrowser(harness, .agent)
      let link = "<a href=\"/console/customer/\(world.device)\"><span class=\"tag\">child</span> Emma "
      for text in ["Emma", "emma", "Em", " EMMA "] {
        let page = try await agent.page("/console/search?q=\(text.inQuery)")
        #expect(page.contains(link) && page.contains("No id, but a child&#39;s name"), "\(text): \(page)")
        #expect(page.contains("<span class=\"id\">tablet-1</span>") && page.contains("in Family</span>"))
      }
      for text in ["mma", "Emma%", "E", "Em_a", String(repeating: "Emma", count: 20)] {
        let page = try await agent.page("/console/search?q=\(text.inQuery)")
        #expect(!page.contains("Children's devices with this name"), "\(text)")
      }
      // A client may name its child like another customer's purchase: the purchase comes first.
      let order = world.bought.originalTransactionID
      #expect(try await agent.get("/console/search?q=\(order)").status == 303)
      _ = try await harness.pool.query("UPDATE devices SET name = \(order)")
      let both = try await agent.page("/console/search?q=\(order)")
      let hit = try #require(
        both.range(of: "<span class=\"id\">\(world.user.uuidString.lowercased())</span>"))
      let named = try #require(both.range(of: "Children's devices with this name"))
      #expect(hit.lowerBound < named.lowerBound)

      _ = try await harness.pool.query(
        """
        INSERT INTO devices (bundle_id, device_id, child_device_id, name)
        SELECT \(TestApps.family), 'parent ' || n, 'child ' || n, 'Zoë ' || n FROM generate_series(1, 21) AS n
        """)
      let many = try await agent.page("/console/search?q=\("ZOË".inQuery)")
      #expect(many.contains("These are the first 20 of more."))
      #expect(many.components(separatedBy: "<span class=\"tag\">child</span>").count - 1 == 20)
      let plan = try await harness.pool.transaction(
        pipeline: [
          "SET LOCAL enable_seqscan = off", "EXPLAIN \(NamedChildren.select("Emma", limit: 21))",
        ])[1].map { try $0.decode(0, as: String.self) }.joined(separator: "\n")
      #expect(plan.contains("devices_name_idx"), "\(plan)")
    }
  }

  @Test func `the search box names e-mail where the database's role may read it`() async throws {
    try await withHarness(role: "receiptd_app") { harness in
      let agent = try await ConsoleBrowser(harness, .agent)
      let numbers = try await ConsoleBrowser(harness, .numbers)
      func box(_ browser: ConsoleBrowser, _ path: String) async throws -> String? {
        try await browser.page(path).firstMatch(of: /placeholder="([^"]*)"/).map { String($0.1) }
      }
      let without = "Order, transaction, user, device, child's name, request id"
      for path in ["/console/search", "/console/lists", "/console/record"] {
        #expect(try await box(agent, path) == without)
      }
      #expect(try await box(numbers, "/console/numbers") == nil)
      let refused = try await agent.page("/console/search?q=anna%40example.com")
      #expect(refused.contains("receiptd finds no e-mail addresses here"), "\(refused)")
      _ = try await harness.pool.query("CREATE SCHEMA auth")
      _ = try await harness.pool.query("CREATE TABLE auth.users (id uuid PRIMARY KEY, email text)")
      #expect(try await box(agent, "/console/search") == without)
      _ = try await harness.pool.query("GRANT USAGE ON SCHEMA auth TO receiptd_app")
      _ = try await harness.pool.query("GRANT SELECT (id, email) ON auth.users TO receiptd_app")
      #expect(
        try await box(agent, "/console/search")
          == "Order, transaction, user, device, child's name, e-mail, request id")
    }
  }

  @Test func `a long history is cut, but for what is open`() async throws {
    try await withHarness(role: "receiptd_app") { harness in
      let now = harness.clock.now
      _ = try await harness.pool.query(
        """
        INSERT INTO grants (bundle_id, device_id, tier, starts_at, ends_at, reason, granted_by, followed_until)
        SELECT \(TestApps.family)::text, 'phone', 'family', \(now) - n * interval '1 day',
          \(now) - n * interval '1 day' + interval '1 hour', 'ended ' || n, 'ada', \(now)::timestamptz
        FROM generate_series(1, 30) AS n
        """)
      _ = try await harness.pool.query(
        """
        INSERT INTO grants (bundle_id, device_id, tier, starts_at, reason, granted_by, followed_until)
        VALUES (\(TestApps.family), 'phone', 'family', \(now - 90 * 86_400), 'open for long', 'ada', \(now))
        """)
      for _ in 0..<22 {
        let bought = try harness.buy(TestApps.individual, bundleID: TestApps.family)
        _ = try await harness.device("phone", shows: bought)
        try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      }
      let page = try await ConsoleBrowser(harness, .agent).page("/console/customer/phone")
      #expect(page.contains(">open for long<") && page.contains(">ended 1<") && page.contains(">ended 19<"))
      #expect(!page.contains(">ended 20<"))
      #expect(page.contains("Earlier grants that are over: 11. The export has them."))
      #expect(page.components(separatedBy: "<article class=\"card\"").count - 1 == 20)
      #expect(page.contains("Earlier purchases that are over: 2. The export has them."), "\(page)")
    }
  }

  @Test func `before a smaller tier comes, the page and the reply name the children that stay open`()
    async throws
  {
    try await withScreenTime { harness in
      let bought = try await harness.device("phone", buys: ScreenTime.family)
      let present = harness.clock.now
      _ = try await harness.pool.query(
        """
        INSERT INTO devices (bundle_id, device_id, child_device_id, name, paired_at)
        SELECT \(ScreenTime.bundleID)::text, 'phone', 'child-' || i, (ARRAY['Emma', 'Noah', 'Mia'])[i],
          \(present) + i * interval '1 second'
        FROM generate_series(1, 3) AS i
        """)
      let agent = try await ConsoleBrowser(harness, .agent)
      let sentence = "Of the children&#39;s devices, Emma stays open then; Noah, Mia are paused."
      #expect(!(try await agent.page("/console/customer/phone")).contains(sentence))
      try await harness.happens(.changeProduct(ScreenTime.individual), to: bought.originalTransactionID)
      let page = try await agent.page("/console/customer/phone")
      #expect(page.components(separatedBy: sentence).count == 3, "\(page)")
      #expect(page.contains("(family) renews as individual on "))
    }
  }

  @Test func `the page has the customer's deliveries, and warns of one that was given up`() async throws {
    try await withScreenTime { harness in
      try await harness.device("phone", buys: ScreenTime.family)
      let agent = try await ConsoleBrowser(harness, .agent)
      _ = try await harness.pool.query("DELETE FROM outbox")
      #expect(!(try await agent.page("/console/customer/phone")).contains("<h2>Deliveries</h2>"))
      for (key, error) in [("phone", "BAD_REQUEST: unknown field"), ("other", "not of this customer")] {
        _ = try await harness.pool.query(
          """
          INSERT INTO outbox (destination, key, bundle_id, endpoint, payload, dead_at, last_error)
          VALUES ('cloudkit', \(key), \(ScreenTime.bundleID), '', '{}', now(), \(error))
          """)
      }
      let page = try await agent.page("/console/customer/phone")
      for text in ["<h2>Deliveries</h2>", "<b>Not delivered.</b> The CloudKit record of ", ">dead</span>"] {
        #expect(page.contains(text), "\(text)")
      }
      #expect(page.contains("BAD_REQUEST: unknown field") && !page.contains("not of this customer"))
      _ = try await harness.pool.query("UPDATE outbox SET dead_at = NULL, done_at = now()")
      let delivered = try await agent.page("/console/customer/phone")
      #expect(delivered.contains(">delivered</span>") && !delivered.contains("Not delivered."))
      #expect(!delivered.contains("BAD_REQUEST"))
    }
  }

  @Test
  func `what support prefers about a refund stands on the card, and is chosen when the form opens again`()
    async throws
  {
    try await withHarness(role: "receiptd_app") { harness in
      let (user, bought) = try await harness.customer()
      let lead = try await ConsoleBrowser(harness, .lead)
      let path = "/console/customer/\(user)"
      #expect(!(try await lead.page(path)).contains("About a refund"))
      _ = try await harness.desk.preferRefund(.decline, for: bought.transactionID, by: #require(Harness.ada))
      let page = try await lead.page(path)
      #expect(page.contains("About a refund: We prefer that Apple declines, ada said."))
      let form = try #require(page.firstMatch(of: /href="(\/console\/act\/refund-answer[^"]*)"/))
      let opened = try await lead.page(String(form.1).replacing("&amp;", with: "&"))
      #expect(opened.contains("<option value=\"decline\" selected>"), "\(opened)")
    }
  }

  @Test func `a notification that came late stands where Apple signed it`() async throws {
    try await withHarness(role: "receiptd_app") { harness in
      let (user, bought) = try await harness.customer()
      harness.clock.advance(days: 1)
      try await harness.happens(.setAutoRenew(false), to: bought.originalTransactionID)
      let signed = harness.clock.now
      harness.clock.advance(days: 2)
      _ = try await harness.service.perform(
        NoteRequest(customer: user.uuidString.lowercased(), bundleID: TestApps.climbing),
        by: #require(Harness.ada), isDryRun: false)
      _ = try await harness.pool.query(
        "UPDATE notifications SET received_at = \(harness.clock.now + 86_400) WHERE type <> 'SUBSCRIBED'")
      let events = try await harness.pool.query(
        "SELECT event, at FROM support_timeline WHERE user_id = \(user) ORDER BY support_timeline.at")
      let names = try events.map { try $0.decode("event", as: String.self) }
      #expect(names == ["purchase", "notification", "note"])
      #expect(try events[1].decode("at", as: Date.self) == signed)
      let report = try #require(try await harness.desk.customer(user.uuidString).customers.first)
      #expect(report.events.map(\.event) == names)
      #expect(report.events[1].receivedAt == harness.clock.now + 86_400)
    }
  }

  @Test func `the timeline tells when Apple signed and receiptd received an event, by kind and page`()
    async throws
  {
    try await withHarness(role: "receiptd_app") { harness in
      let present = harness.clock.now
      harness.clock.set(present - 86_400)
      let (user, bought) = try await harness.customer()
      let signed = Moment(bought.transaction.signedDate, from: present).text
      harness.clock.set(present)
      try await harness.happens(.setAutoRenew(false), to: bought.originalTransactionID)
      for number in 1...25 {
        _ = try await harness.pool.query(
          """
          INSERT INTO support_actions (action, by, actor, reason, bundle_id, to_customer, customer_kind, at)
          VALUES ('note', 'ada', 'operator', \("note \(number)."), \(TestApps.climbing),
            \(user.uuidString.lowercased()), 'user', \(present - TimeInterval(number) * 3_600))
          """)
      }
      let agent = try await ConsoleBrowser(harness, .agent)
      let path = "/console/customer/\(user)"
      func events(_ query: String) async throws -> (names: [String], page: String) {
        let page = try await agent.page(path + query)
        let timeline = page.components(separatedBy: "id=\"timeline\"")[1]
        return (
          timeline.matches(of: /<\/td><td>(note|purchase|notification)<\/td>/).map { String($0.1) }, timeline
        )
      }
      let (last, page) = try await events("")
      #expect(last.count == 20 && last.first == "notification")
      #expect(page.contains("page=2#timeline\">Earlier</a>") && !page.contains(">Later</a>"))
      let (second, rest) = try await events("?page=2")
      #expect(second.count == 7 && second.contains("purchase") && rest.contains(">Later</a>"))
      #expect(rest.contains("<th>Signed</th><th>Received</th>") && rest.contains(">\(signed)</time></td>"))
      #expect(!rest.contains(">Earlier</a>"))
      #expect(try await events("?events=purchases").names == ["purchase"])
      #expect(try await events("?events=notifications").names == ["notification"])
      #expect(try await events("?events=support&page=2").names.count == 5)
      #expect(try await events("?events=other").names.isEmpty)
      for query in ["?events=x", "?page=0", "?page=101"] {
        #expect(try await agent.get(path + query).status == 400, "\(query)")
      }
    }
  }

  @Test func `a banner on every page tells that free access is on`() async throws {
    try await withHarness(role: "receiptd_app") { harness in
      let lead = try await ConsoleBrowser(harness, .lead)
      let banner = "Free access is on"
      #expect(!(try await lead.page("/console/configuration")).contains(banner))
      _ = try await lead.act(
        "/console/act/free-access",
        ["bundleID": TestApps.family, "state": "on", "reason": "an outage", "step": "do"])
      for path in ["search", "lists", "configuration", "record"] {
        let page = try await lead.page("/console/\(path)")
        #expect(page.contains(banner) && page.contains(TestApps.family), "\(path)")
      }
    }
  }
}
