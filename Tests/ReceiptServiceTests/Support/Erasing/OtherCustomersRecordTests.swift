import Actions
import AppStore
import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import Subscriptions
import Testing

@testable import Deliveries
@testable import ReceiptService
@testable import Support

/// What the erasure of one customer leaves of the records of others.
@Suite struct OtherCustomersRecordTests {
  @Test(arguments: [
    "{", "}", "\"", "[", ":", "1", "e", "%", "_", "\\", ".", ".*", "grant", "ticket", "sister", "ada",
    "device",
    "her (sister) said 100% \\ e_1", "TICKET-812", "case-2026-of-ticket-812",
  ])
  func `no id that a client chooses changes the record of another customer`(id: String) async throws {
    try await withHarness { harness in
      let author = try #require(
        Harness.makeAuthor(
          "ada", "ticket-812 (case-2026-of-ticket-812): her (sister) said 100% \\ e_1 { } [1] \"x\": ok."))
      let bought = try await harness.deviceBuys("other-phone")
      _ = try await harness.desk.preferRefund(.grant, for: "other-phone", by: author)
      _ = try await harness.desk.preferRefund(.decline, for: bought.transactionID, by: author)
      _ = try await harness.desk.grant(
        to: "other-phone", bundleID: TestApps.family, tier: "family", days: 9, by: author)
      try await harness.device(named: id)
      let before = try await harness.records()
      let letter = try #require(Harness.makeAuthor("ada", "letter of 20 November"))
      let dry = try await harness.desk.eraseCustomer(id, by: letter, isDryRun: true)
      #expect(dry.description.contains("rows of other customers: none"), "\(dry)")
      #expect(try await harness.records() == before)
      let report = try await harness.desk.eraseCustomer(id, by: letter)
      #expect(report.erased.first?.rowsOfOthers == 0)
      #expect(try await harness.records() == before)
    }
  }

  @Test func `erasing a device from which support took a purchase leaves the purchase as it is`()
    async throws
  {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      let bought = try await harness.deviceBuys("former")
      try await harness.arrives(bought)
      _ = try await harness.desk.transfer(
        bought.originalTransactionID, to: "present", by: ada, isForced: true)
      let kept: Query = """
        SELECT (SELECT jsonb_agg(to_jsonb(s) - '{taken_from,updated_at}'::text[]) FROM subscriptions s)::text
          || (SELECT jsonb_agg(to_jsonb(t)) FROM transactions t)::text
          || (SELECT jsonb_agg(to_jsonb(n) ORDER BY notification_uuid) FROM notifications n)::text AS value
        """
      let before = try await harness.pool.query(kept)[0].decode("value", as: String.self)
      #expect(before.contains(bought.originalTransactionID))
      _ = try await harness.desk.eraseCustomer("former", by: ada, isForced: true)
      #expect(try await harness.pool.query(kept)[0].decode("value", as: String.self) == before)
      #expect(try await harness.count("subscriptions WHERE taken_from = 'former'") == 0)
      #expect(try await harness.count("subscriptions WHERE taken_from LIKE 'erased-%'") == 1)
    }
  }

  @Test func `no word that receiptd writes into details is taken for a customer`() async throws {
    try await withHarness(configuration: Harness.apps(#""refundAnswers": "facts""#)) { harness in
      let ada = try #require(Harness.ada)
      let (user, bought) = try await harness.customer()
      let id = user.uuidString
      _ = try await harness.consent(true, of: user)
      let grant = try await harness.desk.grant(
        to: id, bundleID: TestApps.climbing, tier: "premium", days: 9, by: ada)
      _ = try await harness.desk.revokeGrant(#require(UUID(uuidString: grant.grant)), by: ada)
      _ = try await harness.desk.preferRefund(.grant, for: id, by: ada)
      try await harness.requestsRefund(of: bought)
      try await harness.service.deliveries.storeCalls.run()
      // The notification of the renewal is lost.
      harness.clock.advance(days: 31)
      _ = try harness.store.perform(.renew, on: bought.originalTransactionID)
      _ = try await harness.desk.refresh(id, by: ada)
      _ = try await harness.service.support.renewalExtensions.extend(
        bought.originalTransactionID, days: 1, reasonCode: 0, by: ada)
      _ = try await harness.desk.setFreeAccess(true, bundleID: TestApps.family, by: ada)
      _ = try await harness.service.people.add("grace", role: .lead, by: ada)
      let words = try await harness.pool.query(
        """
        SELECT DISTINCT value #>> '{}' AS word
        FROM support_actions, jsonb_path_query(details, 'strict $.**') AS value
        WHERE jsonb_typeof(value) = 'string'
        """
      ).map { try $0.decode("word", as: String.self) }
      #expect(words.count > 12, "\(words)")
      #expect(words.contains { $0.hasPrefix("transactionID: ") }, "\(words)")
      for word in words { try await harness.device(named: word) }
      // An erasure reads only records of the customer's own app.
      _ = try await harness.pool.query("UPDATE support_actions SET bundle_id = \(TestApps.family)")
      let before = try await harness.records()
      // One of the words is the id of a purchase too.
      for word in words {
        _ = try await harness.desk.eraseCustomer(word, bundleID: TestApps.family, by: ada, isForced: true)
      }
      #expect(try await harness.records() == before)
    }
  }

  @Test func `an erasure replaces the id in what receiptd recorded of a look-up of another customer's order`()
    async throws
  {
    try await withHarness { harness in
      let (user, _) = try await harness.customer()
      let id = user.uuidString.lowercased()
      _ = try await harness.pool.query(
        """
        INSERT INTO support_actions (action, bundle_id, original_transaction_id, by, actor, reason, details)
        SELECT 'find', \(TestApps.climbing), '910000000000001', 'receiptd', 'receiptd', 'asked the App Store about an order id',
          jsonb_build_object('910000000000001', ARRAY['owner: ' || \(id)::text || ' -> ' || gen_random_uuid()])
        """)
      #expect(try await harness.erase(id).erased.first?.rowsOfOthers == 1)
      #expect(try await harness.tables(with: id) == [])
      #expect(try await harness.count("support_actions WHERE details::text LIKE '%owner: %'") == 1)
    }
  }

  @Test func `an erasure ends calls with the user's id about purchases that another user got at once`()
    async throws
  {
    try await withHarness { harness in
      let (user, _) = try await harness.customer()
      let (other, bought) = try await harness.customer()
      for caller in [user, other] {
        _ = try await harness.pool.query(
          """
          INSERT INTO store_calls (kind, key, bundle_id, environment, original_transaction_id, transaction_id, user_id,
            asked_at, deadline, next_attempt_at)
          VALUES ('account_token', \(caller.uuidString), \(TestApps.climbing), 'Production',
            \(bought.originalTransactionID), \(bought.transactionID), \(caller), now(), now(), now())
          """)
      }
      try await harness.erase(user.uuidString)
      #expect(try await harness.count("store_calls WHERE outcome = 'not_needed' AND user_id IS NULL") == 1)
      #expect(try await harness.count("store_calls WHERE settled_at IS NULL AND user_id = '\(other)'") == 1)
    }
  }

  @Test func `a pairing of another customer, and a place that another device took, count as theirs`()
    async throws
  {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      try await LiveTables.run(
        """
        INSERT INTO devices (bundle_id, device_id, child_device_id, name) VALUES
          ('\(TestApps.family)', 'parent', 'child', 'Emma'), ('\(TestApps.family)', 'child', 'doll', 'Doll'),
          ('\(TestApps.family)', 'child', 'child', 'Self');
        INSERT INTO trials (bundle_id, device_id, app_transaction_id, environment, started_at, ends_at, displaced_device_id,
          displaced_at) VALUES ('\(TestApps.family)', 'heir', '1', 'Production', now(), now(), 'child', now());
        """, on: harness.pool)
      for isDryRun in [true, false] {
        let report = try await harness.desk.eraseCustomer("child", by: ada, isDryRun: isDryRun)
        let erased = try #require(report.erased.first)
        #expect(erased.rows["devices"] == 2)
        #expect(erased.rows["trials"] == nil)
        #expect(erased.pairingsOfOthers == 1)
        #expect(erased.rowsOfOthers == 1)
        #expect(
          report.description.contains("pairings of other customers with the device: 1 (deleted)"), "\(report)"
        )
      }
      #expect(try await harness.count("devices") == 0)
      #expect(try await harness.count("trials WHERE displaced_device_id IS NOT NULL") == 0)
      let recorded = try await harness.value(
        """
        SELECT concat_ws(' ', details ->> 'rowsOfOthers', details ->> 'pairingsOfOthers', details ->> 'devices') AS value
        FROM support_actions WHERE action = 'erase-customer'
        """, as: String.self)
      #expect(recorded == "1 1 2")
    }
  }

  @Test func `another customer's record keeps all but the id of the erased customer`() async throws {
    try await withHarness { harness in
      let (user, _) = try await harness.customer()
      let (other, bought) = try await harness.customer()
      let (id, otherID) = (user.uuidString.lowercased(), other.uuidString.lowercased())
      let author = try #require(
        Harness.makeAuthor("ada", "the sister of \(id.uppercased()). Not of \(id)-2 or x\(id)"))
      _ = try await harness.desk.grant(
        to: otherID, bundleID: TestApps.climbing, tier: "premium", days: 9, by: author)
      // As a refresh records it, and as a later version might.
      let details = """
        {"asked": "user", "\(bought.originalTransactionID)": ["status: expired -> active", "owner: \(id) -> \(otherID)"],
         "former": [{"customer": "\(id)", "note": "not \(id)"}], "prefer": "\(id)"}
        """
      _ = try await harness.pool.query(
        """
        INSERT INTO support_actions (action, bundle_id, to_customer, customer_kind, by, actor, reason, details)
        VALUES ('refresh', \(TestApps.climbing), \(otherID), 'user', 'ada', 'operator', 'ticket 812',
          \(details)::text::jsonb)
        """)
      let dry = try await harness.desk.eraseCustomer(id, by: #require(Harness.ada), isDryRun: true)
      #expect(
        dry.description.contains("rows of other customers: 3 (only the id in them becomes the pseudonym)"))
      #expect(dry.description.split(separator: "\n").allSatisfy { $0.count <= 80 }, "\(dry)")
      let report = try await harness.erase(id)
      let pseudonym = try #require(report.erased.first?.pseudonym)
      let rows = try await harness.pool.query(
        """
        SELECT reason, details::text, to_customer FROM support_actions
        WHERE to_customer = \(otherID) ORDER BY id
        """)
      let reason = "the sister of \(pseudonym). Not of \(id)-2 or x\(id)"
      #expect(try rows[0].decode("reason", as: String.self) == reason)
      #expect(try await harness.value("SELECT reason AS value FROM grants") == reason)
      let kept = try rows[1].decode("details", as: String.self)
      #expect(kept.contains(#""owner: \#(pseudonym) -> \#(otherID)""#), "\(kept)")
      #expect(kept.contains(#""status: expired -> active""#), "\(kept)")
      #expect(kept.contains(#""customer": "\#(pseudonym)""#), "\(kept)")
      #expect(kept.contains(#""note": "not \#(id)""#), "\(kept)")
      #expect(kept.contains(#""prefer": "\#(id)""#), "\(kept)")
      #expect(try rows[1].decode("reason", as: String.self) == "ticket 812")
      let recorded = try await harness.value(
        "SELECT details ->> 'rowsOfOthers' AS value FROM support_actions WHERE action = 'erase-customer'",
        as: String.self)
      #expect(recorded == "3")
    }
  }

  @Test func `erasing a device leaves the same UUID in another case, which is another device`() async throws {
    try await withHarness { harness in
      let id = "abcdef00-1234-4000-8000-0000000000ab"
      let author = try #require(Harness.makeAuthor("ada", "same household as \(id)"))
      _ = try await harness.deviceBuys("other-phone")
      _ = try await harness.desk.grant(
        to: "other-phone", bundleID: TestApps.family, tier: "family", days: 9, by: author)
      for name in [id, id.uppercased()] { try await harness.device(named: name) }
      let before = try await harness.records()
      #expect(try await harness.erase(id.uppercased()).erased.first?.rowsOfOthers == 0)
      #expect(try await harness.records() == before)
      #expect(try await harness.erase(id).erased.first?.rowsOfOthers == 2)
      #expect(try await !harness.records().contains { $0.contains(id) })
    }
  }

  @Test func `the record of a purchase between two other customers stays as it is`() async throws {
    try await withHarness { harness in
      let (_, bought) = try await harness.customer()
      let (second, third) = (UUID(), UUID())
      for owner in [second, third] {
        _ = try await harness.desk.transfer(
          bought.originalTransactionID, to: owner.uuidString, by: #require(Harness.ada), isForced: true)
      }
      let first = try await harness.actions()[0]
      try await harness.erase(third.uuidString)
      let actions = try await harness.actions()
      #expect(actions[0] == first)
      #expect(actions[1].reason == "(erased)")
      #expect(actions[1].from == second.uuidString.lowercased())
    }
  }

  @Test func `an event in the outbox whose key a device has as its id is sent`() async throws {
    try await withEvents { harness, receiver in
      _ = try await harness.startTrial("phone-1")
      let key = try await harness.value(
        "SELECT key AS value FROM outbox WHERE destination = 'event'", as: String.self)
      try await harness.device(named: key)
      #expect(try await harness.desk.exportCustomer(key).tables.allSatisfy { $0.table != "outbox" })
      try await harness.erase(key)
      try await harness.service.deliveries.outbox.run()
      #expect(receiver.events.contains { $0.type == "trial.started" })
    }
  }

  @Test func `a transfer that waits is told after its former customer is erased, with the pseudonym`()
    async throws
  {
    try await withEvents(["transferred"]) { harness, receiver in
      let (former, bought) = try await harness.customer()
      let present = UUID()
      _ = try await harness.desk.transfer(
        bought.originalTransactionID, to: present.uuidString, by: #require(Harness.ada), isForced: true)
      let pseudonym = try #require(try await harness.erase(former.uuidString).erased.first?.pseudonym)
      try await harness.service.deliveries.outbox.run()
      let event = try receiver.first(.transferred)
      #expect(event.text("customer.id") == present.uuidString.lowercased())
      #expect(event.text("formerCustomer.id") == pseudonym)
      #expect(try await harness.count("lifecycle_events WHERE former_user_id = '\(former)'") == 0)
    }
  }

  @Test func `paused devices that wait to be told are told after one is erased, with its pseudonym`()
    async throws
  {
    try await withEvents(["paused_devices"]) { harness, receiver in
      try harness.sellFamilySubscriptions()
      let bought = try harness.buy(TestApps.familyPlan, bundleID: TestApps.family)
      _ = try await harness.device("phone", shows: bought)
      for number in 1...3 {
        let answer = try await harness.send(
          .post, "/api/v1/devices/phone/children?bundleID=\(TestApps.family)",
          json: #"{"childDeviceID": "child-\#(number)"}"#)
        #expect(answer.status == 201)
        harness.clock.advance(seconds: 1)
      }
      try await harness.happens(.changeProduct(TestApps.individual), to: bought.originalTransactionID)
      harness.clock.set(try #require(bought.transaction.expiresDate))
      try await harness.happens(.renew, to: bought.originalTransactionID)
      for _ in 0..<2 {
        _ = try await harness.service.sweep.run()
        _ = try await harness.service.deliveries.eventSweep.run()
      }
      let pseudonym = try #require(try await harness.erase("child-2").erased.first?.pseudonym)
      try await harness.service.deliveries.outbox.run()
      let paused = try receiver.first(.pausedDevices)
      #expect(paused.text("customer.id") == "phone")
      #expect(paused.value("data.pausedDevices") as? [String] == [pseudonym, "child-3"])
    }
  }

  @Test func `a refused request of another customer about the purchase stays`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      let other = UUID()
      for named in [user, other, nil] {
        _ = try await harness.pool.query(
          """
          INSERT INTO refused_attempts (at, bundle_id, route, user_id, transaction_id, code, request_id, address_prefix)
          VALUES (now(), \(TestApps.climbing), 'POST /x', \(named), \(bought.transactionID), 'forbidden', 'r',
            '203.0.113.0/24')
          """)
      }
      try await harness.erase(user.uuidString)
      #expect(try await harness.count("refused_attempts") == 1)
      #expect(try await harness.count("refused_attempts WHERE user_id = '\(other)'") == 1)
    }
  }

  @Test func `the call that tells the App Store a user ends with the user, also after a transfer`()
    async throws
  {
    try await withHarness(configuration: Harness.apps(#""tellAccountToken": true"#)) { harness in
      let (former, present) = (UUID(), UUID())
      let bought = try harness.buy()
      let token = try await harness.token(for: former)
      #expect(try await harness.sync([bought.signedTransaction], user: former, token: token).status == 200)
      _ = try await harness.desk.transfer(
        bought.originalTransactionID, to: present.uuidString, by: #require(Harness.ada), isForced: true)
      try await harness.erase(former.uuidString)
      #expect(try await harness.count("store_calls WHERE outcome = 'not_needed' AND user_id IS NULL") == 1)
    }
  }

  @Test(arguments: ["e", "1", "letter"])
  func `a customer with a short id can be erased for a reason that has its letters`(id: String) async throws {
    try await withHarness { harness in
      try await harness.device(named: id)
      let named = try #require(Harness.makeAuthor("ada", "asked by '\(id)'"))
      #expect(try await refusal { _ = try await harness.desk.eraseCustomer(id, by: named) } == .invalid)
      let letters = try #require(Harness.makeAuthor("ada", "the letters of ticket 11"))
      _ = try await harness.desk.eraseCustomer(id, by: letters)
      #expect(try await harness.count("trials WHERE device_id LIKE 'erased-%'") == 1)
    }
  }
}

extension Harness {
  /// A device whose only record is a trial that is over.
  func device(named id: String, of bundleID: String = TestApps.family) async throws {
    _ = try await pool.query(
      """
      INSERT INTO trials (bundle_id, device_id, started_at, ends_at)
      VALUES (\(bundleID), \(id), \(clock.now - 86_400), \(clock.now))
      """)
  }

  /// The rows of `support_actions` and `grants` as text, without the records of erasures.
  fileprivate func records() async throws -> [String] {
    try await pool.query(
      """
      SELECT to_jsonb(a)::text AS row FROM support_actions a WHERE action <> 'erase-customer'
      UNION ALL SELECT to_jsonb(g)::text FROM grants g ORDER BY 1
      """
    ).map { try $0.decode("row", as: String.self) }
  }
}
