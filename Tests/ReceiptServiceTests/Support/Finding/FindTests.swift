import Actions
import AppStore
import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import Subscriptions
import Testing
import Text

@testable import Deliveries
@testable import ReceiptService
@testable import Support

@Suite struct FindTests {
  @Test func `an order id finds the customer, and the App Store is asked once`() async throws {
    try await withHarness { harness in
      // The notification never arrives, so the order is all that there is.
      let user = UUID()
      let bought = try harness.buy(token: user)
      let order = try #require(bought.orderID)
      let found = try await harness.desk.find(" #\(order.lowercased())\n")
      #expect(found.outcome == .found)
      #expect(found.search.customers == [CustomerSearch.Match(.user(user), of: TestApps.climbing)])
      #expect(found.search.purchases == [bought.originalTransactionID])
      #expect(found.description.split(separator: "\n").allSatisfy { $0.count <= 80 })
      #expect(found.search.transactions.map(\.transactionID) == [bought.transactionID])
      let named = try #require(found.search.transactions.first)
      #expect(named.description == "purchase of \(TestApps.monthly), \(harness.clock.now.rfc3339), 4.99 USD")
      #expect(try await harness.row(of: bought.originalTransactionID).userID == user)

      harness.store.add(.close)
      let again = try await harness.desk.find(order)
      #expect(again.search.purchases == [bought.originalTransactionID])
      #expect(
        try await harness.desk.customer(order).customers.map(\.customer) == [user.uuidString.lowercased()])
    }
  }

  @Test func `a sandbox order is found too`() async throws {
    try await withHarness { harness in
      let bought = try harness.buy(in: .sandbox)
      let found = try await harness.desk.find(try #require(bought.orderID))
      #expect(found.search.purchases == [bought.originalTransactionID])
    }
  }

  @Test func `a customer is found by transaction, user, device and paired device, in any case`() async throws
  {
    try await withScreenTime { harness in
      let bought = try await harness.device("KIM-PHONE", buys: ScreenTime.family)
      _ = try await harness.pair("Kid-1", to: "KIM-PHONE")
      harness.clock.advance(days: 31)
      let renewed = try await harness.happens(.renew, to: bought.originalTransactionID)
      let match = CustomerSearch.Match(.device("KIM-PHONE"), of: ScreenTime.bundleID)
      for id in [
        bought.originalTransactionID, renewed.transactionID, "KIM-PHONE", "kim-phone", " #KIM-PHONE ",
        "Kid-1",
      ] {
        let found = try await harness.desk.find(id)
        #expect(found.search.customers == [match], "\(id)")
      }
      #expect(try await harness.desk.find("Kid-1").search.kinds == [.childDevice])

      // Two devices differ in case alone, and neither is meant for certain.
      for name in ["lab-1", "LAB-1"] { #expect(try await harness.launch(name).status == 201) }
      #expect(try await harness.desk.find("lab-1").search.customers.map(\.customer.id) == ["lab-1"])
      let unclear = try await harness.desk.find("Lab-1")
      #expect(unclear.outcome == .neverSeen)
      #expect(unclear.detail.contains("LAB-1 and lab-1 exist"))
    }
  }

  @Test func `an e-mail address finds the user where auth.users is readable`() async throws {
    try await withHarness(role: nil) { harness in
      let (user, _) = try await harness.customer()
      let unread = try await harness.desk.find("anna@example.com")
      #expect(unread.outcome == .notAnID)
      #expect(unread.detail.contains("order id"))
      _ = try await harness.pool.query("CREATE SCHEMA auth")
      _ = try await harness.pool.query("CREATE TABLE auth.users (id uuid PRIMARY KEY, email text)")
      let other = UUID()
      _ = try await harness.pool.query(
        "INSERT INTO auth.users VALUES (\(user), 'anna@example.com'), (\(other), 'Boris@Example.com')")
      let found = try await harness.desk.find("Anna@Example.com")
      #expect(found.search.customers == [CustomerSearch.Match(.user(user), of: TestApps.climbing)])
      #expect(try await harness.desk.find("clara@example.com").outcome == .neverSeen)
      // Any client may name a device like an address.
      _ = try await harness.pool.query(
        """
        INSERT INTO grants (bundle_id, device_id, tier, starts_at, reason, granted_by)
        VALUES (\(TestApps.family), 'anna@example.com', 'family', now(), 'x', 'y')
        """)
      let both = try await harness.desk.find("anna@example.com")
      #expect(both.search.kinds == [.device, .email])
      #expect(
        Set(both.search.customers.map(\.customer)) == [.device("anna@example.com"), .user(user)])
      let ada = try #require(Harness.ada)
      #expect(
        try await refusal { _ = try await harness.desk.eraseCustomer("anna@example.com", by: ada) }
          == .invalid)
      // Any client may name a device like a user, or pair it as a child: it does not have the user's address.
      _ = try await harness.pool.query(
        """
        INSERT INTO grants (bundle_id, device_id, tier, starts_at, reason, granted_by)
        VALUES (\(TestApps.family), \(other.uuidString.lowercased()), 'family', now(), 'x', 'y')
        """)
      let boris = try await harness.desk.find("boris@example.com")
      #expect(Set(boris.search.customers.map(\.customer)) == [.user(other)])
      // In upper case it is the user's id alone, but a device has it too.
      #expect(
        try await refusal { _ = try await harness.desk.exportCustomer(other.uuidString) } == .invalid)
      _ = try await harness.pool.query(
        "DELETE FROM grants WHERE device_id = \(other.uuidString.lowercased())")
      // A user who signed up and never bought is known.
      for id in ["boris@example.com", other.uuidString] {
        let report = try await harness.desk.customer(id)
        #expect(report.customers.map(\.because) == ["the customer has no purchase, grant or trial"])
      }
    }
  }

  @Test func `a device or a child that is named like an order or a purchase does not hide it`() async throws {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      let (user, bought) = try await harness.customer()
      let order = try #require(bought.orderID)
      _ = try await harness.pool.query(
        """
        INSERT INTO grants (bundle_id, device_id, tier, starts_at, reason, granted_by)
        VALUES (\(TestApps.family), \(order), 'family', now(), 'x', 'y')
        """)
      // The first search asks the App Store, and the second one knows its answer.
      for _ in 0..<2 {
        let found = try await harness.desk.find(order)
        #expect(found.search.kinds == [.device, .order])
        #expect(Set(found.search.customers.map(\.customer)) == [.device(order), .user(user)])
      }
      #expect(try await refusal { _ = try await harness.desk.eraseCustomer(order, by: ada) } == .invalid)
      _ = try await harness.pool.query(
        """
        INSERT INTO devices (bundle_id, device_id, child_device_id)
        VALUES (\(TestApps.family), 'stranger', \(bought.originalTransactionID))
        """)
      #expect(
        try await refusal { _ = try await harness.desk.eraseCustomer(bought.originalTransactionID, by: ada) }
          == .invalid)
      let named = try await harness.desk.eraseCustomer(order, bundleID: TestApps.family, by: ada)
      #expect(named.erased.map(\.kind) == ["device"])
    }
  }

  @Test func `a preference about refunds is of one customer`() async throws {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      let (user, _) = try await harness.customer()
      let id = user.uuidString.lowercased()
      _ = try await harness.pool.query(
        """
        INSERT INTO grants (bundle_id, device_id, tier, starts_at, reason, granted_by)
        VALUES (\(TestApps.family), \(id), 'family', now(), 'x', 'y')
        """)
      #expect(
        try await refusal { _ = try await harness.desk.preferRefund(.grant, for: id, by: ada) } == .invalid)
      _ = try await harness.desk.preferRefund(.grant, for: id, bundleID: TestApps.climbing, by: ada)
      #expect(try await harness.actions().map(\.to) == [id])
    }
  }

  @Test func `the request id of an error message finds the customer and the refusal`() async throws {
    try await withHarness { harness in
      let (_, bought) = try await harness.customer()
      let boris = UUID()
      let refused = try await harness.validate(
        ["signedTransaction": bought.signedTransaction], token: harness.token(for: boris))
      #expect(refused.code == "belongs_to_another_customer")
      try await harness.service.sharedResources.refusedAttempts.flush()
      let found = try await harness.desk.find(try #require(refused.string("requestID")).uppercased())
      #expect(found.search.kinds == [.request])
      #expect(found.search.customers.contains(CustomerSearch.Match(.user(boris), of: TestApps.climbing)))
      #expect(found.search.purchases == [bought.originalTransactionID])
      #expect(found.search.refusals.map(\.code) == ["belongs_to_another_customer"])
      #expect(found.description.contains("belongs_to_another_customer: POST"))
    }
  }

  @Test func `never seen, no id and ask Apple are three answers, and none says that the customer is free`()
    async throws
  {
    try await withHarness { harness in
      let desk = harness.desk
      for id in [UUID().uuidString, "unused-phone", String(repeating: "0a", count: 16)] {
        #expect(try await desk.find(id).outcome == .neverSeen, "\(id)")
      }
      for id in [
        "", " ", "#", "two words", "unused@example.com", "M0000000001", String(repeating: "x", count: 300),
      ] {
        #expect(try await desk.find(id).outcome == .notAnID, "\(id)")
      }
      let unknown = try await desk.find("2000000000000099")
      #expect(unknown.outcome == .askApple)
      #expect(unknown.detail.contains("receiptd refresh 2000000000000099"))
      harness.store.add(.error(.generalInternal))
      #expect(try await desk.find("M0000000002").outcome == .askApple)
      harness.store.clearServerFaults()
      for id in [UUID().uuidString, "two words", "2000000000000099"] {
        let report = try await desk.customer(id)
        #expect(report.isEmpty)
        #expect(!report.description.contains("free") && !report.description.contains("expired"))
      }
      #expect(try await harness.count("store_orders") == 0)
    }
  }

  @Test func `a look-up of an order that repairs a lost refund is recorded with its person and the changes`()
    async throws
  {
    try await withHarness { harness in
      let token = try await harness.add("bob", .agent)
      let before = try await harness.count("support_actions")
      let (user, bought) = try await harness.customer()
      let order = try #require(bought.orderID)
      // The notification of the refund is lost.
      _ = try harness.store.perform(.refundLatest, on: bought.originalTransactionID)
      #expect(try await harness.isPremium(user))
      #expect(try await harness.support("find/\(order)", token: token).string("outcome") == "found")
      #expect(try await harness.isPremium(user) == false)
      #expect(try await harness.lastActor() == "person bob #")
      let row = try #require(
        try await harness.pool.query(
          "SELECT action, original_transaction_id, details::text FROM support_actions ORDER BY id DESC LIMIT 1"
        ).first)
      #expect(try row.decode("action", as: String.self) == "find")
      #expect(try row.decode("original_transaction_id", as: String.self) == bought.originalTransactionID)
      let details = try row.decode("details", as: String.self)
      #expect(details.contains("status: active -> cancelled"), "\(details)")
      #expect(try await harness.tables(with: order) == ["store_orders"])
      let events = try await harness.desk.customer(user.uuidString).customers[0].events
      #expect(
        events.contains { $0.event == "find" && $0.what == "bob: asked the App Store about an order id" })
      // The answer is kept: nothing is asked and repaired again.
      _ = try await harness.desk.find(order)
      #expect(try await harness.count("support_actions") == before + 1)
    }
  }

  @Test func `a look-up is recorded for a lost refund of an earlier period, and not if nothing differed`()
    async throws
  {
    try await withHarness { harness in
      let (_, bought) = try await harness.customer()
      harness.clock.advance(days: 31)
      let renewed = try await harness.happens(.renew, to: bought.originalTransactionID)
      _ = try await harness.desk.find(try #require(renewed.orderID))
      #expect(try await harness.actions() == [])
      _ = try harness.store.perform(
        .refund(transactionID: bought.transactionID, percentage: 100, reason: .refundedForOtherReason),
        on: bought.originalTransactionID)
      _ = try await harness.desk.customer(try #require(bought.orderID))
      #expect(
        try await harness.actions() == [
          Harness.Action(
            action: "find", by: "receiptd", reason: "asked the App Store about an order id")
        ])
      let details = try await harness.value(
        "SELECT details::text AS value FROM support_actions", as: String.self)
      #expect(details.contains("refund of \(bought.transactionID): none -> "), "\(details)")
    }
  }

  @Test func `the support API finds as the command does`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      func ask(_ path: String) async throws -> Answer {
        try await harness.send(
          .get, "/support/v1/" + path, token: Harness.supportToken, to: harness.adminAddress)
      }
      let found = try await ask("find/%23\(bought.originalTransactionID)")
      #expect(found.status == 200)
      #expect(found.string("outcome") == "found")
      let customers = try #require(found["customers"] as? [[String: Any]])
      #expect(customers.map { $0["customer"] as? String } == [user.uuidString.lowercased()])
      #expect(try await ask("find/unused-phone").string("outcome") == "neverSeen")
      #expect(try await ask("find/two%20words").string("outcome") == "notAnID")
      #expect(try await ask("customer/\(bought.orderID ?? "")").status == 200)
      let unknown = try await ask("customer/unused-phone")
      #expect(unknown.status == 404)
      #expect(unknown.string("detail")?.hasPrefix("No record contains unused-phone") == true)
    }
  }
}
