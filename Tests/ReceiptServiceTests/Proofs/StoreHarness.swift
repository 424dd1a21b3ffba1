import AppStore
import AppStoreSimulator
import Configuration
import Curl
import Foundation
import HTTP
import HTTPTypes
import Logging
import ReceiptService
import TestDatabase

@testable import Ledger

/// A receiptd with the system's clock, a real database and real sockets, and a ``FakeAppStoreServer`` as App Store.
final class StoreHarness: Sendable {
  let front: FakeAppStoreServer
  /// A proxy between receiptd and the store; it can cut connections.
  let proxy: Proxy
  let logs = LogLines()
  private let service: Service
  private let server: HTTPServer
  private let client: CurlClient
  private let address: SocketAddress
  private let folder: URL

  /// - Parameter variables: further environment variables.
  init(databaseURL: String, environment variables: [String: String]) async throws {
    front = try await FakeAppStoreServer()
    proxy = try Proxy(to: UInt16(front.address.port))
    folder = FileManager.default.temporaryDirectory.appending(path: "receiptd-\(UUID())")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    let apps = folder.appending(path: "apps.json")
    try Data(TestApps.json.utf8).write(to: apps)
    let root = folder.appending(path: "root.der")
    try Data(front.authority.rootDER).write(to: root)
    let key = folder.appending(path: "key.p8")
    try Data(ConnectKey().pem.utf8).write(to: key)
    let store = "http://127.0.0.1:\(proxy.port)"
    // Long database timeouts, so that a slow machine does not fail tests about the App Store.
    let settings = try Harness.settings(
      [
        "DATABASE_URL": databaseURL, "RECEIPTD_CONFIG": apps.path, "RECEIPTD_MIGRATIONS": Harness.migrations,
        "APP_STORE_ROOTS": root.path, "APP_STORE_URL": store, "APP_STORE_SANDBOX_URL": store + "/sandbox",
        "APP_STORE_KEY": key.path, "APP_STORE_KEY_ID": "KEY", "APP_STORE_ISSUER_ID": "ISSUER",
        "TEST_JWT_SECRET": Harness.secret, "RATE_LIMIT": "off",
      ].merging(variables) { $1 }, .seconds(60))
    var logger = Logger(label: "tests") { [logs] _ in logs }
    logger.logLevel = .trace
    service = try await Service(settings: settings, logger: logger)
    var configuration = HTTPServerConfiguration()
    configuration.trustedProxies = settings.trustedProxies
    server = HTTPServer(configuration: configuration, router: service.clientRouter, logger: logger)
    address = try server.start()
    var many = CurlConfiguration(userAgent: "tests")
    many.maximumInFlight = 2_000
    many.maximumQueued = 2_000
    many.maximumConnectionsPerHost = 2_000
    client = CurlClient(configuration: many)
  }

  /// - Parameter client: the client address in `X-Forwarded-For`, if the environment trusts the proxy.
  func validate(_ transactionID: String, from client: String? = nil) async throws -> Answer {
    let body = #"{"transactionID": "\#(transactionID)", "bundleID": "\#(TestApps.climbing)"}"#
    var headers: HTTPFields = [.contentType: "application/json"]
    if let client, let name = HTTPField.Name("X-Forwarded-For") { headers[name] = client }
    let response = try await self.client.send(
      CurlRequest(
        method: .post, url: "http://\(address)/api/v1/subscriptions/validate",
        headers: headers, body: Array(body.utf8), timeout: .seconds(60)))
    return Answer(status: response.status, headers: response.headers, body: response.body)
  }

  /// Sends all requests concurrently.
  func validate(_ transactionIDs: [String], from client: String? = nil) async throws -> [Answer] {
    try await withThrowingTaskGroup(of: Answer.self) { group in
      for id in transactionIDs { group.addTask { try await self.validate(id, from: client) } }
      return try await group.reduce(into: []) { $0.append($1) }
    }
  }

  func stop() async {
    await server.shutdown(within: .seconds(1))
    await client.shutDown()
    await service.close()
    proxy.stop()
    await front.stop()
    try? FileManager.default.removeItem(at: folder)
  }
}

/// Runs a test with its own receiptd and its own store.
func withStoreHarness(
  environment: [String: String] = [:], _ body: (StoreHarness) async throws -> Void
) async throws {
  try await withTestDatabase(migrationsFolder: Harness.migrations) { database in
    let harness = try await StoreHarness(databaseURL: database.uri, environment: environment)
    do {
      try await body(harness)
    } catch {
      await harness.stop()
      throw error
    }
    await harness.stop()
  }
}
