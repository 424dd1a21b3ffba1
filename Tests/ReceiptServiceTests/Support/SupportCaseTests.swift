import Actions
import AppStore
import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import Testing
import Text

@testable import ReceiptService
@testable import Support

/// The cases of docs/support.md: each starts from what the customer holds, and ends with what support sees.
@Suite struct SupportCaseTests {
  /// What `receiptd customer` prints, without line breaks. The support API names the same customers and reasons.
  private func told(_ id: String, _ harness: Harness) async throws -> String {
    let report = try await harness.desk.customer(id)
    let text = report.description
    #expect(text.split(separator: "\n").allSatisfy { $0.count <= 80 }, "\(text)")
    let answer = try await harness.send(
      .get, "/support/v1/customer/\(id)", token: Harness.supportToken, to: harness.adminAddress)
    #expect(answer.status == 200)
    let customers = answer["customers"] as? [[String: Any]]
    #expect(customers?.compactMap { $0["because"] as? String } == report.customers.map(\.because))
    return text.split(whereSeparator: \.isWhitespace).joined(separator: " ")
  }

  @Test func `charged without access: the purchase has no owner until support transfers it`() async throws {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      let user = UUID().uuidString.lowercased()
      let bought = try harness.buy()
      try await harness.arrives(bought)
      let unowned = try await told(bought.transactionID, harness)
      #expect(unowned.contains("purchases without an owner"))
      #expect(unowned.contains("app \(TestApps.climbing)"))
      _ = try await harness.desk.transfer(bought.originalTransactionID, to: user, by: ada, isForced: true)
      let after = try await told(bought.transactionID, harness)
      #expect(after.contains("because the purchase \(bought.originalTransactionID) is active"), "\(after)")
      #expect(after.contains("customer user \(user)"))
    }
  }

  @Test func `only an order id: Apple's e-mail finds the purchase, and its customer`() async throws {
    try await withHarness { harness in
      // The notification never arrived, so the order id is all that there is.
      let user = UUID()
      let bought = try harness.buy(token: user)
      let order = try #require(bought.orderID)
      let story = try await told(order, harness)
      #expect(story.contains("customer user \(user.uuidString.lowercased())"), "\(story)")
      #expect(story.contains("because the purchase \(bought.originalTransactionID) is active"))
      #expect(try await harness.isPremium(user))
    }
  }

  @Test func `only an e-mail: the sign-up has the user, where receiptd may read it`() async throws {
    try await withHarness(role: nil) { harness in
      let (user, bought) = try await harness.customer()
      #expect(
        try await harness.desk.find("anna@example.com").detail.contains("ask the customer for the order id"))
      _ = try await harness.pool.query("CREATE SCHEMA auth")
      _ = try await harness.pool.query("CREATE TABLE auth.users (id uuid PRIMARY KEY, email text)")
      _ = try await harness.pool.query("INSERT INTO auth.users VALUES (\(user), 'anna@example.com')")
      let story = try await told("Anna@Example.com", harness)
      #expect(story.contains("customer user \(user.uuidString.lowercased())"), "\(story)")
      #expect(story.contains("because the purchase \(bought.originalTransactionID) is active"))
    }
  }

  @Test func `refunded but open: the REFUND was lost, and a reconciliation finds it`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      harness.clock.advance(days: 1)
      _ = try harness.store.perform(.refundLatest, on: bought.originalTransactionID)
      harness.clock.advance(days: 1)
      #expect(try await told(user.uuidString, harness).contains("is active"))
      let report = await harness.service.reconcile(
        since: harness.clock.now - 7 * 86_400, bundleID: TestApps.climbing)
      #expect(report.allSatisfy { $0.failure == nil })
      let after = try await told(user.uuidString, harness)
      #expect(after.contains("access none (cancelled)"), "\(after)")
      #expect(after.contains("was refunded or revoked at"))
      // The notification was lost; one that arrived says webhook.
      #expect(after.contains("refund of 4.99 USD, access ended (history)"))
      #expect(after.contains("paid in total: 0.00 USD"))
    }
  }

  @Test func `refunded and bought again: the second purchase is open`() async throws {
    try await withHarness { harness in
      let user = UUID()
      let first = try harness.buy(TestApps.lifetime, token: user)
      try await harness.arrives(first)
      harness.clock.advance(days: 1)
      try await harness.happens(.refundLatest, to: first.originalTransactionID)
      harness.clock.advance(days: 1)
      let second = try harness.buy(TestApps.lifetime, token: user)
      try await harness.arrives(second)
      let story = try await told(user.uuidString, harness)
      #expect(
        story.contains("because the purchase \(second.originalTransactionID) does not expire"), "\(story)")
      #expect(story.contains("\(first.originalTransactionID) cancelled (App Store: revoked)"))
      #expect(story.contains("paid in total: 0.00 USD") && story.contains("paid in total: 0.99 USD"))
      #expect(story.contains("refund of 0.99 USD, access ended (webhook)"), "\(story)")
    }
  }

  @Test func `trial over: support sees since when, and extends it`() async throws {
    try await withScreenTime { harness in
      let ada = try #require(Harness.ada)
      harness.clock.advance(days: -50)
      _ = try await harness.launch("phone")
      harness.clock.advance(days: 38)
      let over = try await told("phone", harness)
      #expect(over.contains("access none (expired)") && over.contains(" has ended"), "\(over)")
      #expect(over.contains("trial ended: the app's own grace of 7 days follows"))
      _ = try await harness.desk.extendTrial(of: "phone", bundleID: ScreenTime.bundleID, days: 7, by: ada)
      #expect(try await told("phone", harness).contains("access trial, until "))
    }
  }

  @Test func `bought on the old phone: the new one shares the purchase once it shows it`() async throws {
    try await withScreenTime { harness in
      let bought = try await harness.device("old-phone", buys: ScreenTime.individual)
      #expect(try await harness.desk.customer("new-phone").isEmpty)
      harness.clock.advance(seconds: 60)
      _ = try await harness.device("new-phone", shows: bought)
      let story = try await told("new-phone", harness)
      #expect(story.contains("because the purchase \(bought.originalTransactionID) is active"))
      #expect(story.contains(/shared by the devices old-phone, since \S+ new-phone, since \S/), "\(story)")
    }
  }

  @Test func `another account: the transaction names the owner, and both accounts tell of the transfer`()
    async throws
  {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      let (anna, bought) = try await harness.customer()
      let boris = UUID()
      let refused = try await harness.validate(
        ["signedTransaction": bought.signedTransaction], token: harness.token(for: boris))
      #expect(refused.code == "belongs_to_another_customer")
      #expect(
        try await told(bought.transactionID, harness).contains(
          "customer user \(anna.uuidString.lowercased())"))
      _ = try await harness.desk.transfer(
        bought.originalTransactionID, to: boris.uuidString, by: ada, isForced: true)
      #expect(
        try await told(anna.uuidString, harness).contains(
          "the purchase \(bought.originalTransactionID) moved to \(boris.uuidString.lowercased())"))
      #expect(
        try await told(boris.uuidString, harness).contains("taken from \(anna.uuidString.lowercased())"))
    }
  }

  @Test func `family: a member pays nothing, and loses access when the purchaser stops sharing`() async throws
  {
    try await withHarness { harness in
      let user = UUID()
      let shared = try harness.store.buy(
        PurchaseRequest(
          bundleID: TestApps.climbing, productID: TestApps.monthly, ownership: .familyShared))
      try await harness.arrives(shared)
      _ = try await harness.sync(
        [shared.signedTransaction], user: user, token: harness.token(for: user))
      let story = try await told(user.uuidString, harness)
      #expect(story.contains("FAMILY_SHARED") && story.contains(", by Family Sharing"), "\(story)")
      #expect(!story.contains("4.99 USD,") && !story.contains("paid in total"), "\(story)")
      try await harness.happens(.revoke, to: shared.originalTransactionID)
      #expect(
        try await told(user.uuidString, harness).contains("no longer shared by the family, access ended"))
      #expect(
        try await told(user.uuidString, harness).contains(
          "\(shared.originalTransactionID) is no longer shared by the family since"))
    }
  }

  @Test func `billing grace: access continues, and Apple tries to charge`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      harness.clock.set(try #require(bought.transaction.expiresDate))
      try await harness.happens(.failToRenew(grace: true), to: bought.originalTransactionID)
      let story = try await told(user.uuidString, harness)
      #expect(story.contains("access premium, grace, until "), "\(story)")
      #expect(story.contains("could not be charged and is in Apple's billing grace"))
      #expect(story.contains(/billing grace until \S+: Apple tries to charge 4.99 USD/), "\(story)")
    }
  }

  @Test func `when and for how much it renews`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      let end = try #require(bought.transaction.expiresDate)
      #expect(
        try await told(user.uuidString, harness).contains("until \(end.rfc3339), will renew for 4.99 USD"))
    }
  }

  @Test func `a colleague's grant: who gave it, why, and until when`() async throws {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      let user = UUID().uuidString.lowercased()
      _ = try await harness.desk.grant(
        to: user, bundleID: TestApps.climbing, tier: "premium", days: 3, by: ada, isForced: true)
      let story = try await told(user, harness)
      #expect(
        story.contains("until \((harness.clock.now + 3 * 86_400).rfc3339) by ada: ticket 812"), "\(story)")
    }
  }

  @Test func `was a notification lost: the source of an event is the history`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      harness.clock.set(try #require(bought.transaction.expiresDate))
      _ = try harness.store.perform(.renew, on: bought.originalTransactionID)
      harness.clock.advance(seconds: 60)
      #expect(try await told(user.uuidString, harness).contains("ended at"))
      _ = await harness.service.reconcile(bundleID: TestApps.climbing)
      let events = try await harness.desk.customer(user.uuidString).customers[0].events
      #expect(events.map { "\($0.event) \($0.source)" } == ["purchase webhook", "renewal history"])
    }
  }

  @Test func `TestFlight: a sandbox purchase is not counted, and costs nothing`() async throws {
    try await withHarness { harness in
      let user = UUID()
      let bought = try harness.buy(token: user, in: .sandbox)
      try await harness.arrives(bought)
      let story = try await told(bought.transactionID, harness)
      #expect(story.contains("NOT COUNTED: it is a sandbox purchase"), "\(story)")
      #expect(story.contains("paid in total: nothing (Sandbox)"))
      // A grant counts for a tester too, without a change of the configuration.
      _ = try await harness.desk.grant(
        to: user.uuidString, bundleID: TestApps.climbing, tier: "premium", days: 14, by: #require(Harness.ada)
      )
      #expect(try await told(bought.transactionID, harness).contains("access premium, active, until "))
      #expect(try await harness.isPremium(user))
    }
  }

  @Test func `charged twice: both purchases are listed with what was paid`() async throws {
    try await withHarness { harness in
      let (user, first) = try await harness.customer()
      // With another Apple Account.
      let second = try harness.buy(token: user)
      try await harness.arrives(second)
      let story = try await told(user.uuidString, harness)
      for bought in [first, second] {
        #expect(story.contains("\(bought.originalTransactionID) active (App Store: active)"), "\(story)")
      }
      #expect(story.components(separatedBy: "paid in total: 4.99 USD").count == 3)
      #expect(story.contains("bought twice two Apple Accounts: "), "\(story)")
      let rows = try await harness.pool.query(
        "SELECT total_paid::text FROM support_customers WHERE user_id = \(user)")
      #expect(try rows[0].decode("total_paid", as: String.self) == #"{"USD": 9.98}"#)
    }
  }

  @Test func `delete my data: support finds the customer, exports, and erases`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      let id = user.uuidString.lowercased()
      // The customer writes a letter with the order id of Apple's e-mail.
      #expect(try await told(try #require(bought.orderID), harness).contains("customer user \(id)"))
      let export = try await harness.desk.exportCustomer(id)
      #expect(export.tables.map(\.table).contains("transactions"))
      #expect(try await refusal { try await harness.erase(id, isForced: false) } == .invalid)
      try await harness.happens(.setAutoRenew(false), to: bought.originalTransactionID)
      harness.clock.set(try #require(bought.transaction.expiresDate) + 1)
      let report = try await harness.erase(id, isForced: false)
      #expect(report.description.split(separator: "\n").allSatisfy { $0.count <= 80 }, "\(report)")
      #expect(try await harness.desk.find(id).outcome == .neverSeen)
      let money = try await harness.pool.query(
        "SELECT total_paid::text FROM support_subscriptions WHERE original_transaction_id = \(bought.originalTransactionID)"
      )
      #expect(try money[0].decode("total_paid", as: String.self) == #"{"USD": 4.99}"#)
    }
  }
}
