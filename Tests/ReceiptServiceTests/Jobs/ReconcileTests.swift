import AppStore
import Foundation
import Postgres
import Subscriptions
import Testing

@testable import AppStoreSimulator
@testable import Ledger
@testable import ReceiptService

@Suite struct ReconcileTests {
  @Test func `a reconciliation finds a renewal without a notification in the history and reports it`()
    async throws
  {
    try await withHarness { harness in
      let user = UUID()
      let bought = try harness.buy(token: user)
      let id = bought.originalTransactionID
      #expect(try await harness.notify(bought.notification.signedPayload).status == 200)
      harness.clock.set(try #require(bought.transaction.expiresDate))
      let renewed = try harness.store.perform(.renew, on: id)
      harness.clock.advance(seconds: 60)

      let report = try #require(await harness.service.reconcile(bundleID: TestApps.climbing).first)
      #expect(report.failure == nil)
      #expect(report.notificationsRead == 2)
      #expect(report.notificationsMissed == 1)
      #expect(report.repairs.map(\.originalTransactionID) == [id])
      #expect(report.repairs.map(\.cause) == ["DID_RENEW"])
      #expect(report.lines.contains { $0.contains(id) && $0.contains("DID_RENEW") })
      #expect(try await harness.row(of: id).expiry == renewed.transaction.expiresDate)
      #expect(try await harness.profileRow(of: user)?.expiresAt == renewed.transaction.expiresDate)
      let source = try await harness.pool.query(
        "SELECT source FROM notifications WHERE type = 'DID_RENEW'")[0].decode("source", as: String.self)
      #expect(source == "history")

      let again = try #require(await harness.service.reconcile(bundleID: TestApps.climbing).first)
      #expect(again.notificationsMissed == 0)
      #expect(again.repairCount == 0)
      #expect(again.readFrom > report.readFrom)
    }
  }

  @Test func `a reconciliation reads a history of many pages and weeks to its end`() async throws {
    try await withHarness { harness in
      let bought = try harness.buy()
      let id = bought.originalTransactionID
      for turn in 0..<60 {
        harness.clock.advance(seconds: turn % 10 == 0 ? 3 * 86_400 : 5)
        _ = try harness.store.perform(.setAutoRenew(turn % 2 == 1), on: id)
      }
      harness.clock.advance(seconds: 5)
      let report = try #require(await harness.service.reconcile(bundleID: TestApps.climbing).first)
      #expect(report.notificationsMissed == 61)
      #expect(report.failure == nil)
      #expect(try await harness.count("notifications") == 61)
      #expect(try await harness.row(of: id).autoRenews)
    }
  }

  @Test(arguments: [0, 7, 14], [0, 0.000_4, 0.002])
  func `a reconciliation since some whole weeks asks for no empty window`(days: Double, late: Double)
    async throws
  {
    try await withHarness { harness in
      let bought = try harness.buy()
      harness.clock.advance(seconds: 60)
      // The command computes the start a moment before the run reads the clock.
      let since = harness.clock.now - days * 86_400 - late
      let report = try #require(
        await harness.service.reconcile(since: since, bundleID: TestApps.climbing).first)
      #expect(report.failure == nil)
      #expect(report.notificationsRead == (days == 0 ? 0 : 1), "\(bought.originalTransactionID)")
    }
  }

  @Test func `a reconciliation finds a renewal that is not in the history by its status, with every period`()
    async throws
  {
    try await withHarness { harness in
      let user = UUID()
      let bought = try harness.buy(token: user)
      let id = bought.originalTransactionID
      #expect(try await harness.notify(bought.notification.signedPayload).status == 200)
      _ = await harness.service.reconcile()
      var expires = try #require(bought.transaction.expiresDate)
      for _ in 0..<2 {
        harness.clock.set(expires)
        // The store renews without a notification.
        let renewed = try harness.store.withStore(of: .production) { store, now throws(StoreRefusal) in
          try store.perform(.renew, on: id, at: now)
        }
        expires = try #require(renewed.transaction.expiresDate)
      }
      harness.clock.advance(seconds: 2 * 3_600)
      _ = try await harness.service.sweep.run()
      #expect(try await harness.row(of: id).status == "expired")

      let report = try #require(await harness.service.reconcile(bundleID: TestApps.climbing).first)
      #expect(report.notificationsMissed == 0)
      #expect(report.statusesAsked == 1)
      #expect(report.repairs.map(\.cause) == ["status"])
      #expect(try await harness.row(of: id).expiry == expires)
      #expect(try await harness.row(of: id).status == "active")
      #expect(try await harness.profileRow(of: user)?.expiresAt == expires)
      #expect(try await harness.count("transactions") == 3)
      let written = try await harness.pool.query(
        "SELECT what FROM support_timeline WHERE event = 'reconcile'")
      let action = try #require(try written.first?.decode("what", as: String.self))
      #expect(action.contains("no notification about an overdue renewal"))

      let again = try #require(await harness.service.reconcile(bundleID: TestApps.climbing).first)
      #expect(again.statusesAsked == 0)
    }
  }

  @Test
  func `the status of a subscription in billing retry is requested once a day, and of an ended one never`()
    async throws
  {
    try await withHarness { harness in
      let ended = try harness.buy()
      let retried = try harness.buy()
      harness.clock.set(try #require(retried.transaction.expiresDate))
      _ = try harness.store.perform(.failToRenew(grace: false), on: retried.originalTransactionID)
      _ = try harness.store.perform(.setAutoRenew(false), on: ended.originalTransactionID)
      _ = try harness.store.perform(.expire(nil), on: ended.originalTransactionID)
      harness.clock.advance(seconds: 3_700)
      var asked: [Int] = []
      for _ in 0..<3 {
        asked.append(await harness.service.reconcile(bundleID: TestApps.climbing)[0].statusesAsked)
        harness.clock.advance(seconds: 13 * 3_600)
      }
      #expect(asked == [1, 0, 1])
    }
  }

  @Test func `a reconciliation with a later start stores no position, so the next one leaves no gap`()
    async throws
  {
    try await withHarness { harness in
      let reports = await harness.service.reconcile(since: harness.clock.now.addingTimeInterval(-86_400))
      #expect(reports.count == 4)
      let positions = try await harness.pool.query(
        "SELECT 1 FROM reconcile_positions WHERE history_read_until IS NOT NULL")
      // Only the last day was read, so no position is stored.
      #expect(positions.count == 0)
      _ = await harness.service.reconcile()
      let until = try await harness.pool.query(
        "SELECT min(history_read_until), max(history_read_until) FROM reconcile_positions")
      #expect(try until[0].decode("min", as: Date.self) == harness.clock.now)
      #expect(try until[0].decode("max", as: Date.self) == harness.clock.now)
    }
  }

  @Test func `a reconciliation reports and stores a refused App Store key`() async throws {
    try await withHarness(configuration: TestApps.configuration(storeKey: true)) { harness in
      let report = try #require(await harness.service.reconcile(bundleID: TestApps.climbing).first)
      #expect(report.failure?.contains("401") == true)
      #expect(report.readUntil == nil)
      let kept = try await harness.pool.query("SELECT error FROM reconcile_runs ORDER BY id LIMIT 1")
      #expect(try kept[0].decode("error", as: String.self).contains("401"))
    }
  }

  @Test func `one of several servers reconciles each hour`() async throws {
    try await withHarness { harness in
      let other = try await harness.service(configuration: TestApps.json)
      let counts = try await withThrowingTaskGroup(of: Int.self) { group in
        for job in [harness.service.reconcileJob, other.reconcileJob, harness.service.reconcileJob] {
          group.addTask { try await job.runIfDue().count }
        }
        return try await group.reduce(0, +)
      }
      // Two apps, two environments.
      #expect(counts == 4)
      #expect(try await other.reconcileJob.runIfDue().isEmpty)
      harness.clock.advance(seconds: 3_601)
      #expect(try await other.reconcileJob.runIfDue().count == 4)
      await other.close()
    }
  }
}
