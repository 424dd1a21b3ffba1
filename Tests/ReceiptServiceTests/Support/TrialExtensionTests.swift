import Foundation
import Postgres
import Subscriptions
import Testing

@testable import ReceiptService

@Suite struct TrialExtensionTests {
  private func begin(_ device: String, daysAgo: Double, in harness: Harness) async throws {
    let start = harness.clock.now - daysAgo * 86_400
    _ = try await harness.pool.query(
      """
      INSERT INTO trials (bundle_id, device_id, started_at, ends_at)
      VALUES (\(TestApps.family), \(device), \(start), \(start + 30 * 86_400))
      """)
  }

  @Test func `a running trial ends later, one that is over runs again from now`() async throws {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      try await begin("running", daysAgo: 10, in: harness)
      try await begin("over", daysAgo: 100, in: harness)
      let running = try await harness.desk.extendTrial(
        of: "running", bundleID: TestApps.family, days: 7, by: ada)
      #expect(running.endsAt == harness.clock.now + 27 * 86_400)
      let over = try await harness.desk.extendTrial(of: "over", bundleID: TestApps.family, days: 7, by: ada)
      #expect(over.endsAt == harness.clock.now + 7 * 86_400)
      let trial = try await harness.pool.holdings(devices: ["over"])[.device("over")].trials[TestApps.family]
      #expect(trial?.endsAt == harness.clock.now + 7 * 86_400)
      #expect(try await harness.actions().map(\.to) == ["running", "over"])
    }
  }

  @Test func `of twenty extensions at once one is done, and the others say who did it`() async throws {
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
      #expect(try days.decode(0, as: Int.self) == 7)
      #expect(try days.decode(1, as: Date.self) == harness.clock.now + 7 * 86_400)
    }
  }

  @Test func `without a trial there is nothing to extend`() async throws {
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
