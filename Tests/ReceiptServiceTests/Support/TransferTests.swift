import Actions
import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import Testing

@testable import ReceiptService
@testable import Support

@Suite struct TransferTests {
  @Test func `a purchase that support transferred does not return by the same appAccountToken`()
    async throws
  {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      let (anna, bought) = try await harness.customer()
      let boris = UUID()
      let id = bought.originalTransactionID
      let answer = try await harness.desk.transfer(id, to: boris.uuidString, by: ada, isForced: true)
      #expect(answer.isChanged)
      #expect(try await harness.isPremium(anna) == false)
      #expect(try await harness.isPremium(boris))
      #expect(try await harness.isPremiumInPreferences(anna) == false)
      #expect(try await harness.isPremiumInPreferences(boris) == true)

      // A renewal has the same token; the previous owner's app still sends the purchase.
      harness.clock.advance(days: 31)
      try await harness.happens(.renew, to: id)
      let proof = try await harness.sync(
        [bought.signedTransaction], user: anna, token: harness.token(for: anna))
      #expect(proof.code == "belongs_to_another_customer")
      #expect(try await harness.row(of: id).userID == boris)
      let reason = try await harness.pool.query(
        "SELECT owned_because, taken_from FROM subscriptions WHERE original_transaction_id = \(id)")[0]
      #expect(try reason.decode("owned_because", as: String.self) == "support")
      #expect(try reason.decode("taken_from", as: String.self) == anna.uuidString.lowercased())

      let again = try await harness.desk.transfer(id, to: boris.uuidString, by: ada, isForced: true)
      #expect(!again.isChanged)
      #expect(
        try await harness.actions() == [
          Harness.Action(
            action: "transfer", from: anna.uuidString.lowercased(), to: boris.uuidString.lowercased(),
            by: "ada", reason: "ticket 812")
        ])
    }
  }

  @Test(arguments: ["transfer", "transferWhenInactive", "keep"])
  func `the previous owner cannot claim it back, and another device shares it`(policy: String)
    async throws
  {
    try await withHarness(configuration: TestApps.configuration(transferPolicy: policy)) { harness in
      let ada = try #require(Harness.ada)
      try harness.sellFamilySubscriptions()
      let bought = try harness.buy(TestApps.individual, bundleID: TestApps.family)
      _ = try await harness.device("old phone", shows: bought)
      _ = try await harness.desk.transfer(
        bought.originalTransactionID, to: "new phone", by: ada, isForced: true)
      // Not even after its end.
      for days in [0.0, 400] {
        harness.clock.advance(days: days)
        let back = try await harness.validate([
          "signedTransaction": bought.signedTransaction, "deviceID": "old phone",
        ])
        #expect(back.code == "belongs_to_another_customer")
      }
      let third = try await harness.validate([
        "signedTransaction": bought.signedTransaction, "deviceID": "third phone",
      ])
      #expect(third.status == 200)
      #expect(try await harness.row(of: bought.originalTransactionID).deviceID == "new phone")
      let having = try await harness.pool.query(
        "SELECT device_id FROM purchase_devices WHERE NOT is_barred ORDER BY device_id")
      #expect(
        try having.map { try $0.decode("device_id", as: String.self) } == ["new phone", "third phone"])
    }
  }

  @Test func `a new appAccountToken moves a transferred purchase, and support can transfer it back`()
    async throws
  {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      let (anna, bought) = try await harness.customer()
      let boris = UUID()
      let clara = UUID()
      _ = try await harness.desk.transfer(
        bought.originalTransactionID, to: boris.uuidString, by: ada, isForced: true)
      var info = bought.transaction
      info.appAccountToken = clara
      info.signedDate += 60
      let shown = try await harness.validate(
        ["signedTransaction": harness.sign(info)], token: harness.token(for: clara))
      #expect(shown.status == 200)
      #expect(try await harness.row(of: bought.originalTransactionID).userID == clara)
      _ = try await harness.desk.transfer(
        bought.originalTransactionID, to: anna.uuidString, by: ada, isForced: true)
      #expect(try await harness.row(of: bought.originalTransactionID).userID == anna)
      #expect(try await harness.actions().map(\.by) == ["ada", "app-store", "ada"])
    }
  }

  @Test func `support can transfer a purchase without an owner, and an unknown purchase is refused`()
    async throws
  {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      let bought = try harness.buy()
      try await harness.arrives(bought)
      let user = UUID()
      let answer = try await harness.desk.transfer(
        bought.originalTransactionID, to: user.uuidString, by: ada, isForced: true)
      #expect(answer.from == nil)
      #expect(try await harness.isPremium(user))
      #expect(try await harness.actions().map(\.from) == [nil])

      let desk = harness.desk
      #expect(
        try await refusal { _ = try await desk.transfer("1", to: user.uuidString, by: ada, isForced: true) }
          == .notFound)
      #expect(
        try await refusal {
          _ = try await desk.transfer(bought.originalTransactionID, to: "phone", by: ada, isForced: true)
        } == .invalid)
    }
  }

  @Test func `ten concurrent transfers of one purchase leave one owner and a record of each`() async throws {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      let (anna, bought) = try await harness.customer()
      let users = (0..<10).map { _ in UUID() }
      try await withThrowingTaskGroup(of: Void.self) { group in
        for user in users {
          group.addTask {
            _ = try await harness.desk.transfer(
              bought.originalTransactionID, to: user.uuidString, by: ada, isForced: true)
          }
        }
        try await group.waitForAll()
      }
      let actions = try await harness.actions()
      #expect(actions.count == 10)
      #expect(actions.first?.from == anna.uuidString.lowercased())
      for (before, after) in zip(actions, actions.dropFirst()) { #expect(after.from == before.to) }
      var premium: [UUID] = []
      for user in users + [anna] where try await harness.isPremiumInPreferences(user) == true {
        premium.append(user)
      }
      #expect(premium.map { $0.uuidString.lowercased() } == [actions.last?.to])
    }
  }
}
