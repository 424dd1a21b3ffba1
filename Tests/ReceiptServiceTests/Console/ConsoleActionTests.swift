import Actions
import AppStore
import AppStoreSimulator
import Authentication
import Foundation
import HTTP
import HTTPTypes
import Postgres
import Testing

@testable import Console
@testable import ReceiptService
@testable import Support

/// The console's actions: preview, reason, record, and roles.
@Suite struct ConsoleActionTests {
  /// What a form needs besides its reason, and what follows.
  private struct Form {
    let name: String
    let fields: [String: String]
    var isOfAgents = false
    var hasPreview = true
  }

  /// A form of each action, on objects of its own.
  private static func forms(_ harness: Harness) async throws -> [Form] {
    let now = harness.clock.now
    let (user, bought) = try await harness.customer()
    let (_, extended) = try await harness.customer()
    let (erased, _) = try await harness.customer()
    let id = user.uuidString.lowercased()
    for device in ["phone", "tablet"] {
      _ = try await harness.pool.query(
        """
        INSERT INTO trials (bundle_id, device_id, started_at, ends_at)
        VALUES (\(TestApps.family), \(device), \(now), \(now + 86_400))
        """)
    }
    _ = try await harness.pool.query(
      """
      INSERT INTO device_secrets (bundle_id, device_id, secret_hash, set_at)
      VALUES (\(TestApps.family), 'phone', sha256('x'), \(now))
      """)
    let grant = try await harness.desk.grant(
      to: id, bundleID: TestApps.climbing, tier: "premium", days: 1, by: #require(Harness.ada))
    var deliveries: [Int] = []
    for key in ["one", "two"] {
      deliveries.append(
        try await harness.pool.query(
          """
          INSERT INTO outbox (destination, key, bundle_id, endpoint, payload, dead_at, last_error)
          VALUES ('cloudkit', \(key), \(TestApps.family), '', '{}', now(), 'BAD_REQUEST') RETURNING id
          """)[0].decode("id"))
    }
    _ = try await harness.add("the removed", .numbers)
    return [
      Form(name: "refresh", fields: ["id": id], isOfAgents: true, hasPreview: false),
      Form(
        name: "grant",
        fields: ["customer": id, "bundleID": TestApps.climbing, "tier": "premium", "days": "7"],
        isOfAgents: true),
      Form(name: "note", fields: ["customer": id, "bundleID": TestApps.climbing], isOfAgents: true),
      Form(
        name: "extend-trial", fields: ["deviceID": "phone", "bundleID": TestApps.family, "days": "3"],
        isOfAgents: true),
      Form(name: "revoke-grant", fields: ["grant": grant.grant]),
      Form(
        name: "transfer",
        fields: [
          "originalTransactionID": bought.originalTransactionID, "to": UUID().uuidString.lowercased(),
          "force": "on",
        ]),
      Form(
        name: "extend-renewal",
        fields: [
          "originalTransactionID": extended.originalTransactionID, "days": "3", "reasonCode": "3",
        ]),
      Form(name: "refund-answer", fields: ["id": bought.originalTransactionID, "prefer": "decline"]),
      Form(name: "reset-device-secret", fields: ["deviceID": "phone", "bundleID": TestApps.family]),
      Form(
        name: "erase-customer",
        fields: [
          "customer": erased.uuidString.lowercased(), "bundleID": TestApps.climbing, "force": "on",
        ]),
      Form(name: "free-access", fields: ["bundleID": TestApps.family, "state": "on"]),
      Form(name: "requeue", fields: ["rows": "outbox:\(deliveries[0])"]),
      Form(name: "requeue-all", fields: ["bundleID": TestApps.family]),
      Form(name: "replay", fields: ["notificationUUID": bought.notification.uuid], hasPreview: false),
      Form(name: "people-add", fields: ["name": "the added", "role": "numbers"], hasPreview: false),
      Form(name: "people-remove", fields: ["name": "the removed"]),
    ]
  }

  private static func records(_ harness: Harness) async throws -> Int {
    try await harness.count("support_actions")
  }

  @Test func `each action needs a reason, previews, is carried out, and ends on its record`() async throws {
    try await withHarness(role: "receiptd_app") { harness in
      let forms = try await Self.forms(harness)
      let names = harness.service.adminRouter.routes.filter {
        $0.method == .post && $0.pattern.hasPrefix("/console/act/")
      }.map { String($0.pattern.dropFirst("/console/act/".count)) }
      #expect(Set(forms.map(\.name)) == Set(names))
      let lead = try await ConsoleBrowser(harness, .lead)
      for form in forms {
        let path = "/console/act/\(form.name)"
        // The form has the values of its address.
        let query = form.fields.map { "\($0)=\($1.inQuery)" }.joined(separator: "&")
        let empty = try await lead.page("\(path)?\(query)")
        for name in form.fields.keys { #expect(empty.contains("name=\"\(name)\""), "\(form.name) \(name)") }

        let before = try await Self.records(harness)
        for reason in [nil, " ", "a\nb"] as [String?] {
          var fields = form.fields
          fields["reason"] = reason
          fields["step"] = "do"
          let answer = try await lead.post(path, fields)
          #expect(answer.status == 400, "\(form.name)")
          // No form of a page has a control character.
          #expect(reason == "a\nb" || answer.text.contains("&#39;reason&#39;"), "\(form.name)")
        }
        var fields = form.fields
        fields["reason"] = "ticket of \(form.name)"
        if form.hasPreview {
          let preview = try await lead.post(path, fields)
          #expect(preview.status == 200, "\(form.name) \(preview.text)")
          #expect(preview.text.contains("<h2>Preview</h2>"), "\(form.name) \(preview.text)")
          for (name, value) in fields {
            #expect(
              preview.text.contains("type=\"hidden\" name=\"\(name)\" value=\"\(value)\""),
              "\(form.name) \(name)")
          }
        }
        #expect(try await Self.records(harness) == before, "\(form.name)")

        fields["step"] = "do"
        if form.name == "people-add" {
          // The token is on this page alone.
          let answer = try await lead.post(path, fields)
          let token = try #require(answer.text.firstMatch(of: /receiptd_[A-Za-z0-9_-]{43}/))
          let record = try await lead.page("/console/record")
          #expect(record.contains("ticket of people-add") && !record.contains(token.0))
          #expect(try await lead.page("/console/people").contains("the added"))
        } else {
          let done = try await lead.act(path, fields)
          #expect(done.path.hasPrefix("/console/record/"), "\(form.name) \(done.path)")
          #expect(done.page.contains("ticket of \(form.name)"), "\(form.name) \(done.page)")
          #expect(done.page.contains(lead.person), "\(form.name)")
        }
        #expect(try await Self.records(harness) > before, "\(form.name)")
        #expect(try await harness.lastActor() == "person \(lead.person) #", "\(form.name)")
      }
    }
  }

  @Test func `an action beyond a role is refused, as a form and as a write, and an agent's are not`()
    async throws
  {
    try await withHarness(role: "receiptd_app") { harness in
      let forms = try await Self.forms(harness)
      for role in [SupportRole.numbers, .agent] {
        let browser = try await ConsoleBrowser(harness, role)
        for form in forms {
          let path = "/console/act/\(form.name)"
          var fields = form.fields
          fields["reason"] = "to try"
          let before = try await Self.records(harness)
          if role == .agent, form.isOfAgents {
            #expect(try await browser.get(path).status == 200, "\(form.name)")
            #expect(try await browser.post(path, fields).status < 400, "\(form.name)")
            continue
          }
          for step in ["", "do"] {
            fields["step"] = step
            let answer = try await browser.post(path, fields)
            #expect(answer.status == 403, "\(form.name) as \(role): \(answer.status)")
            #expect(answer.text.contains("lead") || answer.text.contains("agent"), "\(form.name)")
          }
          #expect(try await Self.records(harness) == before, "\(form.name)")
        }
      }
    }
  }

  @Test func `an agent's limits hold: days at once, and grants of others`() async throws {
    try await withHarness(role: "receiptd_app") { harness in
      let agent = try await ConsoleBrowser(harness, .agent)
      let user = UUID().uuidString.lowercased()
      var fields = [
        "customer": user, "bundleID": TestApps.climbing, "tier": "premium", "days": "15", "force": "on",
        "reason": "to try", "step": "do",
      ]
      let more = try await agent.post("/console/act/grant", fields)
      #expect(more.status == 403 && more.text.contains("An agent may give at most 14 days"))
      fields["days"] = "14"
      _ = try await agent.act("/console/act/grant", fields)
      let other = try await harness.desk.grant(
        to: user, bundleID: TestApps.climbing, tier: "premium", days: 1, by: #require(Harness.ada))
      let page = try await agent.page("/console/customer/\(user)")
      // The agent's own grant has a link, and the other one none.
      #expect(page.components(separatedBy: "/console/act/revoke-grant?grant=").count == 2)
      #expect(!page.contains("/console/act/revoke-grant?grant=\(other.grant)"))
      let refused = try await agent.post(
        "/console/act/revoke-grant", ["grant": other.grant, "reason": "to try", "step": "do"])
      #expect(refused.status == 403)
    }
  }

  @Test func `a note stands in the timeline and in the record`() async throws {
    try await withHarness(role: "receiptd_app") { harness in
      let (user, _) = try await harness.customer()
      let agent = try await ConsoleBrowser(harness, .agent)
      let page = try await agent.page("/console/customer/\(user)")
      #expect(page.contains("/console/act/note?customer=\(user.uuidString.lowercased())"))
      let fields = [
        "customer": user.uuidString.lowercased(), "bundleID": TestApps.climbing,
        "reason": "writes from two addresses", "step": "do",
      ]
      let record = try await agent.act("/console/act/note", fields)
      #expect(record.page.contains("writes from two addresses"))
      let after = try await agent.page("/console/customer/\(user)")
      #expect(after.contains("<td>note</td>") && after.contains("\(agent.person): writes from two addresses"))
      let unknown = try await agent.post(
        "/console/act/note", fields.merging(["customer": UUID().uuidString.lowercased()]) { $1 })
      #expect(unknown.status == 404 && unknown.text.contains("has never seen"), "\(unknown.text)")
    }
  }

  @Test func `the preview of a grant tells access before and after it, and when it would have no effect`()
    async throws
  {
    try await withHarness(role: "receiptd_app") { harness in
      let agent = try await ConsoleBrowser(harness, .agent)
      func preview(_ customer: String, _ bundleID: String, _ tier: String, days: Int) async throws -> String {
        let answer = try await agent.post(
          "/console/act/grant",
          [
            "customer": customer, "bundleID": bundleID, "tier": tier, "days": "\(days)", "force": "on",
            "reason": "a try",
          ])
        return answer.text.split(whereSeparator: \.isWhitespace).joined(separator: " ")
      }
      func text(_ date: Date) -> String { Moment(date, from: harness.clock.now).text }
      let now = harness.clock.now
      let opened = try await preview(UUID().uuidString.lowercased(), TestApps.climbing, "premium", days: 3)
      #expect(
        opened.contains("before: no access (expired), because the customer has no purchase, grant or trial"),
        "\(opened)")
      #expect(opened.contains("after: premium, active, until \(text(now + 3 * 86_400)), because the grant "))
      #expect(!opened.contains("NO EFFECT"))

      let (user, bought) = try await harness.customer()
      let end = try #require(bought.transaction.expiresDate)
      let short = try await preview(user.uuidString.lowercased(), TestApps.climbing, "premium", days: 3)
      let purchase = "the purchase \(bought.originalTransactionID) is active"
      #expect(short.contains("before: premium, active, until \(text(end)), because \(purchase)"), "\(short)")
      #expect(
        short.contains("NO EFFECT while \(purchase): that opens as much or more. It ends before"), "\(short)")
      let long = try await preview(user.uuidString.lowercased(), TestApps.climbing, "premium", days: 7)
      #expect(long.contains("NO EFFECT"))
      #expect(try await harness.count("grants") == 0)

      // A higher tier counts at once.
      let plan = try harness.buy(TestApps.individual, bundleID: TestApps.family)
      _ = try await harness.device("tablet", shows: plan)
      let higher = try await preview("tablet", TestApps.family, "family", days: 7)
      #expect(
        higher.contains("before: individual, active") && higher.contains("after: family, active"), "\(higher)"
      )
      #expect(!higher.contains("NO EFFECT"))
    }
  }

  @Test func `a refused request leads to the transfer of its purchase, also by a later transaction`()
    async throws
  {
    try await withHarness(role: "receiptd_app") { harness in
      let (owner, bought) = try await harness.customer()
      let user = UUID()
      let renewed = try await harness.happens(.renew, to: bought.originalTransactionID)
      let refused = try await harness.sync(
        [renewed.signedTransaction], user: user, token: harness.token(for: user))
      #expect(refused.code == "belongs_to_another_customer")
      try await harness.service.sharedResources.refusedAttempts.flush()
      try await harness.service.sharedResources.seenUsers.flush()
      let lead = try await ConsoleBrowser(harness, .lead)
      let told = try await lead.page("/console/customer/\(user)")
      #expect(
        told.contains("Another account has the purchase.</b>")
          && told.contains("Do both accounts belong to you?"))
      let agent = try await ConsoleBrowser(harness, .agent)
      #expect(!(try await agent.page("/console/search")).contains("/console/act/transfer"))
      let start = try await lead.page("/console/search")
      let link = try #require(start.firstMatch(of: /\/console\/act\/transfer\?[^"]*/)).0
      let path = link.replacing("&amp;", with: "&")
      let form = try await lead.page(String(path))
      #expect(form.contains("value=\"\(bought.originalTransactionID)\""))
      #expect(form.contains("value=\"\(user.uuidString.lowercased())\""))
      var fields = [
        "originalTransactionID": bought.originalTransactionID, "to": user.uuidString.lowercased(),
        "reason": "another account",
      ]
      let preview = try await lead.post("/console/act/transfer", fields)
      #expect(
        preview.text.contains(owner.uuidString.lowercased()) && preview.status == 200, "\(preview.text)")
      #expect(!preview.text.contains("OPEN REFUND REQUEST"))
      try await harness.happens(
        .requestConsumption(transactionID: nil, reason: .unintendedPurchase), to: bought.originalTransactionID
      )
      let warned = try await lead.post("/console/act/transfer", fields)
      #expect(
        warned.text.contains("OPEN REFUND REQUEST")
          && warned.text.contains("refund of \(renewed.transaction.transactionId) requested"),
        "\(warned.text)")
      fields["step"] = "do"
      _ = try await lead.act("/console/act/transfer", fields)
      #expect(try await harness.row(of: bought.originalTransactionID).userID == user)
      // The question is settled.
      let after = try await lead.page("/console/search")
      #expect(!after.contains("/console/act/transfer") && after.contains(">settled</span>"))
      #expect(
        !(try await lead.page("/console/customer/\(user)")).contains("Another account has the purchase"))
    }
  }

  @Test func `the form of a customer's page offers the customer's app and its tiers alone`() async throws {
    try await withHarness(role: "receiptd_app") { harness in
      let world = try await ConsoleWorld(harness)
      let agent = try await ConsoleBrowser(harness, .agent)
      let page = try await agent.page("/console/customer/\(world.device)")
      let link = try #require(page.firstMatch(of: /href="(\/console\/act\/grant\?[^"]*)"/)).1
      let fields = ["customer": world.device, "bundleID": TestApps.family, "days": "3", "back": world.device]
      for form in [
        try await agent.page(String(link.replacing("&amp;", with: "&"))),
        // The preview, and a refusal.
        try await agent.post(
          "/console/act/grant", fields.merging(["tier": "family", "reason": "a try"]) { $1 }
        ).text,
        try await agent.post(
          "/console/act/grant", fields.merging(["tier": "family", "reason": "a try", "days": "x"]) { $1 }
        ).text,
      ] {
        let values = form.matches(of: /<option value="([^"]*)"/).map { String($0.1) }
        #expect(values == [TestApps.family, "family", "individual"], "\(form)")
      }
      // A form that no page of a customer led to offers all apps, and no tiers of one of them.
      let open = try await agent.page("/console/act/grant")
      let apps = open.matches(of: /<option value="([^"]*)"/).map { String($0.1) }
      #expect(apps == [TestApps.climbing, TestApps.family] && open.contains("<input id=\"f-tier\""))
    }
  }

  @Test func `a wrong field is told above the form, which keeps what was typed`() async throws {
    try await withHarness(role: "receiptd_app") { harness in
      let lead = try await ConsoleBrowser(harness, .lead)
      let good = [
        "customer": UUID().uuidString.lowercased(), "bundleID": TestApps.climbing, "tier": "premium",
        "days": "7", "force": "on", "reason": "typed before",
      ]
      for (name, value, told) in [
        ("days", "seven", "must be a whole number"), ("days", "+7", "must be a whole number"),
        ("days", "", "is needed"), ("customer", "", "is needed"), ("tier", "gold", "gold"),
        ("bundleID", "com.unknown", "com.unknown"),
      ] {
        let answer = try await lead.post("/console/act/grant", good.merging([name: value]) { $1 })
        #expect((400...499).contains(answer.status), "\(name)=\(value): \(answer.status)")
        #expect(answer.text.contains(told) && answer.text.contains("role=\"alert\""), "\(name)=\(value)")
        #expect(answer.text.contains("value=\"typed before\""), "\(name)=\(value)")
      }
      for (action, fields) in [
        ("revoke-grant", ["grant": "x"]), ("requeue", ["rows": "99999999999999999999"]),
        ("replay", ["notificationUUID": UUID().uuidString]),
        ("free-access", ["bundleID": "x", "state": "maybe"]),
      ] {
        let answer = try await lead.post(
          "/console/act/\(action)", fields.merging(["reason": "typed before"]) { $1 })
        #expect((400...499).contains(answer.status), "\(action): \(answer.status)")
        #expect(answer.text.contains("value=\"typed before\""), "\(action)")
      }
      #expect(try await harness.count("support_actions WHERE person_id IS NOT NULL") == 0)
    }
  }

  @Test func `a form that names what does not exist answers 404, and 409 where it was done before`()
    async throws
  {
    try await withHarness(role: "receiptd_app") { harness in
      let lead = try await ConsoleBrowser(harness, .lead)
      let unknown = UUID().uuidString.lowercased()
      for (action, fields) in [
        ("revoke-grant", ["grant": unknown]), ("requeue", ["rows": "outbox:7 store_calls:7"]),
        ("replay", ["notificationUUID": unknown]), ("people-remove", ["name": "Nobody"]),
        ("free-access", ["bundleID": "com.unknown", "state": "on"]),
        ("transfer", ["originalTransactionID": "70", "to": unknown, "force": "on"]),
      ] {
        let answer = try await lead.post(
          "/console/act/\(action)", fields.merging(["reason": "typed before", "step": "do"]) { $1 })
        #expect(answer.status == 404, "\(action): \(answer.status)")
        #expect(answer.text.contains("role=\"alert\"") && answer.text.contains("value=\"typed before\""))
      }
      let added = ["name": lead.person, "role": "agent", "reason": "again", "step": "do"]
      #expect(try await lead.post("/console/act/people-add", added).status == 409)
      let bad = try await lead.post("/console/act/requeue", ["rows": ":", "reason": "x", "step": "do"])
      #expect(bad.status == 400)
    }
  }

  @Test func `of several notifications, one that is not kept stops no other`() async throws {
    try await withHarness(role: "receiptd_app") { harness in
      let (_, bought) = try await harness.customer()
      let lead = try await ConsoleBrowser(harness, .lead)
      let unknown = UUID().uuidString.lowercased()
      let kept = bought.notification.uuid.lowercased()
      let answer = try await lead.post(
        "/console/act/replay",
        ["notificationUUID": "\(unknown) \(kept)", "reason": "both", "step": "do"])
      #expect(answer.status == 200)
      #expect(answer.text.contains("\(unknown): not processed: no notification with this UUID is stored"))
      #expect(answer.text.contains("\(kept): unchanged"), "\(answer.text)")
      let records = try await harness.pool.query(
        "SELECT count(*) AS records FROM support_actions WHERE action = 'replay'")
      #expect(try records[0].decode("records", as: Int.self) == 1)
    }
  }

  @Test func `a form of another site changes nothing, whatever the cookie`() async throws {
    try await withHarness(role: "receiptd_app") { harness in
      let token = try await harness.add("Ada Lead", .lead)
      let signedIn = try await harness.browse(
        .post, "/console/sign-in", origin: "http://\(harness.adminAddress)", form: ["token": token])
      let cookie = String(try #require(signedIn.headers[.setCookie]).prefix { $0 != ";" })
      let before = try await Self.records(harness)
      let form = [
        "bundleID": TestApps.family, "state": "on", "reason": "an attack", "step": "do",
      ]
      for (origin, site) in [
        ("https://evil.example", nil), (nil, nil), ("null", nil),
        ("http://\(harness.adminAddress)", "cross-site"),
        ("http://\(harness.adminAddress)", "same-site"), ("http://\(harness.adminAddress)", "none"),
      ] as [(String?, String?)] {
        let answer = try await harness.browse(
          .post, "/console/act/free-access", cookie: cookie, origin: origin, site: site, form: form)
        #expect(answer.status == 403, "\(String(describing: origin)) \(String(describing: site))")
      }
      #expect(try await Self.records(harness) == before)
      #expect(try await harness.count("free_access") == 0)
    }
  }
}
