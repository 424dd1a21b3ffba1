import AppStore
import AppStoreSimulator
import Curl
import Foundation
import HTTPTypes
import Postgres
import Synchronization
import TestDatabase
import Testing

/// `receiptd serve` is killed many times during a stream of notifications.
@Suite(.timeLimit(.minutes(10))) struct KillStormTests {
  static let project = URL(filePath: #filePath).deletingLastPathComponent()
    .appending(path: "../..").standardizedFileURL
  private static let bundleID = "com.example.storm"
  private static let product = "com.example.storm.monthly"
  private static let kills = 15

  private static let configuration = """
    { "apps": [ { "bundleID": "\(bundleID)", "appAppleID": 1500000010,
      "environments": ["Production"], "customer": "device",
      "products": { "\(product)": { "tier": "premium" } },
      "tiers": { "premium": { "rank": 1, "features": {} } } } ] }
    """

  /// The notifications with response 200, by UUID.
  private final class Acknowledged: Sendable {
    private let uuids = Mutex<Set<UUID>>([])
    func insert(_ uuid: UUID) { uuids.withLock { _ = $0.insert(uuid) } }
    var all: Set<UUID> { uuids.withLock { $0 } }
  }

  private struct Story: Sendable {
    var uuid: UUID
    var signedPayload: String
  }

  @Test func `a server that is killed many times keeps every notification that it answered with 200`()
    async throws
  {
    let folder = FileManager.default.temporaryDirectory.appending(path: "receiptd-\(UUID())")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let apps = folder.appending(path: "apps.json")
    try Data(Self.configuration.utf8).write(to: apps)
    let store = try SimulatedAppStore(
      apps: [
        StoreApp(
          bundleID: Self.bundleID, appAppleID: 1_500_000_010, products: [.subscription(Self.product)])
      ], seed: 7)
    let root = folder.appending(path: "test-root.der")
    try Data(store.identity.authority.rootDER).write(to: root)
    let (stories, ids) = try Self.live(in: store, customers: 240)

    try await withTestDatabase { database in
      let environment = [
        "DATABASE_URL": database.uri, "RECEIPTD_CONFIG": apps.path, "APP_STORE_ROOTS": root.path,
        "RECEIPTD_MIGRATIONS": Self.project.appending(path: "migrations").path, "LOG_LEVEL": "error",
      ]
      let log = folder.appending(path: "log")
      let pool = try database.pool()
      let client = CurlClient()
      let acknowledged = Acknowledged()
      var receiptd = try ReceiptdProcess(environment: environment, log: log)
      try await receiptd.awaitReady(client)

      let url = "http://127.0.0.1:\(receiptd.port)/api/v1/subscriptions/webhook"
      let storm = Task { await Self.post(stories, to: url, client, acknowledged) }
      var seed = SystemRandomNumberGenerator()
      var killsInStorm = 0
      for _ in 0..<Self.kills {
        // Long enough for some responses, short enough to interrupt other requests.
        try await Task.sleep(for: .milliseconds(Int.random(in: 20...250, using: &seed)))
        await receiptd.kill()
        let answered = acknowledged.all
        if answered.count < stories.count { killsInStorm += 1 }
        let kept = try await Self.kept(pool)
        #expect(answered.subtracting(kept).isEmpty)
        receiptd = try ReceiptdProcess(
          environment: environment, log: log, ports: (receiptd.port, receiptd.adminPort))
        try await receiptd.awaitReady(client)
      }
      await storm.value
      #expect(killsInStorm == Self.kills)

      // The App Store repeats notifications without response 200, so at the end all rows are right.
      #expect(acknowledged.all == Set(stories.map(\.uuid)))
      #expect(try await Self.kept(pool) == Set(stories.map(\.uuid)))
      for id in ids {
        let truth = try #require(store.truth(of: id))
        let row = try #require(
          try await pool.query(
            "SELECT status, transaction_id FROM subscriptions WHERE original_transaction_id = \(id)"
          ).first)
        #expect(
          try row.decode("status", as: String.self) == (truth.status == .revoked ? "cancelled" : "active"))
        #expect(try row.decode("transaction_id", as: String.self) == truth.transactionID)
      }
      #expect(await receiptd.stop() == 0)
      await pool.close()
      await client.shutDown()
    }
  }

  /// Notifications of customers who buy, renew, turn renewal off and on, and are refunded.
  private static func live(
    in store: SimulatedAppStore, customers: Int
  ) throws -> (stories: [Story], ids: [String]) {
    var stories: [Story] = []
    var ids: [String] = []
    func tell(_ outcome: SignedOutcome) {
      guard let uuid = UUID(uuidString: outcome.notification.uuid) else { return }
      stories.append(Story(uuid: uuid, signedPayload: outcome.notification.signedPayload))
    }
    for customer in 0..<customers {
      let bought = try store.buy(PurchaseRequest(bundleID: bundleID, productID: product))
      let id = bought.originalTransactionID
      ids.append(id)
      tell(bought)
      tell(try store.perform(.renew, on: id))
      tell(try store.perform(.setAutoRenew(false), on: id))
      tell(try store.perform(.setAutoRenew(true), on: id))
      tell(try store.perform(.renew, on: id))
      if customer % 3 == 0 {
        tell(
          try store.perform(
            .refund(transactionID: nil, percentage: 100, reason: .refundedForOtherReason), on: id))
      }
      if customer % 6 == 0 { tell(try store.perform(.reverseRefund(transactionID: nil), on: id)) }
    }
    return (stories.shuffled(), ids)
  }

  /// Posts all notifications, 24 at a time, each until the response is 200.
  private static func post(
    _ stories: [Story], to url: String, _ client: CurlClient, _ acknowledged: Acknowledged
  ) async {
    await withTaskGroup { group in
      for part in 0..<24 {
        group.addTask {
          for index in stride(from: part, to: stories.count, by: 24) {
            let request = CurlRequest(
              method: .post, url: url, headers: [.contentType: "application/json"],
              body: Array(#"{"signedPayload": "\#(stories[index].signedPayload)"}"#.utf8))
            while (try? await client.send(request))?.status != 200 {
              // The server is restarting.
              try? await Task.sleep(for: .milliseconds(10))
            }
            acknowledged.insert(stories[index].uuid)
            // The stream must last as long as the kills.
            try? await Task.sleep(for: .milliseconds(60))
          }
        }
      }
    }
  }

  private static func kept(_ pool: PostgresPool) async throws -> Set<UUID> {
    Set(
      try await pool.query("SELECT notification_uuid FROM notifications")
        .map { try $0.decode("notification_uuid", as: UUID.self) })
  }
}
