import AppStore
import AppStoreSimulator
import Curl
import Foundation
import HTTPTypes
import Synchronization
import TestDatabase
import Testing

/// `receiptd serve` is given other apps and roots while it works, and is told to stop.
@Suite(.timeLimit(.minutes(2))) struct ReloadTests {
  private static func app(_ name: String, _ appleID: Int) -> String {
    """
    { "bundleID": "com.example.\(name)", "appAppleID": \(appleID), "environments": ["Production"],
      "customer": "device", "products": { "com.example.\(name).monthly": { "tier": "premium" } },
      "tiers": { "premium": { "rank": 1, "features": {} } } }
    """
  }

  private static let one = #"{ "apps": [ \#(app("one", 1_500_000_011)) ] }"#
  private static let both = #"{ "apps": [ \#(app("one", 1_500_000_011)), \#(app("two", 1_500_000_012)) ] }"#

  /// A running receiptd, its files, and two App Stores that sign for it.
  private struct Stage: Sendable {
    let receiptd: ReceiptdProcess
    let client: CurlClient
    let apps: URL
    let root: URL
    /// The one whose root is trusted, and one with a root of its own.
    let stores: (old: SimulatedAppStore, new: SimulatedAppStore)

    func validate(_ transaction: SignedOutcome) async throws -> (status: Int, text: String) {
      let body = #"{"signedTransaction": "\#(transaction.signedTransaction)", "deviceID": "device"}"#
      let answer = try await client.send(
        CurlRequest(
          method: .post, url: "http://127.0.0.1:\(receiptd.port)/api/v1/subscriptions/validate",
          headers: [.contentType: "application/json"], body: Array(body.utf8)))
      return (answer.status, String(decoding: answer.body, as: UTF8.self))
    }

    func readiness() async -> Int? {
      try? await client.send(CurlRequest(url: "http://127.0.0.1:\(receiptd.adminPort)/readyz")).status
    }

    func buy(_ name: String, in store: SimulatedAppStore) throws -> SignedOutcome {
      try store.buy(
        PurchaseRequest(bundleID: "com.example.\(name)", productID: "com.example.\(name).monthly"))
    }

    /// Exchanges a file in one step, as editors and orchestrators do.
    func write(_ text: String, to file: URL) throws { try Data(text.utf8).write(to: file, options: .atomic) }
  }

  /// When a stream of requests shall stop.
  private final class End: Sendable {
    private let state = Atomic(false)
    var hasCome: Bool { state.load(ordering: .relaxed) }
    func come() { state.store(true, ordering: .relaxed) }
  }

  private static func withStage(
    environment: [String: String] = [:], _ body: (Stage) async throws -> Void
  ) async throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "receiptd-\(UUID())")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let sold = [("one", 1_500_000_011), ("two", 1_500_000_012)].map { name, id in
      StoreApp(
        bundleID: "com.example.\(name)", appAppleID: Int64(id),
        products: [.subscription("com.example.\(name).monthly")])
    }
    let stores = (
      old: try SimulatedAppStore(apps: sold, seed: 1), new: try SimulatedAppStore(apps: sold, seed: 2)
    )
    let (apps, root) = (folder.appending(path: "apps.json"), folder.appending(path: "root.der"))
    try Data(one.utf8).write(to: apps)
    try Data(stores.old.identity.authority.rootDER).write(to: root)
    try await withTestDatabase { database in
      let usual = [
        "DATABASE_URL": database.uri, "RECEIPTD_CONFIG": apps.path, "APP_STORE_ROOTS": root.path,
        "RECEIPTD_MIGRATIONS": KillStormTests.project.appending(path: "migrations").path,
      ]
      let receiptd = try ReceiptdProcess(
        environment: usual.merging(environment) { $1 }, log: folder.appending(path: "log"))
      let client = CurlClient()
      try await receiptd.awaitReady(client)
      try await body(Stage(receiptd: receiptd, client: client, apps: apps, root: root, stores: stores))
      await client.shutDown()
    }
  }

  @Test func `twenty reloads under a stream of requests drop none of them`() async throws {
    try await Self.withStage { stage in
      let purchase = try stage.buy("one", in: stage.stores.old)
      let end = End()
      let statuses = try await withThrowingTaskGroup(of: [Int].self) { group in
        for _ in 0..<4 {
          group.addTask {
            var statuses: [Int] = []
            while !end.hasCome { statuses.append(try await stage.validate(purchase).status) }
            return statuses
          }
        }
        for reload in 1...20 {
          try stage.write(reload.isMultiple(of: 2) ? Self.one : Self.both, to: stage.apps)
          stage.receiptd.signal(SIGHUP)
          try await stage.receiptd.awaitLog(#""reloaded the configuration""#, times: reload)
        }
        end.come()
        return try await group.reduce(into: []) { $0 += $1 }
      }
      #expect(statuses.count > 20)
      #expect(statuses.allSatisfy { $0 == 200 })
      #expect(await stage.receiptd.stop() == 0)
    }
  }

  @Test func `a new app works once its file is there, and one that is taken out works no more`() async throws
  {
    try await Self.withStage { stage in
      let purchase = try stage.buy("two", in: stage.stores.old)
      #expect(try await stage.validate(purchase).text.contains("wrong_app"))
      // Nobody sends a signal: the file has changed, and that is enough.
      try stage.write(Self.both, to: stage.apps)
      try await stage.receiptd.awaitLog(#""reloaded the configuration""#)
      #expect(try await stage.validate(purchase).status == 200)
      try stage.write(Self.one, to: stage.apps)
      try await stage.receiptd.awaitLog(#""reloaded the configuration""#, times: 2)
      #expect(try await stage.validate(purchase).text.contains("wrong_app"))
      #expect(await stage.receiptd.stop() == 0)
    }
  }

  @Test func `a configuration that cannot be used is refused with its reason, and the one before stays`()
    async throws
  {
    try await Self.withStage { stage in
      let purchase = try stage.buy("one", in: stage.stores.old)
      let broken = Self.one.replacing(#""rank": 1"#, with: #""rang": 1"#)
      for (number, text) in [broken, "{", "", Self.one + "x"].enumerated() {
        try stage.write(text, to: stage.apps)
        stage.receiptd.signal(SIGHUP)
        try await stage.receiptd.awaitLog("was not reloaded", times: number + 1)
        #expect(try await stage.validate(purchase).status == 200)
      }
      try stage.write("no certificate", to: stage.root)
      stage.receiptd.signal(SIGHUP)
      try await stage.receiptd.awaitLog("was not reloaded", times: 5)
      #expect(try await stage.validate(purchase).status == 200)
      let log = stage.receiptd.logText
      let line = try #require(log.split(separator: "\n").first { $0.contains("was not reloaded") })
      #expect(line.contains("apps.json"))
      #expect(line.contains("rang"))
      #expect(await stage.readiness() == 200)
      #expect(await stage.receiptd.stop() == 0)
    }
  }

  @Test func `after the roots were exchanged only what the new one signed is taken`() async throws {
    try await Self.withStage { stage in
      let old = try stage.buy("one", in: stage.stores.old)
      let new = try stage.buy("one", in: stage.stores.new)
      #expect(try await stage.validate(old).status == 200)
      #expect(try await stage.validate(new).text.contains("invalid_signature"))
      try Data(stage.stores.new.identity.authority.rootDER).write(to: stage.root, options: .atomic)
      try await stage.receiptd.awaitLog(#""reloaded the configuration""#)
      #expect(try await stage.validate(new).status == 200)
      #expect(try await stage.validate(old).text.contains("invalid_signature"))
      #expect(await stage.receiptd.stop() == 0)
    }
  }

  @Test func `who is told to stop says so before it stops, and goes on meanwhile`() async throws {
    try await Self.withStage(environment: ["DRAIN_DELAY": "300"]) { stage in
      let purchase = try stage.buy("one", in: stage.stores.old)
      stage.receiptd.signal(SIGTERM)
      while await stage.readiness() != 503 { try await Task.sleep(for: .milliseconds(5)) }
      #expect(try await stage.validate(purchase).status == 200)
      // Whoever says it twice does not want to wait.
      stage.receiptd.signal(SIGTERM)
      #expect(await stage.receiptd.exitStatus() == 128 + SIGTERM)
    }
  }
}
