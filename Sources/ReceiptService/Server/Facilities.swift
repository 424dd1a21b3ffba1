import Curl
import HTTP
import Logging
import Postgres
import Synchronization

/// What lives as long as the process, whatever is reloaded: connections, limits, and whether it is about to stop.
final class Facilities: Sendable {
  let settings: Settings
  let pool: PostgresPool
  let migrator: Migrator
  /// Asks the App Store and the issuers of tokens.
  let client: CurlClient
  let traffic: TrafficLimits
  let metrics: ServiceMetrics
  /// Signs entitlements, with the same keys after a reload as before it.
  let signer: EntitlementSigner
  /// The same after a reload: 2 MB that are given back and taken anew leave holes.
  let recentNotifications = RecentNotifications()
  let clockCorrection: ClockCorrection
  /// The corrected one.
  let clock: ServiceClock
  let logger: Logger
  private let draining = Atomic(false)

  init(settings: Settings, clock: ServiceClock, logger: Logger) {
    self.settings = settings
    clockCorrection = ClockCorrection(of: clock)
    self.clock = clockCorrection.clock
    self.logger = logger
    metrics = ServiceMetrics()
    pool = PostgresPool(configuration: settings.database, logger: logger, observer: metrics.database)
    metrics.database.watch(pool)
    migrator = Migrator(pool: pool, folder: settings.migrationsFolder)
    client = CurlClient(configuration: CurlConfiguration(userAgent: "receiptd"))
    signer = EntitlementSigner(settings.entitlementKeys.map { EntitlementKeyRing(files: $0) })
    traffic = TrafficLimits(perSecond: settings.rateLimit, clock: self.clock, logger: logger)
  }

  /// Whether no new work should be sent here.
  var isDraining: Bool { draining.load(ordering: .relaxed) }

  func drain() { draining.store(true, ordering: .relaxed) }

  func close() async {
    await client.shutDown()
    await pool.close()
  }
}
