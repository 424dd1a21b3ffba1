import Actions
import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import Subscriptions
import Testing
import Text

@testable import Customers
@testable import ReceiptService
@testable import Support

@Suite struct CustomerReportTests {
  @Test func `a support report is found by user UUID and by any transaction, and explains access`()
    async throws
  {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      let (user, bought) = try await harness.customer()
      harness.clock.advance(days: 31)
      let renewed = try await harness.happens(.renew, to: bought.originalTransactionID)
      _ = try await harness.desk.grant(
        to: user.uuidString, bundleID: TestApps.climbing, tier: "premium", days: 3, by: ada, isForced: true)
      for id in [
        user.uuidString, user.uuidString.lowercased(), bought.originalTransactionID,
        renewed.transaction.transactionId,
      ] {
        let report = try await harness.desk.customer(id)
        let customer = try #require(report.customers.first, "\(id)")
        #expect(report.customers.count == 1)
        #expect(customer.customer == user.uuidString.lowercased())
        #expect(customer.entitlements.isAccessGranted)
        #expect(customer.because == "the purchase \(bought.originalTransactionID) is active")
        #expect(customer.purchases.map(\.transactionID) == [renewed.transaction.transactionId])
        #expect(customer.purchases.map(\.ownedBecause) == ["app_account_token"])
        #expect(customer.grants.map(\.reason) == ["ticket 812"])
        // A purchase and a renewal are one line each, without the notifications that brought them.
        #expect(Set(customer.events.map(\.event)) == ["purchase", "renewal", "grant"])
        #expect(customer.events.count == 3)
        #expect(customer.events.map(\.at) == customer.events.map(\.at).sorted())
        let lines = report.description.split(separator: "\n")
        #expect(lines.allSatisfy { $0.count <= 80 })
        #expect(lines.contains { $0.contains("by ada: ticket 812") })
      }
    }
  }

  @Test
  func
    `a support report explains purchases that are refunded, ended, sandbox, unknown, transferred or without an owner`()
    async throws
  {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      let cases: [(expected: String, change: (inout TransactionInfo) -> Void)] = [
        ("NOT COUNTED: it is a sandbox purchase", { $0.environment = .sandbox }),
        ("NOT COUNTED: the catalog has no product 'unheard'", { $0.productId = "unheard" }),
        ("ended at", { $0.expiresDate = harness.clock.now - 60 }),
        ("was refunded or revoked at", { $0.revocationDate = harness.clock.now - 60 }),
      ]
      for (expected, change) in cases {
        let user = UUID()
        let info = try harness.transaction(change)
        _ = try await harness.validate(
          ["signedTransaction": harness.sign(info)], token: harness.token(for: user))
        let text = try await harness.desk.customer(user.uuidString).description
        #expect(text.contains(expected), "\(text)")
      }

      let (anna, bought) = try await harness.customer()
      let boris = UUID()
      _ = try await harness.desk.transfer(
        bought.originalTransactionID, to: boris.uuidString, by: ada, isForced: true)
      let former = try await harness.desk.customer(anna.uuidString)
      #expect(
        former.customers.first?.because
          == "the purchase \(bought.originalTransactionID) moved to \(boris.uuidString.lowercased()) at "
          + "\(harness.clock.now.rfc3339) (ada: ticket 812)")
      #expect(former.customers.first?.events.map(\.event) == ["transfer"])
      let owner = try await harness.desk.customer(boris.uuidString).description
      #expect(owner.contains("taken from \(anna.uuidString.lowercased())"))

      let unclaimed = try harness.buy()
      try await harness.arrives(unclaimed)
      let report = try await harness.desk.customer(unclaimed.originalTransactionID)
      #expect(report.customers.isEmpty)
      #expect(report.description.contains("purchases without an owner"))
      #expect(try await harness.desk.customer("no such id").isEmpty)
    }
  }

  @Test func `a support report names the grant that ended, also if nothing else is left`() async throws {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      let (anna, boris) = (UUID().uuidString.lowercased(), UUID().uuidString.lowercased())
      for user in [anna, boris] {
        _ = try await harness.desk.grant(
          to: user, bundleID: TestApps.climbing, tier: "premium", days: 3, by: ada, isForced: true)
      }
      let grants = try await harness.pool.query("SELECT id, user_id::text FROM grants")
      for row in try grants.filter({ try $0.decode("user_id", as: String.self) == boris }) {
        harness.clock.advance(seconds: 60)
        _ = try await harness.desk.revokeGrant(row.decode("id"), by: ada)
      }
      let revoked = harness.clock.now.rfc3339
      harness.clock.advance(days: 4)
      let ended = try #require(try await harness.desk.customer(anna).customers.first)
      #expect(ended.because.contains(" ended at "), "\(ended.because)")
      let taken = try #require(try await harness.desk.customer(boris).customers.first)
      #expect(taken.because.hasSuffix(" was revoked at \(revoked) by ada"), "\(taken.because)")
      // The record names the customer whether the action gave or took.
      let rows = try await harness.pool.query("SELECT action, customer FROM support_actions ORDER BY id")
      #expect(
        try rows.map { try $0.decode("customer", as: String.self) } == [anna, boris, boris])
    }
  }

  @Test func `a support report shows a device's trial, pairings and free access`() async throws {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      let now = harness.clock.now
      _ = try await harness.pool.query(
        """
        INSERT INTO trials (bundle_id, device_id, started_at, ends_at)
        VALUES (\(TestApps.family), 'phone', \(now - 86_400), \(now + 86_400))
        """)
      _ = try await harness.pool.query(
        """
        INSERT INTO devices (bundle_id, device_id, child_device_id, name)
        VALUES (\(TestApps.family), 'phone', 'kid', 'Kim')
        """)
      for id in ["phone", "kid"] {
        let report = try await harness.desk.customer(id)
        #expect(report.customers.first?.because.hasPrefix("the trial from") == true)
        #expect(report.description.contains("paired: kid (Kim)"))
        #expect(report.description.contains("\nchildren\n  kid (Kim), paused, paired "))
      }
      _ = try await harness.desk.setFreeAccess(true, bundleID: TestApps.family, by: ada)
      #expect(try await harness.desk.customer("phone").description.contains("free access  for everyone"))
      harness.clock.advance(days: 3)
      _ = try await harness.desk.setFreeAccess(false, bundleID: TestApps.family, by: ada)
      harness.clock.advance(days: 2)
      #expect(try await harness.desk.customer("phone").description.contains(", ended"))
    }
  }

  @Test func `devices that pair a customer's id as their child's do not fill the customer's page`()
    async throws
  {
    try await withScreenTime { harness in
      _ = try await harness.device("phone", buys: ScreenTime.family)
      let now = harness.clock.now
      for child in ["phone", "kid"] {
        _ = try await harness.pool.query(
          """
          INSERT INTO devices (bundle_id, device_id, child_device_id, paired_at)
          SELECT \(ScreenTime.bundleID)::text, 'stranger-' || i, \(child)::text,
            \(now)::timestamptz + i * interval '1 second'
          FROM generate_series(1, 30) AS i
          """)
      }
      let first = (1...5).map {
        CustomerSearch.Match(.device("stranger-\($0)"), of: ScreenTime.bundleID)
      }
      let own = try await harness.desk.customer("phone")
      #expect(own.customers.map(\.customer) == ["phone"])
      #expect(own.found.search.parents == first)
      #expect(own.found.search.parentsHidden == 25)
      for line in ["paired with  stranger-5 (\(ScreenTime.bundleID))", "paired with  25 more devices"] {
        #expect(own.description.contains("\n\(line)"), "\(own)")
      }
      // The id of a device that is no customer leads to its parents.
      let kid = try await harness.desk.customer("kid")
      #expect(kid.customers.map(\.customer) == first.map(\.customer.id))
      #expect(kid.description.contains("\npaired with  25 more devices"), "\(kid)")
      #expect(!kid.description.contains("paired with  stranger"), "\(kid)")
      let export = try await harness.desk.exportCustomer("kid")
      #expect(export.tables.map(\.rows.count) == [30])

      _ = try await harness.pool.query(
        """
        INSERT INTO devices (bundle_id, device_id, child_device_id, paired_at)
        SELECT \(ScreenTime.bundleID)::text, 'phone', 'child-' || i, \(now) FROM generate_series(1, 25) AS i
        """)
      let children = try await harness.desk.customer("phone")
      #expect(children.customers.map(\.children.count) == [20])
      #expect(children.customers.map(\.childrenHidden) == [5])
      #expect(children.description.contains("\n  and 5 more"), "\(children)")
    }
  }

  @Test func `the report has the sentences about the ends, and the state of a child under its parent`()
    async throws
  {
    try await withScreenTime { harness in
      let bought = try await harness.device("phone", buys: ScreenTime.family)
      let end = try #require(bought.transaction.expiresDate)
      try await harness.pair(3, to: "phone")
      func report(_ id: String) async throws -> (text: String, json: [String: Any]) {
        let report = try await harness.desk.customer(id)
        let answer = try await harness.support("customer/\(id)", token: Harness.supportToken)
        let json = try #require(
          JSONSerialization.jsonObject(with: Data(answer.body)) as? [String: Any])
        return (report.description, json)
      }
      let parent = try await report("phone")
      let sentence = "Paid until \(end.rfc3339); it renews then."
      #expect(parent.text.contains(sentence), "\(parent.text)")
      let customers = try #require(parent.json["customers"] as? [[String: Any]])
      #expect((customers.first?["sentences"] as? [String])?.first == sentence)

      let child = try #require(
        try await harness.desk.customer("phone").customers.first?.children.last?.childDeviceID)
      func pairing() async throws -> [String: Any] {
        let pairings = try #require(try await report(child).json["pairings"] as? [[String: Any]])
        return try #require(pairings.first)
      }
      let active = try await pairing()
      #expect(active["state"] as? String == "active" && active["reason"] is NSNull)
      #expect(active["parent"] as? String == "phone" && active["childDeviceID"] as? String == child)
      #expect(
        try await report(child).text.contains("\nas a child   \(child) is active under phone: it has what"))
      try await harness.happens(.changeProduct(ScreenTime.individual), to: bought.originalTransactionID)
      harness.clock.set(end)
      try await harness.happens(.renew, to: bought.originalTransactionID)
      let paused = try await pairing()
      #expect(paused["state"] as? String == "paused" && paused["reason"] as? String == "device_limit")
      #expect(try await report(child).text.contains("\(child) is paused under phone: more devices"))
    }
  }

  @Test func `a support report says why a child's device is paused`() async throws {
    try await withScreenTime { harness in
      let bought = try await harness.device("phone", buys: ScreenTime.family)
      try await harness.pair(3, to: "phone")
      #expect(
        try await harness.desk.customer("phone").customers[0].children.allSatisfy { $0.pausedBecause == nil })
      try await harness.happens(.changeProduct(ScreenTime.individual), to: bought.originalTransactionID)
      harness.clock.set(try #require(bought.transaction.expiresDate))
      try await harness.happens(.renew, to: bought.originalTransactionID)
      for id in ["phone", "child-3"] {
        let report = try await harness.desk.customer(id)
        #expect(
          report.customers[0].children.map(\.pausedBecause) == [
            nil, "childDevices is 1 (individual, active), and 1 was paired before it",
            "childDevices is 1 (individual, active), and 2 were paired before it",
          ])
        #expect(
          report.description.contains("\n    paused because childDevices is 1 (individual, active), and 2 "))
      }
      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      let refunded = try await harness.desk.customer("phone").customers[0].children
      #expect(refunded.first?.pausedBecause?.hasPrefix("the parent has no access (") == true, "\(refunded)")
    }
  }

  @Test func `a support report escapes control characters in names`() {
    var page = TerminalText()
    page.line("Kim\u{1B}[2J\n\u{202E}gnp.exe \u{9B}1m é 🙂")
    #expect(page.text == "  Kim?[2J??gnp.exe ?1m é 🙂")
  }

  @Test func `a support report wraps long lines at spaces, splits long words, and loses no text`() {
    var page = TerminalText()
    page.member("because", String(repeating: "word ", count: 40) + "end")
    page.line(String(repeating: "x", count: 200), indent: 4)
    let lines = page.text.split(separator: "\n")
    #expect(lines.allSatisfy { $0.count <= 80 })
    #expect(page.text.filter { $0 == "x" }.count == 200)
    #expect(page.text.contains("end"))
    #expect(lines[1].hasPrefix("             word"))
  }

  @Test func `support sees that a family has priority, and that an individual has none`() async throws {
    try await withScreenTime { harness in
      let agent = try await ConsoleBrowser(harness, .agent)
      for (device, product) in [("mother", ScreenTime.family), ("phone", ScreenTime.individual)] {
        try await harness.device(device, buys: product)
        let isFamily = product == ScreenTime.family
        let text = try await harness.desk.customer(device).description
        let lines = text.split(separator: "\n").map {
          $0.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        }
        #expect(lines.contains("support priority, as the tier promises") == isFamily, "\(text)")
        let page = try await agent.page("/console/customer/\(device)")
        #expect(page.contains(#"<span class="tag warn">priority</span>"#) == isFamily, "\(device)")
      }
    }
  }
}
