import AppStore
import FoundationEssentials
import HTTP
import Logging
import Postgres

/// What the environment says: the contract's settings.
public struct Settings: Sendable {
  /// Where the database is.
  public var database: PostgresConfiguration
  /// Where clients and the App Store reach us.
  public var host: String
  /// The port for them.
  public var port: UInt16
  /// Where operators reach us.
  public var adminHost: String
  /// The port for them.
  public var adminPort: UInt16
  /// The file with the apps.
  public var configurationFile: String
  /// The folder of the migrations.
  public var migrationsFolder: String
  /// Files with root certificates; empty for the shipped one.
  public var rootFiles: [String]
  /// Where the App Store Server API is, production and sandbox.
  public var storeAddresses: (production: AppStoreAddress, sandbox: AppStoreAddress)
  /// The App Store Connect key; `nil` where there is none.
  public var storeCredentials: AppStoreCredentials?
  /// The keys of entitlement tokens, the one that signs first; `nil` where they are in the database.
  var entitlementKeys: [EntitlementKey]?
  /// The bearer token of the support API; `nil` where that is off.
  public var supportToken: String?
  /// Requests a second of one address or user; `nil` for no limit.
  public var rateLimit: Int?
  /// Whose word on who asks is believed, and in which field.
  public var trustedProxies: TrustedProxies
  /// How long to go on serving after the process was told to stop and says that it is not ready: what a load balancer
  /// needs to notice.
  public var drainDelay: Duration
  /// How long what grows for ever is kept.
  public var retention: Retention
  /// Logs.
  public var logLevel: Logger.Level
  /// `true` for JSON, `false` for text, `nil` to choose by whether it is a terminal.
  public var logsAsJSON: Bool?
  /// All of it, for shared secrets that the apps' configuration names.
  public var environment: [String: String]

  /// Reads the environment.
  /// - Throws: a problem that names the setting. No value of a secret is ever in it.
  public init(environment: [String: String]) throws(ConfigurationProblem) {
    let reader = EnvironmentReader(environment)
    self.environment = environment
    let uri = try reader.required("DATABASE_URL")
    do throws(PostgresError) {
      database = try PostgresConfiguration(uri: uri, applicationName: "receiptd")
    } catch {
      throw ConfigurationProblem("DATABASE_URL", "\(error)")
    }
    // The App Store wants its answer within about a second and gives up after a few; a database that
    // hangs must be reported as away before that, not after.
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
