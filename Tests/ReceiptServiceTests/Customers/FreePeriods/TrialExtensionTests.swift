import Actions
import Configuration
import Foundation
import Postgres
import Subscriptions
import Testing

@testable import Customers
@testable import Ledger
@testable import ReceiptService
@testable import Support

@Suite struct TrialExtensionTests {
  private func begin(_ device: String, daysAgo: Double, in harness: Harness) async throws {
    let start = harness.clock.now - daysAgo * 86_400
    _ = try await harness.pool.query(
      """
      INSERT INTO trials (bundle_id, device_id, started_at, ends_at)
      VALUES (\(TestApps.family), \(device), \(start), \(start + 30 * 86_400))
      """)
  }

  @Test func `an extension moves the end of an active trial and restarts an ended one from now`() async throws
  {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      try await begin("running", daysAgo: 10, in: harness)
      try await begin("over", daysAgo: 100, in: harness)
      let running = try await harness.desk.extendTrial(
        of: "running", bundleID: TestApps.family, days: 7, by: ada)
      #expect(running.endsAt == harness.clock.now + 27 * 86_400)
      let over = try await harness.desk.extendTrial(of: "over", bundleID: TestApps.family, days: 7, by: ada)
      #expect(over.endsAt == harness.clock.now + 7 * 86_400)
      let trial = try await harness.pool.customerRecords(devices: ["over"])[.device("over")]
        .trials[TestApps.family]?.first
      #expect(trial?.endsAt == harness.clock.now + 7 * 86_400)
      #expect(try await harness.actions().map(\.to) == ["running", "over"])
    }
  }

  @Test func `free access after a trial's end adds no days to its extension`() async throws {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      try await begin("over", daysAgo: 60, in: harness)
      let now = harness.clock.now
      for (on, off) in [(20.0, Optional(10.0)), (5, nil)] {
        _ = try await harness.pool.query(
          """
          INSERT INTO free_access (bundle_id, starts_at, ends_at, started_by, reason)
          VALUES (\(TestApps.family), \(now - on * 86_400), \(off.map { now - $0 * 86_400 }), 'ada', 'a present')
          """)
      }
      let answer = try await harness.desk.extendTrial(of: "over", bundleID: TestApps.family, days: 7, by: ada)
      #expect(answer.endsAt == now + 7 * 86_400)
      // Free access ends three days later.
      harness.clock.advance(days: 3)
      _ = try await harness.desk.setFreeAccess(false, bundleID: TestApps.family, by: ada)
      let customerRecords = try await harness.pool.customerRecords(devices: ["over"])
      let trial = try #require(customerRecords[.device("over")].trials[TestApps.family]?.first)
      let app = try #require(harness.service.notifications.catalog[TestApps.family])
      let freeAccessByApp = try await FreeAccessByApp(
        harness.pool.query(FreeAccessByApp.select))
      #expect(trial.end(honoring: freeAccessByApp[app]) == now + 10 * 86_400)
    }
  }

  @Test func `one of twenty concurrent trial extensions succeeds, and the others name its author`()
    async throws
  {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      try await begin("phone", daysAgo: 31, in: harness)
      let refusals = try await withThrowingTaskGroup(of: SupportRefusal?.self) { group in
        for _ in 0..<20 {
          group.addTask {
            do {
              _ = try await harness.desk.extendTrial(
                of: "phone", bundleID: TestApps.family, days: 7, by: ada)
              return nil
            } catch let refusal as SupportRefusal {
              return refusal
            }
          }
        }
        return try await group.reduce(into: [SupportRefusal]()) { if let refusal = $1 { $0.append(refusal) } }
      }
      #expect(refusals.count == 19)
      #expect(refusals.allSatisfy { $0.kind == .alreadyDone && $0.description.contains("ticket 812") })
      #expect(try await harness.actions().count == 1)
      let days = try await harness.pool.query("SELECT extended_days, ends_at FROM trials")[0]
      #expect(try days.decode("extended_days", as: Int.self) == 7)
      #expect(try days.decode("ends_at", as: Date.self) == harness.clock.now + 7 * 86_400)
    }
  }

  @Test func `an extension without a trial is refused`() async throws {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      let desk = harness.desk
      let none = try await refusal {
        _ = try await desk.extendTrial(of: "phone", bundleID: TestApps.family, days: 7, by: ada)
      }
      #expect(none == .notFound)
      let user = try await refusal {
        _ = try await desk.extendTrial(
          of: UUID().uuidString, bundleID: TestApps.climbing, days: 7, by: ada)
      }
      #expect(user == .invalid)
    }
  }
}
