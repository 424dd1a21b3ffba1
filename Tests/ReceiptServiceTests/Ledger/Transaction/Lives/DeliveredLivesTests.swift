import AppStore
import AppStoreSimulator
import Configuration
import Foundation
import Postgres
import Subscriptions
import Testing

@testable import Customers
@testable import ReceiptService

/// Random lives that arrive through HTTP as over a bad network: a third of the notifications lost, the others shuffled
/// and repeated, with old transactions from devices in between, and with reconciliation.
@Suite struct DeliveredLivesTests {
  /// The time between reconciliations, much shorter than Apple's notification history.
  private static let stretch: TimeInterval = 100 * 86_400

  @Test(arguments: [0, 5, 10, 15] as [UInt64])
  func `rows equal the store's truth after any losses, repeats and order of a life's notifications`(
    seeds: UInt64
  ) async throws {
    try await withHarness(configuration: Self.configuration) { harness in
      for seed in seeds..<(seeds + 5) {
        let life = RandomLife(seed: seed, from: harness.clock.now)
        var random = SeededGenerator(seed: seed)
        try await Self.deliver(life, to: harness, &random)
        try await Self.expectTruth(of: life, in: harness)
        // The rows are still correct 90 days later, after a sweep.
        harness.clock.set(life.end + 90 * 86_400)
        _ = try await harness.service.sweep.run()
        try await Self.expectTruth(of: life, in: harness)
      }
    }
  }

  private static func deliver(
    _ life: RandomLife, to harness: Harness, _ random: inout SeededGenerator
  ) async throws {
    let sent = try harness.store.remember(life)
    var posts = life.posts
    var start = sent.map(\.content.signedDate).min() ?? life.end
    while start <= life.end {
      let end = start + stretch
      let due = sent.filter { (start..<end).contains($0.content.signedDate) }
      var arriving = due.filter { _ in Int.random(in: 0..<3, using: &random) > 0 }
      arriving += arriving.filter { _ in Int.random(in: 0..<4, using: &random) == 0 }
      arriving.shuffle(using: &random)
      try await withThrowingTaskGroup(of: Void.self) { group in
        for notification in arriving {
          group.addTask {
            let answer = try await harness.notify(notification.signedPayload)
            #expect(answer.status == 200)
          }
        }
        try await group.waitForAll()
      }
      // Devices post their transactions, some of which were signed long ago.
      let held = posts.filter { $0.signedDate < end }
      posts.removeAll { $0.signedDate < end }
      for case .transaction(let info) in held {
        let answer = try await harness.validate(["signedTransaction": harness.sign(info)])
        #expect([200, 422].contains(answer.status))
      }
      harness.clock.set(max(harness.clock.now, min(end, life.end + 3_700)))
      for report in await harness.service.reconcile() { #expect(report.failure == nil) }
      start = end
    }
    _ = try await harness.service.sweep.run()
  }

  private static func expectTruth(of life: RandomLife, in harness: Harness) async throws {
    let app = try #require(try AppCatalog(json: Data(configuration.utf8), named: "test").apps.first)
    for id in life.purchases {
      let truth = try #require(harness.store.truth(of: id))
      let rows = try await harness.pool.query(SubscriptionRows.select([id]))
      let stored = try SubscriptionRows.decode(try #require(rows.first, "LIFE=\(life.seed): no row of \(id)"))
      let found = stored.subscription.disagreements(with: truth, under: app)
      #expect(found.isEmpty, "LIFE=\(life.seed): \(id): \(found.joined(separator: "; "))\n\(life)")

      let row = try await harness.row(of: id)
      let phase = stored.subscription.phase(at: harness.clock.now)
      #expect(row.status == phase.status.rawValue, "LIFE=\(life.seed): \(id)")
      #expect(row.storeStatus == phase.storeStatus.rawValue, "LIFE=\(life.seed): \(id)")
      if let user = truth.appAccountToken {
        #expect(stored.owner?.customer == .user(user), "LIFE=\(life.seed): \(id)")
      }
    }
  }

  /// The app of the lives, as receiptd's configuration.
  static let configuration: String = {
    let products = StoreApp.everything.products.values.sorted { $0.id < $1.id }
      .map { product in
        let days = product.type == .nonRenewingSubscription ? #", "accessDays": 90"# : ""
        return #""\#(product.id)": { "tier": "tier\#(product.rank)"\#(days) }"#
      }
    let tiers = (1...3).map { #""tier\#($0)": { "rank": \#($0), "features": {} }"# }
    return """
      { "apps": [ { "bundleID": "\(StoreApp.everything.bundleID)",
        "appAppleID": \(StoreApp.everything.appAppleID), "name": "Everything", "customer": "user",
        "products": { \(products.joined(separator: ", ")) },
        "tiers": { \(tiers.joined(separator: ", ")) },
        "auth": \(TestApps.secretAuth), "writeTo": ["profiles"] } ] }
      """
  }()
}
