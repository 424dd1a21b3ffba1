import AppStore
import AppStoreSimulator
import Curl
import Foundation
import HTTPTypes
import TestDatabase

/// A running receiptd, its files, and two App Stores that sign for it.
struct Stage: Sendable {
  let receiptd: ReceiptdProcess
  let client: CurlClient
  let database: TestDatabase
  let apps: URL
  let root: URL
  /// A store whose root receiptd trusts, and a store with a root of its own.
  let stores: (old: SimulatedAppStore, new: SimulatedAppStore)

  /// The same stage after another start of receiptd.
  func again() throws -> Stage {
    Stage(
      receiptd: try receiptd.another(), client: client, database: database, apps: apps, root: root,
      stores: stores)
  }

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

  /// Replaces a file atomically, as editors and orchestrators do.
  func write(_ text: String, to file: URL) throws { try Data(text.utf8).write(to: file, options: .atomic) }

  private static func app(_ name: String, _ appleID: Int) -> String {
    """
    { "bundleID": "com.example.\(name)", "appAppleID": \(appleID), "environments": ["Production"],
      "customer": "device", "products": { "com.example.\(name).monthly": { "tier": "premium" } },
      "tiers": { "premium": { "rank": 1, "features": {} } } }
    """
  }

  static let one = #"{ "apps": [ \#(app("one", 1_500_000_011)) ] }"#
  static let both = #"{ "apps": [ \#(app("one", 1_500_000_011)), \#(app("two", 1_500_000_012)) ] }"#
}

/// Runs a test on a running receiptd.
/// - Parameter log: the file of its log; by default a temporary file.
func withStage(
  environment: [String: String] = [:], log: URL? = nil, _ body: (Stage) async throws -> Void
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
  try Data(Stage.one.utf8).write(to: apps)
  try Data(stores.old.identity.authority.rootDER).write(to: root)
  try await withTestDatabase { database in
    let usual = [
      "DATABASE_URL": database.uri, "RECEIPTD_CONFIG": apps.path, "APP_STORE_ROOTS": root.path,
      "RECEIPTD_MIGRATIONS": KillStormTests.project.appending(path: "migrations").path,
    ]
    let receiptd = try ReceiptdProcess(
      environment: usual.merging(environment) { $1 }, log: log ?? folder.appending(path: "log"))
    let client = CurlClient()
    try await receiptd.awaitReady(client)
    try await body(
      Stage(receiptd: receiptd, client: client, database: database, apps: apps, root: root, stores: stores))
    await client.shutDown()
  }
}
