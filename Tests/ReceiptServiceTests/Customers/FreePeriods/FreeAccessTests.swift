import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import Testing

@testable import Ledger
@testable import ReceiptService
@testable import Support

@Suite struct FreeAccessTests {
  @Test func `free access applies to every server's next response, and switching it twice changes nothing`()
    async throws
  {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      let user = UUID()
      let other = try await harness.service(configuration: TestApps.json)
      #expect(try await harness.isPremium(user) == false)
      let switches = try await withThrowingTaskGroup(of: Bool.self) { group in
        for index in 0..<6 {
          let desk = index.isMultiple(of: 2) ? harness.desk : other.support
          group.addTask { try await desk.setFreeAccess(true, bundleID: TestApps.climbing, by: ada).isChanged }
        }
        return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
      }
      #expect(switches == 1)
      #expect(try await harness.isPremium(user))
      #expect(try await harness.isPremiumInPreferences(user) == nil)
      harness.clock.advance(days: 0.01)
      #expect(try await other.support.setFreeAccess(false, bundleID: TestApps.climbing, by: ada).isChanged)
      #expect(try await !other.support.setFreeAccess(false, bundleID: TestApps.climbing, by: ada).isChanged)
      #expect(try await harness.isPremium(user) == false)
      #expect(try await harness.actions().map(\.action) == ["free-access", "free-access"])
      let row = try await harness.pool.query("SELECT started_by, ended_by FROM free_access")
      #expect(row.count == 1)
      await other.close()
    }
  }

  @Test func `a grace period that was suspended by free access continues for its remaining time`()
    async throws
  {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      try harness.sellFamilySubscriptions()
      let bought = try harness.buy(TestApps.individual, bundleID: TestApps.family)
      _ = try await harness.device("phone", shows: bought)
      let end = try #require(bought.transaction.expiresDate)
      // Two of the seven days of grace are over when ten days of free access begin.
      harness.clock.set(end + 2 * 86_400)
      try await harness.service.sweepEverything()
      _ = try await harness.desk.setFreeAccess(true, bundleID: TestApps.family, by: ada)
      try await harness.pass(days: 10)
      _ = try await harness.desk.setFreeAccess(false, bundleID: TestApps.family, by: ada)
      try await harness.pass(days: 0.001)
      let until = try await harness.pool.query("SELECT access_ends_at FROM support_subscriptions")[0]
        .decode("access_ends_at", as: Date.self)
      #expect(until == end + 17 * 86_400)
      #expect(try await harness.row(of: bought.originalTransactionID).status == "grace")

      try await harness.pass(days: 4.9)
      #expect(try await harness.row(of: bought.originalTransactionID).status == "grace")
      try await harness.pass(days: 0.2)
      #expect(try await harness.row(of: bought.originalTransactionID).status == "expired")
      let open = try await harness.pool.query("SELECT 1 FROM free_access WHERE followed_at IS NULL")
      #expect(open.isEmpty)
    }
  }

  @Test func `a row that another server wrote with free access still on is corrected by the sweep`()
    async throws
  {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      try harness.sellFamilySubscriptions()
      let bought = try harness.buy(TestApps.individual, bundleID: TestApps.family)
      _ = try await harness.device("phone", shows: bought)
      let end = try #require(bought.transaction.expiresDate)
      harness.clock.set(end + 86_400)
      _ = try await harness.desk.setFreeAccess(true, bundleID: TestApps.family, by: ada)
      harness.clock.advance(days: 1)
      _ = try await harness.desk.setFreeAccess(false, bundleID: TestApps.family, by: ada)
      harness.clock.advance(seconds: 5)
      try await harness.service.sweepEverything()
      // The commit of another server during the switch.
      _ = try await harness.pool.query(
        """
        UPDATE subscriptions SET next_change_at = NULL, updated_at = \(end + 2 * 86_400),
          phase_starts = phase_starts[1:2], phase_statuses = phase_statuses[1:2],
          phase_store_statuses = phase_store_statuses[1:2]
        """)
      harness.clock.advance(seconds: 20)
      try await harness.service.sweepEverything()
      let until = try await harness.pool.query("SELECT access_ends_at FROM support_subscriptions")[0]
        .decode("access_ends_at", as: Date?.self)
      #expect(until == end + 8 * 86_400)
    }
  }

  @Test func `a switch of free access tells of more customers than one transaction takes, each once`()
    async throws
  {
    try await withScreenTime { harness in
      _ = try await harness.pool.query(
        """
        INSERT INTO trials (bundle_id, device_id, started_at, ends_at)
        SELECT \(ScreenTime.bundleID), 'device ' || n, now(), now() + interval '1 day' FROM generate_series(1, 4001) AS n
        """)
      let ada = try #require(Harness.ada)
      for isOn in [true, false] {
        _ = try await harness.pool.query("DELETE FROM outbox")
        _ = try await harness.desk.setFreeAccess(isOn, bundleID: ScreenTime.bundleID, by: ada)
        #expect(try await harness.count("outbox WHERE destination = 'cloudkit'") == 4_001)
      }
      #expect(try await harness.count("free_access WHERE told_at IS NULL OR end_told_at IS NULL") == 0)
    }
  }
}
