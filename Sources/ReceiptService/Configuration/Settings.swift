import AppStore
import Foundation
import HTTP
import Logging
import Postgres

/// The settings of the environment, which README.md lists.
public struct Settings: Sendable {
  /// The connection settings of the database.
  public var database: PostgresConfiguration
  /// The address of the server for clients and the App Store.
  public var host: String
  /// The port of the server for clients and the App Store.
  public var port: UInt16
  /// The address of the admin server.
  public var adminHost: String
  /// The port of the admin server.
  public var adminPort: UInt16
  /// The file with the apps.
  public var configurationFile: String
  /// The folder of the migrations.
  public var migrationsFolder: String
  /// The files with root certificates; empty for the shipped root.
  public var rootFiles: [String]
  /// The addresses of the App Store Server API.
  public var storeAddresses: (production: AppStoreAddress, sandbox: AppStoreAddress)
  /// The App Store Connect key; `nil` if none is set.
  public var storeCredentials: AppStoreCredentials?
  /// The keys of entitlement tokens, the signing key first; `nil` if they are in the database.
  var entitlementKeys: [EntitlementKey]?
  /// The bearer token of the support API; `nil` turns the support API off.
  public var supportToken: String?
  /// Requests a second of one address or user; `nil` for no limit.
  public var rateLimit: Int?
  /// The proxies whose forwarding header is trusted, and the name of the header.
  public var trustedProxies: TrustedProxies
  /// For how long a stopping process still serves requests, so that load balancers notice its `/readyz`.
  public var drainDelay: Duration
  /// For how long notifications and transactions are kept.
  public var retention: Retention
  /// The least severe level that is logged.
  public var logLevel: Logger.Level
  /// `true` for JSON, `false` for text, `nil` for text on a terminal and JSON elsewhere.
  public var logsAsJSON: Bool?
  /// The environment, for the secrets that the apps' configuration names.
  public var environment: [String: String]

  /// Reads the environment.
  /// - Throws: an error that names the setting, and never contains a secret.
  public init(environment: [String: String]) throws(ConfigurationProblem) {
    let reader = EnvironmentReader(environment)
    self.environment = environment
    let uri = try reader.required("DATABASE_URL")
    do throws(PostgresError) {
      database = try PostgresConfiguration(uri: uri, applicationName: "receiptd")
    } catch {
      throw ConfigurationProblem("DATABASE_URL", "\(error)")
    }
    // The App Store's webhook timeout is a few seconds. An unavailable database must be reported before that.
    database.queryTimeout = .seconds(3)
    database.acquireTimeout = .milliseconds(1_500)
    database.maximumConnections = 16
    let pooler = try reader.pooler()
    database.usesPreparedStatements = pooler != .transaction
    database.setsOptions = pooler == .none
    host = reader.text("HOST") ?? "127.0.0.1"
    port = try reader.port("PORT") ?? 3000
    adminHost = reader.text("ADMIN_HOST") ?? "127.0.0.1"
    adminPort = try reader.port("ADMIN_PORT") ?? 3001
    configurationFile = reader.text("RECEIPTD_CONFIG") ?? "config/apps.json"
    migrationsFolder = reader.text("RECEIPTD_MIGRATIONS") ?? "migrations"
    rootFiles = (reader.text("APP_STORE_ROOTS") ?? "").split(separator: ":").map(String.init)
    storeAddresses = (
      production: try reader.storeAddress("APP_STORE_URL") ?? .production,
      sandbox: try reader.storeAddress("APP_STORE_SANDBOX_URL") ?? .sandbox
    )
    storeCredentials = try reader.storeCredentials()
    entitlementKeys = try reader.entitlementKeys()
    supportToken = reader.text("SUPPORT_TOKEN")
    rateLimit = try reader.rateLimit()
    trustedProxies = try reader.trustedProxies()
    drainDelay = try reader.seconds("DRAIN_DELAY", atMost: 300) ?? .zero
    retention = Retention(
      notifications: try reader.monthsKept("NOTIFICATION_RETENTION_MONTHS"),
      transactions: try reader.monthsKept("TRANSACTION_RETENTION_MONTHS"))
    logLevel = try reader.logLevel()
    logsAsJSON = try reader.logsAsJSON()
  }
}
