import Actions
import AppStore
import AppStoreSimulator
import Configuration
import Foundation
import HTTP
import HTTPTypes
import Postgres
import Subscriptions
import Testing

@testable import Customers
@testable import Ledger
@testable import ReceiptService
@testable import Support

/// Erasing a customer while a refund of the purchase waits.
@Suite struct WaitingRefundTests {
  @Test(arguments: [WaitingNotification.Cause.unknownApp, .unknownEnvironment, .unknownRoot])
  func `a refund that waits for another customer's purchase outlives the erasure of its former user`(
    cause: WaitingNotification.Cause
  ) async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer(buys: TestApps.annual)
      let id = bought.originalTransactionID
      let other = UUID()
      let ada = try #require(Harness.ada)
      _ = try await harness.desk.transfer(id, to: other.uuidString, by: ada, isForced: true)
      harness.clock.advance(days: 1)
      let waiting = try await harness.waits(cause, with: harness.store.perform(.refundLatest, on: id))
      let dry = try await harness.desk.eraseCustomer(user.uuidString, by: ada, isDryRun: true)
      #expect(dry.description.contains("notifications of other customers: 2 (they stay"), "\(dry)")
      #expect(dry.description.split(separator: "\n").allSatisfy { $0.count <= 80 }, "\(dry)")
      let report = try await harness.erase(user.uuidString)
      #expect(report.erased.first?.notificationsOfOthers == 2)
      #expect(report.erased.first?.rows["notifications"] == nil)
      #expect(try await harness.outcome(ofNotification: waiting.uuid) == cause.rawValue)
      #expect(try await harness.isPremium(other))

      try await harness.trusting(waiting.root) { await $0.replayWaiting() }
      #expect(try await harness.outcome(ofNotification: waiting.uuid) == "applied")
      #expect(try await harness.row(of: id).status == "cancelled")
      #expect(try await !harness.isPremium(other))
      // The notification that was processed before the erasure can be replayed, too.
      let first = try #require(UUID(uuidString: bought.notification.uuid))
      #expect(try await harness.service.replay(first, by: ada).outcome == "unchanged")
      #expect(try await harness.row(of: id).userID == other)
      // The pseudonym's UUID has the place of the token.
      #expect(
        try await harness.count(
          "transactions t JOIN subscriptions s USING (original_transaction_id) WHERE t.app_account_token::text = s.taken_from"
        ) == 1)
      #expect(try await harness.tables(with: user.uuidString) == ["notifications"])
      #expect(try await refusal { try await harness.erase(user.uuidString) } == .notFound)
    }
  }

  @Test
  func
    `a user whom only a waiting refund of another customer's purchase names is erased, and the refund counts`()
    async throws
  {
    try await withHarness { harness in
      let (user, owner) = (UUID(), UUID())
      let bought = try harness.buy(TestApps.annual)
      let id = bought.originalTransactionID
      let proof = [bought.signedTransaction]
      let token = try await harness.token(for: owner)
      #expect(try await harness.sync(proof, user: owner, token: token).bool("isPremium") == true)
      harness.clock.advance(days: 1)
      var refunded = bought.transaction
      refunded.appAccountToken = user
      refunded.revocationDate = harness.clock.now
      refunded.signedDate = harness.clock.now
      let uuid = UUID().uuidString.lowercased()
      let payload = try harness.notification(uuid, with: harness.sign(refunded))
      try await harness.receives(payload, uuid, under: .unknownApp)
      // The purchase is not a part of the user's data.
      let export = try await harness.desk.exportCustomer(user.uuidString)
      #expect(export.tables.isEmpty, "\(export.tables.map(\.table))")

      #expect(try await harness.erase(user.uuidString).erased.first?.notificationsOfOthers == 1)
      #expect(try await refusal { try await harness.erase(user.uuidString) } == .notFound)
      #expect(try await harness.outcome(ofNotification: uuid) == "unknown_app")
      await harness.service.replayWaiting()
      #expect(try await harness.outcome(ofNotification: uuid) == "applied")
      let row = try await harness.row(of: id)
      #expect(row.status == "cancelled" && row.userID == owner)
      #expect(try await !harness.isPremium(owner))
      #expect(try await harness.tables(with: user.uuidString) == ["notifications"])
    }
  }

  @Test func `a refund that waits for a shared purchase ends the access of the device that inherits it`()
    async throws
  {
    try await withHarness { harness in
      try harness.sellFamilySubscriptions()
      let bought = try harness.buy(TestApps.individual, bundleID: TestApps.family)
      let id = bought.originalTransactionID
      _ = try await harness.device("old-phone", shows: bought)
      harness.clock.advance(seconds: 60)
      _ = try await harness.device("new-phone", shows: bought)
      harness.clock.advance(seconds: 60)
      let waiting = try await harness.waits(.unknownApp, with: harness.store.perform(.refundLatest, on: id))
      try await harness.erase("old-phone")
      #expect(try await harness.row(of: id).deviceID == "new-phone")
      #expect(try await harness.outcome(ofNotification: waiting.uuid) == "unknown_app")
      await harness.service.replayWaiting()
      #expect(try await harness.outcome(ofNotification: waiting.uuid) == "applied")
      let row = try await harness.row(of: id)
      #expect(row.status == "cancelled" && row.deviceID == "new-phone")
    }
  }

  @Test func `a refund that waits ends the access of a device that shares the purchase without a proof`()
    async throws
  {
    try await withHarness { harness in
      try harness.sellFamilySubscriptions()
      let bought = try harness.buy(TestApps.individual, bundleID: TestApps.family)
      let id = bought.originalTransactionID
      try await harness.arrives(bought)
      _ = try await harness.device("phone", shows: bought)
      // As a build that knows the transaction's id alone, under "clientWrites": "accept".
      _ = try await harness.pool.query(
        """
        INSERT INTO purchase_devices (original_transaction_id, device_id, bundle_id, since, proved_at, is_barred, is_proven)
        VALUES (\(id), 'old-build', \(TestApps.family), now(), now(), false, false)
        """)
      func hasAccess() async throws -> Bool? {
        try await harness.entitlements("old-build", of: TestApps.family).bool("entitlements.isAccessGranted")
      }
      harness.clock.advance(seconds: 60)
      let waiting = try await harness.waits(.unknownApp, with: harness.store.perform(.refundLatest, on: id))
      let report = try await harness.erase("phone")
      #expect(report.erased.first?.rows["notifications"] == 1)
      // It inherits nothing, and what was processed before is reduced.
      #expect(try await harness.row(of: id).deviceID == nil)
      #expect(try await harness.count("notifications WHERE envelope_claims <> '{}'") == 1)
      #expect(try await harness.outcome(ofNotification: waiting.uuid) == "unknown_app")
      #expect(try await hasAccess() == true)
      await harness.service.replayWaiting()
      #expect(try await harness.outcome(ofNotification: waiting.uuid) == "applied")
      #expect(try await harness.row(of: id).status == "cancelled")
      #expect(try await hasAccess() == false)
      #expect(try await harness.count("notifications WHERE envelope_claims <> '{}'") == 0)
    }
  }
}
