import AppStore
import AppStoreSimulator
import Configuration
import Curl
import Foundation
import HTTP
import HTTPTypes
import Logging
import Postgres
import TestDatabase

@testable import ReceiptService

/// A complete receiptd with a real database and real sockets, a simulated App Store, and a manual clock.
final class Harness: Sendable {
  let clock: ManualClock
  let store: SimulatedAppStore
  let service: Service
  /// A pool with the database owner's role; the service may use another role.
  let pool: PostgresPool
  let http: CurlClient
  let address: SocketAddress
  let adminAddress: SocketAddress
  private let servers: [HTTPServer]
  private let storeServer: SimulatorServer
  private let folder: URL
  let environment: [String: String]
  /// The timeout of queries and requests; `nil` for production's query timeout and ten seconds for requests.
  let databaseTimeout: Duration?

  static let secret = "a shared secret of at least 32 bytes, for tests"
  static let supportToken = "the token of the support tool, which nobody guesses"
  static let migrations = URL(filePath: #filePath).deletingLastPathComponent()
    .appending(path: "../../../migrations").standardizedFileURL.path

  /// - Parameter configuration: the apps, as in `config/apps.json`.
  /// - Parameter variables: further environment variables.
  /// - Parameter ownerURL: the URL with the owner's role, if the service uses another role.
  /// - Parameter databaseTimeout: the timeout of queries and connections, if the test is not about timeouts.
  /// - Parameter logger: the service's logger; `nil` discards all lines.
  init(
    databaseURL: String, configuration: String, environment variables: [String: String] = [:],
    ownerURL: String? = nil, databaseTimeout: Duration? = nil, logger: Logger? = nil
  ) async throws {
    self.databaseTimeout = databaseTimeout
    clock = ManualClock()
    folder = FileManager.default.temporaryDirectory.appending(path: "receiptd-\(UUID())")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    let appsFile = folder.appending(path: "apps.json")
    try Data(configuration.utf8).write(to: appsFile)

    let clock = clock
    store = try SimulatedAppStore(
      apps: CatalogFile.read(appsFile), seed: 1, clock: VirtualClock { clock.now })
    try store.identity.save(to: folder)
    storeServer = try await SimulatorServer(store: store, host: "127.0.0.1", port: 0)
    let storeAddress = try storeServer.start()

    let rootFile = folder.appending(path: "test-root.der")
    try Data(store.identity.authority.rootDER).write(to: rootFile)
    let keyFile = folder.appending(path: "test-key.p8")
    try Data(store.identity.connectKey.pem.utf8).write(to: keyFile)
    if !FileManager.default.fileExists(atPath: TestApps.ownKeyFile) {
      try Data(ConnectKey().pem.utf8).write(to: URL(filePath: TestApps.ownKeyFile), options: .atomic)
    }
    let usual = [
      "DATABASE_URL": databaseURL, "RECEIPTD_CONFIG": appsFile.path,
      "RECEIPTD_MIGRATIONS": Self.migrations, "APP_STORE_ROOTS": rootFile.path,
      "APP_STORE_URL": "http://\(storeAddress)",
      "APP_STORE_SANDBOX_URL": "http://\(storeAddress)/sandbox",
      "APP_STORE_KEY": keyFile.path, "APP_STORE_KEY_ID": store.identity.connectKey.keyID,
      "APP_STORE_ISSUER_ID": store.identity.connectKey.issuerID,
      "TEST_JWT_SECRET": Self.secret, "SUPPORT_TOKEN": Self.supportToken,
      "RATE_LIMIT": "off",
    ]
    environment = usual.merging(variables) { $1 }
    let settings = try Self.settings(environment, databaseTimeout)
    var silent = Logger(label: "tests") { _ in SwiftLogNoOpLogHandler() }
    silent.logLevel = .critical
    let logger = logger ?? silent
    service = try await Service(settings: settings, clock: clock.service, logger: logger)
    pool =
      if let ownerURL {
        try PostgresPool(configuration: PostgresConfiguration(uri: ownerURL, applicationName: "tests"))
      } else {
        service.pool
      }
    await service.loadEntitlementKeys()
    // Once only: some tests migrate later, or stop the database.
    try? await service.configuredApps.write()

    var front = HTTPServerConfiguration()
    front.trustedProxies = settings.trustedProxies
    let clients = HTTPServer(
      configuration: front, router: service.clientRouter, logger: logger,
      onResponse: service.metrics.requests(of: service.clientRouter, server: "clients").record)
    let operators = HTTPServer(
      configuration: HTTPServerConfiguration(), router: service.adminRouter, logger: logger,
      onResponse: service.metrics.requests(of: service.adminRouter, server: "operators").record)
    service.metrics.watch(clients, named: "clients")
    service.metrics.watch(operators, named: "operators")
    servers = [clients, operators]
    address = try clients.start()
    adminAddress = try operators.start()
    http = CurlClient(configuration: CurlConfiguration(userAgent: "tests"))
    store.setWebhook("http://\(address)/api/v1/subscriptions/webhook")
  }

  /// Another server with the same database and store, and its own configuration. The caller closes it.
  /// - Parameter settings: environment variables that differ.
  /// - Parameter log: receives its log lines.
  func service(
    configuration: String, settings: [String: String] = [:], log: LogLines? = nil
  ) async throws -> Service {
    let file = folder.appending(path: "apps-\(UUID()).json")
    try Data(configuration.utf8).write(to: file)
    var environment = environment.merging(settings) { _, new in new }
    environment["RECEIPTD_CONFIG"] = file.path
    return try await Service(
      settings: Self.settings(environment, databaseTimeout), clock: clock.service,
      logger: Logger(label: "tests") { _ in
        guard let log else { return SwiftLogNoOpLogHandler() }
        return log
      })
  }

  /// A file with the key of the App Store Server API, for a service whose harness has none.
  func storeKeyFile() throws -> String {
    let file = folder.appending(path: "late-key.p8")
    try Data(store.identity.connectKey.pem.utf8).write(to: file)
    return file.path
  }

  /// Runs `body` with the address of another service's client routes.
  func serving(_ service: Service, _ body: (SocketAddress) async throws -> Void) async throws {
    let server = HTTPServer(
      configuration: HTTPServerConfiguration(), router: service.clientRouter, logger: service.logger)
    let address = try server.start()
    do {
      try await body(address)
    } catch {
      await server.shutdown(within: .seconds(2))
      throw error
    }
    await server.shutdown(within: .seconds(2))
  }

  /// Settings with longer database timeouts than production's.
  static func settings(_ environment: [String: String], _ timeout: Duration?) throws -> Settings {
    var settings = try Settings(environment: environment)
    if let timeout {
      settings.database.queryTimeout = timeout
      settings.database.acquireTimeout = timeout
    }
    return settings
  }

  func stop() async {
    for server in servers { await server.shutdown(within: .seconds(2)) }
    await storeServer.shutdown()
    await http.shutDown()
    await service.close()
    await pool.close()
    try? FileManager.default.removeItem(at: folder)
  }
}

/// Runs a test with its own receiptd and its own migrated database.
/// - Parameter role: the service's database role; `nil` for the owner.
func withHarness(
  configuration: String = TestApps.json, environment: [String: String] = [:], role: String? = testRole,
  _ body: (Harness) async throws -> Void
) async throws {
  try await withTestDatabase(migrationsFolder: Harness.migrations) { database in
    let harness = try await Harness(
      databaseURL: role.map(database.uri(role:)) ?? database.uri, configuration: configuration,
      environment: environment, ownerURL: role == nil ? nil : database.uri, databaseTimeout: .seconds(60))
    do {
      try await body(harness)
    } catch {
      await harness.stop()
      throw error
    }
    await harness.stop()
  }
}

/// `TEST_DATABASE_ROLE`: the database role of every service under test; unset for the owner.
let testRole = ProcessInfo.processInfo.environment["TEST_DATABASE_ROLE"]
