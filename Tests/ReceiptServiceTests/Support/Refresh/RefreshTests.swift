import Actions
import AppStore
import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import Testing

@testable import Ledger
@testable import ReceiptService
@testable import Support

@Suite struct RefreshTests {
  @Test func `refresh repairs a lost refund, says what it repaired, and is recorded`() async throws {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      let (user, bought) = try await harness.customer()
      let id = bought.originalTransactionID
      _ = try harness.store.perform(.refundLatest, on: id)
      #expect(try await harness.isPremium(user))
      let report = try await harness.desk.refresh(user.uuidString, by: ada)
      #expect(report.isComplete)
      #expect(report.purchases.map(\.originalTransactionID) == [id])
      let changes = try #require(report.purchases.first).changes
      #expect(changes.contains(FieldChange(field: "status", before: "active", after: "cancelled")))
      #expect(changes.map(\.field).contains("revokedAt"))
      #expect(report.description.contains("status: active -> cancelled"))
      #expect(try await harness.isPremium(user) == false)

      let again = try await harness.desk.refresh(id, by: ada)
      #expect(again.purchases.map(\.changes) == [[]])
      #expect(again.description.contains("nothing differed"))
      #expect(
        try await harness.actions()
          == Array(
            repeating: Harness.Action(
              action: "refresh", from: nil, to: user.uuidString.lowercased(), by: "ada", reason: "ticket 812"),
            count: 2))
      #expect(
        try await harness.desk.customer(id).customers.first?.events.map(\.event).contains("refresh") == true)
    }
  }

  @Test func `refresh tells a changed renewal price and a changed product of the next period`() async throws {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      let (_, bought) = try await harness.customer()
      let id = bought.originalTransactionID
      harness.clock.advance(days: 1)
      // Both notifications are lost.
      _ = try harness.store.perform(.announcePrice(5_990), on: id)
      let priced = try #require(try await harness.desk.refresh(id, by: ada).purchases.first).changes
      #expect(
        priced.contains(FieldChange(field: "renewalPrice", before: "4.99 USD", after: "5.99 USD")),
        "\(priced)")
      harness.clock.advance(days: 1)
      _ = try harness.store.perform(.changeProduct(TestApps.annual), on: id)
      let changed = try #require(try await harness.desk.refresh(id, by: ada).purchases.first).changes
      #expect(!changed.isEmpty)
    }
  }

  @Test func `refresh tells the price of the next period where none was recorded`() async throws {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      let user = UUID()
      let bought = try harness.buy(token: user)
      // A client's proof has the transaction alone.
      #expect(try await harness.validate(["signedTransaction": bought.signedTransaction]).status == 200)
      let changes = try #require(
        try await harness.desk.refresh(bought.transactionID, by: ada).purchases.first
      ).changes
      #expect(
        changes.contains(FieldChange(field: "renewalPrice", before: nil, after: "4.99 USD")), "\(changes)")
    }
  }

  @Test func `refresh records lost renewals and the refund of an earlier period`() async throws {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      let (user, bought) = try await harness.customer()
      let id = bought.originalTransactionID
      for _ in 0..<25 {
        harness.clock.advance(days: 31)
        _ = try harness.store.perform(.renew, on: id)
      }
      _ = try harness.store.perform(
        .refund(transactionID: bought.transactionID, percentage: 100, reason: .refundedForOtherReason), on: id
      )
      let changes = try #require(try await harness.desk.refresh(id, by: ada).purchases.first).changes
      #expect(changes.contains(FieldChange(field: "recorded transactions", before: "1", after: "26")))
      #expect(changes.contains { $0.field == "refund of \(bought.transactionID)" && $0.before == nil })
      #expect(try await harness.isPremium(user))
      #expect(try await harness.count("transactions") == 26)
    }
  }

  @Test func `refresh of a transaction that only the App Store knows records the purchase`() async throws {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      let user = UUID()
      let bought = try harness.buy(token: user)
      let report = try await harness.desk.refresh(bought.transactionID, by: ada)
      #expect(report.purchases.map(\.originalTransactionID) == [bought.originalTransactionID])
      #expect(try await harness.isPremium(user))
      let desk = harness.desk
      for unknown in ["2000000000000099", "unused-phone", UUID().uuidString] {
        #expect(try await refusal { _ = try await desk.refresh(unknown, by: ada) } == .notFound, "\(unknown)")
      }
      #expect(try await harness.actions().map(\.action) == ["refresh"])
    }
  }

  @Test func `a device that is named like a transaction does not keep refresh from asking about it`()
    async throws
  {
    try await withHarness { harness in
      let bought = try harness.buy(token: UUID())
      _ = try await harness.pool.query(
        """
        INSERT INTO grants (bundle_id, device_id, tier, starts_at, reason, granted_by)
        VALUES (\(TestApps.family), \(bought.originalTransactionID), 'family', now(), 'x', 'y')
        """)
      let report = try await harness.desk.refresh(
        bought.originalTransactionID, by: #require(Harness.ada))
      #expect(report.purchases.map(\.originalTransactionID) == [bought.originalTransactionID])
      #expect(try await harness.count("transactions") == 1)
    }
  }

  @Test func `a refresh beside an erasure brings the erased id to no record`() async throws {
    try await withHarness(role: nil) { harness in
      let (user, bought) = try await harness.customer()
      harness.store.add(.slow(1).at(.statuses).next(1))
      let author = try #require(Harness.makeAuthor("ada", "asked by \(user.uuidString)"))
      async let report = harness.desk.refresh(user.uuidString, by: author)
      try await Task.sleep(for: .milliseconds(400))
      try await harness.erase(user.uuidString)
      #expect(try await report.purchases.map(\.originalTransactionID) == [bought.originalTransactionID])
      #expect(
        try await harness.tables(with: user.uuidString, except: ["profiles", "user_preferences"]) == [])
      #expect(try await harness.actions().map(\.reason) == ["asked by letter", "(erased)"])
      #expect(try await harness.desk.find(user.uuidString).outcome == .neverSeen)
    }
  }

  @Test func `the record of a refresh has no e-mail address and no order id`() async throws {
    try await withHarness(role: nil) { harness in
      let ada = try #require(Harness.ada)
      let (user, bought) = try await harness.customer()
      _ = try await harness.pool.query("CREATE SCHEMA auth")
      _ = try await harness.pool.query("CREATE TABLE auth.users (id uuid PRIMARY KEY, email text)")
      _ = try await harness.pool.query("INSERT INTO auth.users VALUES (\(user), 'anna@example.com')")
      let order = try #require(bought.orderID)
      for id in ["Anna@Example.com", order, user.uuidString] {
        _ = try await harness.desk.refresh(id, by: ada)
      }
      let asked = try await harness.pool.query(
        "SELECT details ->> 'asked' AS asked, to_customer FROM support_actions ORDER BY id")
      #expect(
        try asked.map { try $0.decode("asked", as: String.self) } == ["e-mail address", "order", "user"])
      #expect(
        try asked.map { try $0.decode("to_customer", as: String.self) }
          == Array(repeating: user.uuidString.lowercased(), count: 3))
      #expect(try await harness.tables(with: "anna@example.com") == [])
    }
  }

  @Test func `refresh reports an unavailable App Store and changes nothing`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      harness.store.add(.error(.generalInternal))
      let body = #"{"id": "\#(user.uuidString)", "by": "ada", "reason": "ticket 812"}"#
      let answer = try await harness.send(
        .post, "/support/v1/refresh", json: body, token: Harness.supportToken, to: harness.adminAddress)
      #expect(answer.status == 200)
      let failures = try #require(answer["failures"] as? [String])
      #expect(failures.count == 1)
      #expect(failures.first?.hasPrefix(bought.originalTransactionID) == true)
      let events = try #require(try await harness.desk.customer(user.uuidString).customers.first).events
      #expect(
        events.contains {
          $0.event == "refresh" && $0.what.contains("incomplete: the App Store could not be asked")
        })
      #expect(try await harness.isPremium(user))
    }
  }
}
