import Actions
import AppStore
import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import Testing

@testable import Customers
@testable import ReceiptService
@testable import Support

/// Changes of trials and grants reach profiles, webhooks and CloudKit.
@Suite struct TrialPublishingTests {
  /// The customers queued for CloudKit; then empties the queue.
  private func noted(_ harness: Harness) async throws -> Set<String> {
    let rows = try await harness.pool.query(
      "SELECT key FROM outbox WHERE destination = 'cloudkit' AND done_at IS NULL")
    _ = try await harness.pool.query("UPDATE outbox SET done_at = created_at")
    return Set(try rows.map { try $0.decode("key", as: String.self) })
  }

  @Test func `a trial extension reaches every device of the trial`() async throws {
    try await withScreenTime { harness in
      let ada = try #require(Harness.ada)
      let end = try #require(try await harness.launch("old", account: "anna").date("trial.endsAt"))
      #expect(try await noted(harness) == ["old"])
      _ = try await harness.launch("new", account: "anna")
      #expect(try await noted(harness) == ["new"])
      // Another account on a device that joined a trial changes nothing.
      _ = try await harness.launch("new", account: "boris")
      #expect(try await noted(harness) == [])
      #expect(try await harness.launch("third", account: "anna").status == 200)
      #expect(try await noted(harness) == ["third"])

      _ = try await harness.desk.extendTrial(of: "new", bundleID: ScreenTime.bundleID, days: 7, by: ada)
      #expect(try await noted(harness) == ["old", "new", "third"])
      for device in ["old", "new", "third"] {
        let told = try await harness.entitlements(device).date("entitlements.validUntil")
        #expect(told == end + 7 * ScreenTime.day, "\(device)")
        let again: SupportRefusal?
        do {
          _ = try await harness.desk.extendTrial(
            of: device, bundleID: ScreenTime.bundleID, days: 7, by: ada)
          again = nil
        } catch let refusal as SupportRefusal {
          again = refusal
        }
        #expect(again?.kind == .alreadyDone)
        #expect(again?.description.contains("ticket 812") == true)
        let view = try await harness.pool.query(
          "SELECT trial_ends_at FROM support_customers WHERE device_id = \(device)")
        let shown = try view[0].decode("trial_ends_at", as: Date.self)
        #expect(shown == end + 7 * ScreenTime.day, "\(device)")
      }
      let story = try await harness.pool.query(
        "SELECT what FROM support_timeline WHERE device_id = 'third' AND event = 'trial'")
      let what = try story[0].decode("what", as: String.self)
      #expect(what.hasSuffix("UTC, extended by 7 days, begun on old"))
    }
  }

  @Test func `a grant, its end and free access are queued for CloudKit`() async throws {
    try await withScreenTime { harness in
      let ada = try #require(Harness.ada)
      _ = try await harness.launch("phone")
      try await harness.device("payer", buys: ScreenTime.family)
      _ = try await noted(harness)

      let desk = harness.desk
      _ = try await desk.grant(
        to: "guest", bundleID: ScreenTime.bundleID, tier: "family", days: 3, by: ada, isForced: true)
      #expect(try await noted(harness) == ["guest"])
      harness.clock.advance(days: 4)
      #expect(try await harness.service.sweep.grants.run() == 1)
      #expect(try await noted(harness) == ["guest"])

      // A device whose state the container has, and which has no record any more.
      _ = try await harness.pool.query(
        """
        INSERT INTO outbox (destination, key, bundle_id, endpoint, payload, created_at, next_attempt_at, done_at)
        SELECT destination, 'lost', bundle_id, endpoint, payload, created_at, next_attempt_at, done_at FROM outbox
        WHERE key = 'payer' AND destination = 'cloudkit'
        """)
      for isOn in [true, false] {
        _ = try await desk.setFreeAccess(isOn, bundleID: ScreenTime.bundleID, by: ada)
        #expect(try await noted(harness) == ["phone", "payer", "guest", "lost"])
        _ = try await desk.setFreeAccess(isOn, bundleID: ScreenTime.bundleID, by: ada)
        #expect(try await noted(harness) == [])
      }
    }
  }

  @Test func `the support API requeues deliveries that were given up`() async throws {
    try await withScreenTime { harness in
      func requeue(_ members: String) async throws -> Answer {
        try await harness.send(
          .post, "/support/v1/requeue", json: #"{\#(members), "by": "ada", "reason": "ticket 812"}"#,
          token: Harness.supportToken, to: harness.adminAddress)
      }
      // A device id that looks like a user's UUID.
      let device = UUID().uuidString.lowercased()
      for name in [device, "other"] { _ = try await harness.launch(name) }
      _ = try await harness.pool.query("UPDATE outbox SET dead_at = created_at")
      let id = try await harness.pool.query("SELECT id FROM outbox WHERE key = \(device)")[0]
        .decode("id", as: Int64.self)
      let one = try await requeue(#""outbox": \#(id)"#)
      #expect(one["requeued"] as? Int == 1)
      #expect(try await harness.outboxStates() == ["waiting": 1, "dead": 1])
      let rest = try await requeue(#""bundleID": "com.screentimerewards""#)
      #expect(rest["requeued"] as? Int == 1)
      #expect(try await harness.outboxStates() == ["waiting": 2])
      #expect(try await harness.actions().map(\.to) == [device, "other"])
      let story = try await harness.pool.query(
        "SELECT event FROM support_timeline WHERE device_id = \(device) AND event = 'requeue'")
      #expect(story.count == 1)

      #expect(try await requeue(#""outbox": 1000000"#).code == "not_found")
      #expect(try await requeue(#""bundleID": "none""#).code == "not_found")
      #expect(try await requeue(#""outbox": 1, "bundleID": "com.screentimerewards""#).status == 400)
      #expect(try await requeue(#""other": 1"#).status == 400)
      #expect(try await harness.actions().count == 2)
    }
  }
}
