import Actions
import AppStore
import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import Testing
import Text

@testable import Authentication
@testable import Deliveries
@testable import ReceiptService
@testable import Support

/// What erasing a customer removes, from every table.
@Suite struct ErasureTests {
  @Test func `every table and every column has a rule for erasing`() async throws {
    try await withHarness(role: nil) { harness in
      let rows = try await harness.pool.query(
        """
        SELECT c.relname::text AS name, string_agg(a.attname, ' ' ORDER BY a.attname) AS columns
        FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        WHERE c.relnamespace IN ('public'::regnamespace, 'receiptd'::regnamespace) AND c.relkind IN ('r', 'p') GROUP BY 1
        """)
      var rules: [String: CustomerTable] = [:]
      for table in CustomerTable.all {
        #expect(rules.updateValue(table, forKey: table.name) == nil, "\(table.name) has two rules")
      }
      for row in rows {
        let name = try row.decode("name", as: String.self)
        let known = rules.removeValue(forKey: name)
        let rule = try #require(known, "\(name) has no rule in CustomerTable.all")
        guard rule.export != nil else { continue }
        let columns = try row.decode("columns", as: String.self)
        let ruled = rule.columns.split(whereSeparator: \.isWhitespace).sorted().joined(separator: " ")
        #expect(columns == ruled, "the columns of \(name) and those of its rule differ")
      }
      #expect(rules.isEmpty, "there are no tables \(rules.keys.sorted())")
    }
  }

  @Test func `after an erasure no table has a user's id, tokens, orders, account, e-mail or reasons`()
    async throws
  {
    try await withHarness(configuration: Harness.apps(#""refundAnswers": "facts""#), role: nil) { harness in
      let (user, bought) = try await harness.customer()
      let id = user.uuidString.lowercased()
      let other = UUID()
      try await live(as: user, with: bought, in: harness)
      // A purchase that the customer had before support gave it to another one.
      let second = try harness.buy(token: user)
      try await harness.arrives(second)
      _ = try await harness.desk.transfer(
        second.originalTransactionID, to: other.uuidString, by: #require(Harness.ada), isForced: true)
      let order = try #require(bought.orderID)
      _ = try await harness.desk.find(order)
      let account = try #require(bought.transaction.appTransactionId)
      let traces = [id, order, account, "ticket 812", "anna@example.com", "her dog", "203.0.113"]
      for trace in traces {
        #expect(try await !harness.tables(with: trace).isEmpty, "\(trace) is nowhere before")
      }

      try await harness.erase(id)
      for trace in traces {
        // The profile's row belongs to the app.
        let found = try await harness.tables(with: trace, except: ["profiles", "user_preferences"])
        // The notifications of a purchase that another customer has stay as signed, with the id alone.
        #expect(found == (trace == id ? ["notifications"] : []), "\(trace)")
      }
      let whole = try await harness.pool.query(
        "SELECT DISTINCT original_transaction_id AS purchase FROM notifications WHERE envelope_claims <> '{}'"
      )
      #expect(try whole.map { try $0.decode("purchase", as: String.self) } == [second.originalTransactionID])
      let profile = try await harness.profileRow(of: user)
      #expect(profile == ProfileRow() || profile == nil)
      #expect(try await harness.isPremiumInPreferences(user) != true)
      #expect(try await harness.row(of: second.originalTransactionID).userID == other)
      let access = try await harness.isPremium(other)
      #expect(access)
      #expect(try await !harness.isPremium(user))
    }
  }

  /// Leaves traces in every table that has rows about users.
  private func live(as user: UUID, with bought: SignedOutcome, in harness: Harness) async throws {
    let ada = try #require(Harness.ada)
    let id = user.uuidString.lowercased()
    let first = try await harness.token(for: user)
    #expect(try await harness.sync([bought.signedTransaction], user: user, token: first).status == 200)
    try await harness.service.sharedResources.seenUsers.flush()
    #expect(try await harness.count("seen_users") == 1)
    harness.clock.advance(days: 31)
    try await harness.happens(.renew, to: bought.originalTransactionID)
    _ = try await harness.consent(true, of: user)
    try await harness.requestsRefund(of: bought)
    try await harness.service.deliveries.storeCalls.run()
    _ = try await harness.desk.preferRefund(.grant, for: id, by: ada)
    _ = try await harness.desk.grant(to: id, bundleID: TestApps.climbing, tier: "premium", days: 9, by: ada)
    _ = try await harness.desk.refresh(id, by: ada)
    _ = try await harness.service.support.renewalExtensions.extend(
      bought.originalTransactionID, days: 1, reasonCode: 0, by: ada)
    let event = """
      {"bundleID": "\(TestApps.climbing)", "customerID": "\(id)", "events": [{"name": "paywall_shown",
       "at": "\(harness.clock.now.rfc3339)", "properties": {"search": "her dog"}}]}
      """
    let later = try await harness.token(for: user)
    #expect(try await harness.send(.post, "/api/v1/events", json: event, token: later).status == 202)
    let pool = harness.pool
    for statement: Query in [
      """
      INSERT INTO refused_attempts (at, bundle_id, route, user_id, transaction_id, code, request_id, address_prefix)
      VALUES (now(), \(TestApps.climbing), 'POST /x', \(user), \(bought.transactionID), 'forbidden', 'r', '203.0.113.0/24')
      """,
      """
      INSERT INTO client_writes (table_name, user_id, original_transaction_id, mode)
      VALUES ('profiles', \(user), \(bought.originalTransactionID), 'observe')
      """,
      """
      INSERT INTO adoptions (bundle_id, customer, source, outcome, detail, run_id, at)
      VALUES (\(TestApps.climbing), \(id), 'file', 'bound', 'anna@example.com', 1, now())
      """,
      """
      INSERT INTO outbox (destination, key, payload, dead_at) VALUES ('webhook', \(id), '{}', now())
      """,
      """
      INSERT INTO store_calls (kind, key, bundle_id, environment, original_transaction_id, transaction_id, user_id,
        asked_at, deadline, next_attempt_at)
      VALUES ('account_token', 'k', \(TestApps.climbing), 'Production', \(bought.originalTransactionID),
        \(bought.transactionID), \(user), now(), now(), now())
      """,
    ] { _ = try await pool.query(statement) }
  }

  @Test func `after an erasure no table has a device's id, its children, its secret or its account`()
    async throws
  {
    try await withScreenTime { harness in
      let secret = ScreenTime.secret(7)
      _ = try await harness.launch("MOTHERS-PHONE", account: "account-of-mother", secret: secret)
      let bought = try harness.store.buy(
        PurchaseRequest(
          bundleID: ScreenTime.bundleID, productID: ScreenTime.family, accountID: "account-of-mother"))
      try await harness.arrives(bought)
      let proof = ["signedTransaction": bought.signedTransaction, "deviceID": "MOTHERS-PHONE"]
      #expect(try await harness.validate(proof, secret: secret).status == 200)
      #expect(
        try await harness.pair("KIMS-IPAD", to: "MOTHERS-PHONE", name: "Kimberley of ours", secret: secret)
          .status == 201)
      let account = try #require(bought.transaction.appTransactionId)
      let hash = try await harness.value(
        "SELECT encode(secret_hash, 'hex') AS value FROM device_secrets", as: String.self)
      let traces = ["MOTHERS-PHONE", "KIMS-IPAD", "Kimberley of ours", account, hash]
      for trace in traces { #expect(try await !harness.tables(with: trace).isEmpty, "\(trace)") }
      try await harness.erase("MOTHERS-PHONE")
      for trace in traces {
        // CloudKit is not told yet.
        let isDevice = ["MOTHERS-PHONE", "KIMS-IPAD"].contains(trace)
        let found = try await harness.tables(with: trace, except: isDevice ? ["outbox"] : [])
        #expect(found == [], "\(trace)")
      }
      #expect(try await harness.count("outbox WHERE key = 'KIMS-IPAD' AND payload ? 'last'") == 1)
      #expect(try await harness.count("trials") == 1)
      #expect(try await harness.entitlements("MOTHERS-PHONE").string("entitlements.status") == "expired")
    }
  }

  @Test func `a running subscription takes force, and a dry run changes nothing`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      let id = user.uuidString
      let ada = try #require(Harness.makeAuthor("ada", "asked by letter"))
      let before = try await harness.tables(with: id)
      let error = await #expect(throws: SupportRefusal.self) {
        _ = try await harness.desk.eraseCustomer(id, by: ada)
      }
      #expect(error?.kind == .invalid)
      #expect(error?.description.contains("\(bought.originalTransactionID) goes on at the App Store") == true)
      let dry = try await harness.desk.eraseCustomer(id, by: ada, isDryRun: true)
      #expect(dry.description.split(separator: "\n").allSatisfy { $0.count <= 80 }, "\(dry)")
      #expect(dry.description.contains("the user would be erased"))
      #expect(dry.description.contains("id: \(id.lowercased())"))
      #expect(dry.description.contains("subscriptions: 1 ("))
      #expect(dry.description.contains("goes on at the App Store until the customer cancels it"))
      #expect(try await harness.tables(with: id) == before)
      #expect(try await harness.actions() == [])
      #expect(try await harness.isPremium(user))
      // A subscription that has ended takes none.
      harness.clock.set(try #require(bought.transaction.expiresDate) + 1)
      #expect(try await harness.erase(id, isForced: false).description.contains("the user is erased"))
    }
  }

  @Test(arguments: ["profiles", "user_preferences"])
  func `the dry run and the report name the row of the app that becomes free`(table: String) async throws {
    try await withHarness { harness in
      let user = UUID()
      // It is the app's row, so it stays.
      let column = table == "profiles" ? "id" : "user_id"
      _ = try await harness.pool.query(
        "INSERT INTO \(unescaped: table) (\(unescaped: column)) VALUES (\(user))")
      _ = try await harness.desk.grant(
        to: user.uuidString, bundleID: TestApps.climbing, tier: "premium", days: 3,
        by: #require(Harness.ada), isForced: true)
      let letter = try #require(Harness.makeAuthor("ada", "asked by letter"))
      let dry = try await harness.desk.eraseCustomer(user.uuidString, by: letter, isDryRun: true)
      #expect(dry.erased.first?.rows[table] == 1)
      #expect(dry.description.contains("\(table): 1 (free"), "\(dry)")
      #expect(try await harness.isPremiumInPreferences(user) == true)
      let report = try await harness.erase(user.uuidString)
      #expect(report.erased.first?.rows == dry.erased.first?.rows)
      #expect(try await harness.isPremiumInPreferences(user) != true)
      #expect(try await refusal { try await harness.erase(user.uuidString) } == .notFound)
    }
  }

  @Test func `the record has the pseudonym, the author and the counts, and a second erasure finds nobody`()
    async throws
  {
    try await withHarness { harness in
      let (user, _) = try await harness.customer()
      let id = user.uuidString.lowercased()
      let named = try #require(Harness.makeAuthor("ada", "letter of \(id.uppercased())"))
      #expect(
        try await refusal { _ = try await harness.desk.eraseCustomer(id, by: named, isForced: true) }
          == .invalid)
      try await harness.erase(id)
      let row = try await harness.pool.query(
        """
        SELECT action, to_customer, customer_kind, by, reason, bundle_id, details ->> 'subscriptions' AS count
        FROM support_actions
        """)[0]
      #expect(try row.decode("action", as: String.self) == "erase-customer")
      #expect(try row.decode("by", as: String.self) == "ada")
      #expect(try row.decode("reason", as: String.self) == "asked by letter")
      #expect(try row.decode("customer_kind", as: String.self) == "user")
      #expect(try row.decode("bundle_id", as: String.self) == TestApps.climbing)
      #expect(try row.decode("count", as: String.self) == "1")
      let pseudonym = try row.decode("to_customer", as: String.self)
      #expect(pseudonym != id)
      // The row of the profile was added by receiptd, and went too.
      #expect(try await refusal { try await harness.erase(id) } == .notFound)
      #expect(try await refusal { try await harness.erase(pseudonym) } == .alreadyDone)
      #expect(try await refusal { try await harness.erase(UUID().uuidString) } == .notFound)
    }
  }

  @Test func `an erasure says that the sign-up is left, and a second one finds only the sign-up`()
    async throws
  {
    try await withHarness(role: nil) { harness in
      let (user, _) = try await harness.customer()
      _ = try await harness.pool.query("CREATE SCHEMA auth")
      _ = try await harness.pool.query("CREATE TABLE auth.users (id uuid PRIMARY KEY, email text)")
      _ = try await harness.pool.query("INSERT INTO auth.users VALUES (\(user), 'anna@example.com')")
      let ada = try #require(Harness.ada)
      let report = try await harness.desk.eraseCustomer(user.uuidString, by: ada, isForced: true)
      #expect(report.description.contains("the sign-up is still in auth.users: delete it there"))
      #expect(
        try await refusal { _ = try await harness.desk.eraseCustomer(user.uuidString, by: ada) } == .notFound)
      #expect(try await harness.actions().map(\.action) == ["erase-customer"])
      _ = try await harness.pool.query("DELETE FROM auth.users")
      #expect(try await harness.desk.find(user.uuidString).isFound == false)
    }
  }

  @Test(arguments: [
    ("PHONE-1", "phone-1"), ("phone-1", "PHONE-1"), ("#phone-1", "phone-1"), (" phone-1", "phone-1"),
  ])
  func `an id in another spelling exports and erases nothing`(typed: String, other: String) async throws {
    try await withHarness { harness in
      for device in [typed, other] { try await harness.device(named: device) }
      let report = try await harness.erase(typed)
      #expect(report.erased.map(\.customer) == [typed])
      #expect(report.erased.map(\.kind) == ["device"])
      #expect(report.erased.map(\.bundleIDs) == [[TestApps.family]])
      let ada = try #require(Harness.ada)
      for action in [
        { _ = try await harness.erase(typed) },
        { _ = try await harness.desk.eraseCustomer(typed, by: ada, isDryRun: true) },
        { _ = try await harness.desk.exportCustomer(typed) },
      ] as [() async throws -> Void] {
        let error = await #expect(throws: SupportRefusal.self) { try await action() }
        #expect(error?.kind == .notFound)
        #expect(error?.description.contains("device \(other) exists") == true)
      }
      #expect(try await harness.count("trials WHERE device_id = '\(other)'") == 1)
      #expect(try await harness.desk.exportCustomer(other).id == other)
    }
  }

  @Test func `an order leads to the customer and erases nobody`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      let error = await #expect(throws: SupportRefusal.self) {
        try await harness.erase(try #require(bought.orderID))
      }
      #expect(error?.kind == .invalid)
      #expect(error?.description.contains("give that id") == true)
      #expect(error?.description.contains(user.uuidString.lowercased()) == true)
      #expect(try await harness.isPremium(user))
    }
  }

  @Test func `the support API erases and exports`() async throws {
    try await withHarness { harness in
      let (user, _) = try await harness.customer()
      func ask(_ method: HTTPRequest.Method, _ path: String, _ json: String? = nil) async throws -> Answer {
        try await harness.send(
          method, "/support/v1/" + path, json: json, token: Harness.supportToken, to: harness.adminAddress)
      }
      let members = #""customer": "\#(user)", "by": "ada", "reason": "asked by letter""#
      #expect(try await ask(.get, "export-customer/\(user)").status == 200)
      #expect(try await ask(.post, "erase-customer", "{\(members)}").code == "invalid_request")
      let dry = try await ask(.post, "erase-customer", #"{\#(members), "dryRun": true}"#)
      #expect(dry.bool("isDryRun") == true)
      let done = try await ask(.post, "erase-customer", #"{\#(members), "force": true}"#)
      #expect(done.status == 200)
      let erased = try #require(done["erased"] as? [[String: Any]])
      #expect(erased.first?["customer"] as? String == user.uuidString.lowercased())
      #expect(erased.first?["pseudonym"] is String)
      #expect((erased.first?["runningSubscriptions"] as? [String])?.count == 1)
      #expect(try await ask(.get, "export-customer/\(user)").code == "not_found")
      #expect(try await ask(.post, "erase-customer", "{\(members)}").code == "not_found")
    }
  }

  @Test func `one webhook event tells of the erasure, and then the id is gone`() async throws {
    try await withWebhook { harness, receiver in
      let (user, _) = try await harness.customer()
      let id = user.uuidString.lowercased()
      try await harness.service.deliveries.outbox.run()
      try await harness.erase(id)
      // It waits for the webhook.
      #expect(try await harness.tables(with: id) == ["outbox"])
      try await harness.service.deliveries.outbox.run()
      let event = try #require(receiver.events.last)
      #expect(receiver.events.count == 2)
      #expect(event.value("type") as? String == "customer.erased")
      #expect(event.value("data.customer.id") as? String == id)
      #expect(event.value("data.customer.kind") as? String == "user")
      #expect(event.value("data.entitlements") == nil)
      #expect(try await harness.tables(with: id) == [])
      try await harness.service.deliveries.outbox.run()
      #expect(receiver.events.count == 2)
    }
  }

  @Test func `the CloudKit record of an erased device is deleted`() async throws {
    try await withCloudKit { harness, cloud in
      _ = try await harness.deviceBuys("parent-1")
      try await harness.service.deliveries.outbox.run()
      try await harness.erase("parent-1")
      try await harness.service.deliveries.outbox.run()
      #expect(cloud.deleted == [FakeCloudKit.recordName("parent-1")])
      #expect(cloud.writes.count == 1)
      #expect(try await harness.tables(with: "parent-1") == [])
    }
  }
}
