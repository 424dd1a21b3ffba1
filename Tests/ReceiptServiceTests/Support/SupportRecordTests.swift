import AppStoreSimulator
import Foundation
import Postgres
import Subscriptions
import Testing

@testable import Ledger
@testable import ReceiptService
@testable import Support

/// An action of support and its row in `support_actions` are one commit.
@Suite struct SupportRecordTests {
  @Test func `a replay that cannot be recorded in support_actions changes nothing`() async throws {
    try await withHarness { harness in
      let (user, refunded) = try await harness.customerWithFailedRefund()
      let before = try await harness.row(of: refunded.originalTransactionID)
      try await harness.refuseInserts(into: "support_actions")
      await #expect(throws: (any Error).self) { try await harness.replays(refunded) }
      #expect(try await harness.row(of: refunded.originalTransactionID) == before)
      #expect(try await harness.isPremium(user))
      #expect(try await harness.pool.query("SELECT FROM notifications WHERE replayed_at IS NOT NULL").isEmpty)

      try await harness.stopRefusing(inserts: "support_actions")
      #expect(try await harness.replays(refunded) == ReplayResult(outcome: "applied", isProcessed: true))
      #expect(try await harness.isPremium(user) == false)
      #expect(try await harness.actions().map(\.action) == ["replay"])
    }
  }

  @Test func `a failed replay is not recorded`() async throws {
    try await withHarness { harness in
      let (user, refunded) = try await harness.customerWithFailedRefund()
      // The ledger writes the row by an upsert.
      try await harness.refuseInserts(into: "subscriptions")
      await #expect(throws: (any Error).self) { try await harness.replays(refunded) }
      #expect(try await harness.isPremium(user))
      #expect(try await harness.count("support_actions") == 0)
    }
  }

  @Test func `a replay is recorded with its notification, its outcome and its purchase`() async throws {
    try await withHarness { harness in
      let (_, refunded) = try await harness.customerWithFailedRefund()
      _ = try await harness.replays(refunded)
      let row = try await harness.pool.query(
        """
        SELECT bundle_id, original_transaction_id, details ->> 'notification_uuid' AS notification_uuid,
          details ->> 'outcome' AS outcome
        FROM support_actions WHERE action = 'replay'
        """)[0]
      #expect(try row.decode("bundle_id", as: String.self) == TestApps.climbing)
      #expect(try row.decode("original_transaction_id", as: String.self) == refunded.originalTransactionID)
      #expect(try row.decode("notification_uuid", as: String.self) == refunded.notification.uuid.lowercased())
      #expect(try row.decode("outcome", as: String.self) == "applied")
    }
  }

  @Test func `a support action that cannot be recorded takes no effect`() async throws {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      let (owner, bought) = try await harness.customer()
      let user = UUID().uuidString
      let now = harness.clock.now
      _ = try await harness.pool.query(
        """
        INSERT INTO trials (bundle_id, device_id, started_at, ends_at)
        VALUES (\(TestApps.family), 'phone', \(now), \(now + 86_400))
        """)
      let desk = harness.desk
      let given = UUID().uuidString
      _ = try await desk.grant(
        to: given, bundleID: TestApps.climbing, tier: "premium", days: 7, by: ada, isForced: true)
      let grant: UUID = try await harness.pool.query("SELECT id FROM grants")[0].decode("id")
      try await harness.refuseInserts(into: "support_actions")
      await #expect(throws: PostgresError.self) {
        try await desk.grant(
          to: user, bundleID: TestApps.climbing, tier: "premium", days: 7, by: ada, isForced: true)
      }
      await #expect(throws: PostgresError.self) { try await desk.revokeGrant(grant, by: ada) }
      await #expect(throws: PostgresError.self) {
        try await desk.extendTrial(of: "phone", bundleID: TestApps.family, days: 7, by: ada)
      }
      await #expect(throws: PostgresError.self) {
        try await desk.setFreeAccess(true, bundleID: TestApps.climbing, by: ada)
      }
      await #expect(throws: (any Error).self) {
        try await desk.transfer(bought.originalTransactionID, to: user, by: ada, isForced: true)
      }
      await #expect(throws: PostgresError.self) { try await harness.service.rotateEntitlementKey(by: ada) }
      #expect(try await harness.pool.query("SELECT FROM grants WHERE revoked_at IS NULL").count == 1)
      #expect(try await harness.pool.query("SELECT FROM trials WHERE extended_days > 0").isEmpty)
      #expect(try await harness.count("free_access") == 0)
      #expect(try await harness.row(of: bought.originalTransactionID).userID == owner)
      #expect(try await harness.count("entitlement_keys") == 1)
      #expect(try await harness.count("support_actions") == 1)
    }
  }
}

extension Harness {
  /// A user with a refund that is stored as failed, because the purchase's row was unreadable.
  fileprivate func customerWithFailedRefund() async throws -> (user: UUID, refunded: SignedOutcome) {
    let (user, bought) = try await customer()
    _ = try await pool.query("UPDATE subscriptions SET phase_statuses[1] = 'paused'")
    let refunded = try store.perform(.refundLatest, on: bought.originalTransactionID)
    #expect(try await notify(refunded.notification.signedPayload).status == 200)
    _ = try await pool.query("UPDATE subscriptions SET phase_statuses[1] = 'active'")
    return (user, refunded)
  }

  @discardableResult
  fileprivate func replays(_ outcome: SignedOutcome) async throws -> ReplayResult {
    let uuid = try #require(UUID(uuidString: outcome.notification.uuid))
    return try await service.replay(uuid, by: #require(Harness.ada))
  }

  /// Makes a table refuse new rows.
  func refuseInserts(into table: String) async throws {
    _ = try await pool.query(
      """
      CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN RAISE EXCEPTION 'refused by the test'; END $$
      """)
    _ = try await pool.query(
      Query(
        unescaped: "CREATE TRIGGER refuse BEFORE INSERT ON \(table) FOR EACH ROW EXECUTE FUNCTION refuse()"))
  }

  func stopRefusing(inserts table: String) async throws {
    _ = try await pool.query(Query(unescaped: "DROP TRIGGER refuse ON \(table)"))
  }
}
