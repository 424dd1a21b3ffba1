import AppStoreSimulator
import Foundation
import HTTP
import HTTPTypes
import Postgres
import Testing
import Text

@testable import Actions
@testable import Numbers
@testable import ReceiptService
@testable import Support

@Suite struct PeopleTests {
  @Test func `a person's token is shown once and only its hash is kept`() async throws {
    try await withHarness { harness in
      let lead = try await harness.add("Ada", .lead)
      let added = try await harness.support("people/add", ["name": "bob", "role": "agent"], token: lead)
      #expect(added.status == 201)
      #expect(added.string("person.name") == "bob")
      #expect(added.string("person.createdBy") == "Ada")
      let token = try #require(added.string("token"))
      #expect(token.wholeMatch(of: /receiptd_[A-Za-z0-9_-]{43}/) != nil)
      #expect(token != lead)

      let listed = try await harness.support("people", token: lead)
      #expect((listed["people"] as? [[String: Any]])?.compactMap { $0["name"] as? String } == ["Ada", "bob"])
      let kept = try await harness.pool.query(
        """
        SELECT p.*::text || ' ' || t.*::text AS row FROM people p JOIN people_tokens t ON t.person_id = p.id
        UNION ALL SELECT a.*::text FROM support_actions a
        """
      ).map { try $0.decode("row", as: String.self) }
      #expect(kept.count == 4)
      for secret in [token, lead] {
        #expect(!String(decoding: listed.body, as: UTF8.self).contains(secret))
        #expect(!kept.contains { $0.contains(secret) || $0.contains(secret.dropFirst(9)) })
      }
    }
  }

  @Test func `a removed person is refused at once by every server`() async throws {
    try await withHarness { harness in
      let other = try await harness.service(configuration: TestApps.json)
      let server = HTTPServer(
        configuration: HTTPServerConfiguration(), router: other.adminRouter, logger: other.logger)
      let address = try server.start()
      let token = try await harness.add("bob", .agent)
      func statuses() async throws -> [Int] {
        [
          try await harness.support("find/x", token: token).status,
          try await harness.send(.get, "/support/v1/find/x", token: token, to: address).status,
        ]
      }
      #expect(try await statuses() == [200, 200])
      let removed = try await other.people.remove("BOB", by: #require(Harness.ada))
      #expect(removed.isChanged)
      #expect(try await statuses() == [401, 401])
      #expect(try await harness.count("people_tokens") == 0)
      let again = try await other.people.remove("bob", by: #require(Harness.ada))
      #expect(!again.isChanged)

      // The same person with a new token.
      let next = try await harness.add("Bob", .lead)
      #expect(try await statuses() == [401, 401])
      #expect(try await harness.support("people", token: next).status == 200)
      #expect(try await harness.actions().map(\.action) == ["people-add", "people-remove", "people-add"])
      await server.shutdown(within: .seconds(2))
      await other.close()
    }
  }

  @Test func `a name is unique whatever its letter case, and is no name of a rule or a machine`() async throws
  {
    try await withHarness { harness in
      _ = try await harness.add("Zoë", .agent)
      for name in ["zoë", "ZOË", "Zoe\u{308}"] {
        #expect(try await refusal { _ = try await harness.add(name, .lead) } == .alreadyDone, "\(name)")
      }
      for name in [
        "", " ", " bob", "bob ", "1", "policy", "Machine", "machine for bob", "app-store", "grandfather",
        "a:b",
        "a\nb", String(repeating: "a", count: 61), "p\u{43e}licy", "\u{ff21}da", "ada\u{200b}", "a\u{200d}da",
        "p\u{f3}l\u{ed}cy", "\u{430}\u{501}\u{430}", "\u{251}da", "ada\u{a0}", "ada\u{661}",
      ] {
        #expect(try await refusal { _ = try await harness.add(name, .lead) } == .invalid, "\(name)")
      }
      #expect(
        try await refusal { _ = try await harness.service.people.remove("x", by: #require(Harness.ada)) }
          == .notFound)
      #expect(try await harness.count("people") == 1)
      _ = try await harness.add("\u{110}or\u{111}e", .agent)
      #expect(try await refusal { _ = try await harness.add("\u{d0}or\u{111}e", .agent) } == .alreadyDone)
      // A name from before this rule.
      _ = try await harness.pool.query(
        "UPDATE people SET name = 'Иван', name_key = 'иван' WHERE name_key = 'zoë'")
      #expect(try await harness.service.people.remove("Иван", by: #require(Harness.ada)).isChanged)
      for name in ["Łukasz Żak", "Søren", "Nguyễn Văn An", "O'Neill-2", "ada@example.com"] {
        _ = try await harness.add(name, .agent)
      }
      for name in ["policy", "machine for ada", "grandfather", "\u{ff50}olicy", "P\u{f3}licy"] {
        #expect(throws: SupportRefusal.self, "\(name)") {
          try SupportAuthor(by: .operatorNamed(name), reason: "x")
        }
      }
    }
  }

  @Test func `the name in a record is that of the token, never one of the body`() async throws {
    try await withHarness { harness in
      let token = try await harness.add("Bob", .lead)
      let user = UUID().uuidString.lowercased()
      let grant: [String: Any] = [
        "customer": user, "bundleID": TestApps.climbing, "tier": "premium", "days": 7, "force": true,
      ]
      let forged = try await harness.support("grant", grant.merging(["by": "ada"]) { $1 }, token: token)
      #expect(forged.status == 400)
      #expect(forged.string("detail") == "'by' is the person of the token, Bob: leave it out.")
      #expect(try await harness.count("grants") == 0)

      #expect(try await harness.support("grant", grant, token: token).string("grantedBy") == "Bob")
      #expect(try await harness.lastActor() == "person Bob #")
      let timeline = try await harness.pool.query(
        "SELECT what FROM support_timeline WHERE user_id::text = \(user) AND event = 'grant'")
      #expect(try timeline[0].decode("what", as: String.self) == "Bob: ticket 812 (to \(user))")
      let report = try await harness.support("customer/\(user)", token: token)
      #expect(String(decoding: report.body, as: UTF8.self).contains("Bob: ticket 812"))

      for (by, actor) in [("ada", "machine machine for ada"), (nil, "machine machine")] {
        let members = by.map { grant.merging(["by": $0]) { $1 } } ?? grant
        #expect(try await harness.support("grant", members, token: Harness.supportToken).status == 201)
        #expect(try await harness.lastActor() == actor)
      }
      _ = try await harness.desk.grant(
        to: user, bundleID: TestApps.climbing, tier: "premium", days: 1, by: #require(Harness.ada))
      #expect(try await harness.lastActor() == "operator ada")
      for members in [["by": ""], ["by": "a\nb"], ["reason": " "]] {
        let wrong = try await harness.support(
          "grant", grant.merging(members) { $1 }, token: Harness.supportToken)
        #expect(wrong.code == "invalid_request", "\(members)")
      }
    }
  }

  @Test func `every action of a person has the person's name, and a policy's has none`() async throws {
    try await withHarness { harness in
      let token = try await harness.add("Bob", .lead)
      let (_, bought) = try await harness.customer()
      let moved = try await harness.support(
        "transfer",
        [
          "originalTransactionID": bought.originalTransactionID, "to": UUID().uuidString, "force": true,
        ], token: token)
      #expect(moved.status == 200)
      #expect(try await harness.lastActor() == "person Bob #")
      let person = try #require(try await harness.service.people.list().people.first)
      _ = try await harness.service.rotateEntitlementKey(
        by: SupportAuthor(by: .person(person), reason: "yearly"))
      #expect(try await harness.lastActor() == "person Bob #")
      await #expect(throws: PostgresError.self) {
        try await harness.pool.query(
          "INSERT INTO support_actions (action, by, actor, reason) VALUES ('grant', 'Bob', 'person', 'x')")
      }
    }
  }

  @Test func `an agent gives at most the configured days at once, and is told that a lead may give more`()
    async throws
  {
    let configuration = TestApps.json.replacing(
      "{ \"apps\": [", with: "{ \"support\": { \"agentGrantDays\": 3 }, \"apps\": [")
    for (configuration, days) in [(TestApps.json, 14), (configuration, 3)] {
      try await withHarness(configuration: configuration) { harness in
        let (agent, lead) = (try await harness.add("bob", .agent), try await harness.add("Ada", .lead))
        let now = harness.clock.now
        for device in ["phone", "tablet"] {
          _ = try await harness.pool.query(
            """
            INSERT INTO trials (bundle_id, device_id, started_at, ends_at)
            VALUES (\(TestApps.family), \(device), \(now), \(now + 86_400))
            """)
        }
        func give(_ path: String, _ days: Int, to device: String, _ token: String) async throws -> Answer {
          try await harness.support(
            path,
            [
              "customer": device, "deviceID": device, "bundleID": TestApps.family, "tier": "family",
              "days": days,
            ], token: token)
        }
        for (path, status) in [("grant", 201), ("extend-trial", 200)] {
          let more = try await give(path, days + 1, to: "phone", agent)
          #expect(more.status == 403)
          #expect(more.code == "forbidden")
          #expect(
            more.string("detail")
              == "An agent may give at most \(days) days at once, and bob has the role agent. A lead may give "
              + "\(days + 1) days.")
          #expect(try await give(path, days, to: "phone", agent).status == status)
          #expect(try await give(path, days + 1, to: "tablet", lead).status == status)
        }
        // A machine has no limit of its own.
        #expect(try await give("grant", 400, to: "phone", Harness.supportToken).status == 201)
      }
    }
  }

  @Test
  func `an agent revokes own grants alone, and a grant in the agent's name by another actor is not own`()
    async throws
  {
    try await withHarness { harness in
      let (bob, carol) = (try await harness.add("bob", .agent), try await harness.add("carol", .agent))
      let lead = try await harness.add("Ada", .lead)
      func give(_ token: String) async throws -> String {
        let answer = try await harness.support(
          "grant",
          [
            "customer": UUID().uuidString.lowercased(), "bundleID": TestApps.climbing, "tier": "premium",
            "days": 3, "force": true,
          ], token: token)
        return try #require(answer.string("grant"))
      }
      let (own, other) = (try await give(bob), try await give(carol))
      let operators = try await harness.desk.grant(
        to: UUID().uuidString, bundleID: TestApps.climbing, tier: "premium", days: 3,
        by: #require(Harness.makeAuthor("bob", "ticket 812")), isForced: true
      ).grant
      for grant in [other, operators] {
        let refused = try await harness.support("revoke-grant", ["grant": grant], token: bob)
        #expect(refused.status == 403 && refused.code == "forbidden")
        #expect(refused.string("detail")?.hasSuffix("A lead may revoke it.") == true)
      }
      #expect(try await harness.count("grants WHERE revoked_at IS NOT NULL") == 0)
      let revoked = try await harness.support("revoke-grant", ["grant": own], token: bob)
      #expect(revoked.status == 200 && revoked.string("revokedBy") == "bob")
      #expect(
        try await harness.support("revoke-grant", ["grant": own], token: bob).bool("isChanged") == false)
      #expect(try await harness.support("revoke-grant", ["grant": other], token: lead).status == 200)
      #expect(
        try await harness.support("revoke-grant", ["grant": operators], token: Harness.supportToken).status
          == 200)
    }
  }

  @Test func `the last use of a token is written once an hour`() async throws {
    try await withHarness { harness in
      let token = try await harness.add("bob", .agent)
      let first = harness.clock.now
      func use() async throws -> Date? {
        #expect(try await harness.support("find/x", token: token).status == 200)
        return try await harness.service.people.list().people[0].lastUsedAt
      }
      #expect(try await harness.service.people.list().people[0].lastUsedAt == nil)
      #expect(try await use() == first)
      harness.clock.advance(seconds: 3_599)
      #expect(try await use() == first)
      harness.clock.advance(seconds: 1)
      #expect(try await use() == first + 3_600)
    }
  }

  @Test func `an address with many failed attempts cannot try SUPPORT_TOKEN, and people still sign in`()
    async throws
  {
    try await withHarness(environment: ["RATE_LIMIT": "20"]) { harness in
      let token = try await harness.add("bob", .agent)
      func status(_ token: String) async throws -> Int {
        try await harness.support("find/x", token: token).status
      }
      for attempt in 0..<20 { #expect(try await status("guess \(attempt)") == 401) }
      for wrong in ["guess", PersonToken().text, Harness.supportToken] {
        let limited = try await harness.support("find/x", token: wrong)
        #expect(limited.status == 429 && limited.code == "rate_limited", "\(wrong)")
        #expect(limited.headers[.retryAfter] != nil)
      }
      #expect(try await status(token) == 200)
      harness.clock.advance(seconds: 5)
      #expect(try await status(Harness.supportToken) == 200)
    }
  }

  @Test func `figures are returned by view, day and app, and contain no customer`() async throws {
    try await withHarness { harness in
      let token = try await harness.add("carol", .numbers)
      let (user, _) = try await harness.customer()
      harness.clock.advance(days: 1)
      _ = try await harness.countWhatIsDue()
      let day = Day(of: harness.clock.now).advanced(by: -1).description
      let shown = try await harness.support("numbers/kpi_daily?from=\(day)&to=\(day)", token: token)
      let rows = try #require(shown["rows"] as? [[String: Any]])
      #expect(rows.contains { $0["new"] as? Int == 1 && $0["bundle_id"] as? String == TestApps.climbing })
      #expect(rows.allSatisfy { $0["day"] as? String == day })
      #expect(
        (rows.first?["as_of"] as? String)?.wholeMatch(of: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/) != nil)
      for view in NumbersView.allCases {
        let answer = try await harness.support("numbers/\(view.rawValue)?from=\(day)", token: token)
        #expect(answer.status == 200, "\(view)")
        #expect(!String(decoding: answer.body, as: UTF8.self).contains(user.uuidString.lowercased()))
      }
      let none = try await harness.support("numbers/kpi_daily?bundleID=none", token: token)
      #expect(none.status == 404 && none.code == "not_found")
      for (path, status) in [
        ("kpi_none", 404), ("people", 404), ("kpi_daily?from=x", 400),
        ("kpi_daily?from=2020-01-01&to=2026-01-01", 400), ("kpi_daily?from=2026-01-02&to=2026-01-01", 400),
      ] {
        #expect(try await harness.support("numbers/\(path)", token: token).status == status, "\(path)")
      }
    }
  }
}
