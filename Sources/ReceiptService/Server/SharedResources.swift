import Authentication
import Configuration
import Curl
import Customers
import HTTP
import Ledger
import Logging
import Postgres
import Requests
import Support
import Synchronization
import Work

/// The resources that outlive a reload: connections, rate limits, metrics, and whether the process is stopping.
final class SharedResources: Sendable {
  let settings: Settings
  let pool: PostgresPool
  let customerTransactions: CustomerTransactions
  let dayCharges: DayCharges
  let supportPlaces: SupportPlaces
  let migrator: Migrator
  /// The client for the App Store and the issuers of tokens.
  let client: CurlClient
  let rateLimits: ClientRateLimits
  /// Kept over a reload with the attempts that are not written yet.
  let refusedAttempts: RefusedAttemptLog
  /// Kept over a reload with the users that are not written yet.
  let seenUsers: SeenUsers
  let logKey = LogKey()
  let metrics: ServiceMetrics
  /// Signs entitlements.
  let signer: EntitlementSigner
  /// Kept over a reload, because freeing and allocating its 2 MB fragments the heap.
  let recentNotifications = RecentNotifications()
  /// Kept over a reload: it is of the process.
  let heartbeat: Heartbeat
  let clockCorrection: ClockCorrection
  /// The corrected clock.
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
    customerTransactions = CustomerTransactions(pool: pool)
    dayCharges = DayCharges(pool: pool)
    supportPlaces = SupportPlaces(pool: pool)
    migrator = Migrator(pool: pool, folder: settings.migrationsFolder, logger: logger)
    client = CurlClient(configuration: CurlConfiguration(userAgent: "receiptd"))
    signer = EntitlementSigner(
      settings.entitlementKeys.map { EntitlementKeyRing(files: $0.map { EntitlementKey($0) }) })
    rateLimits = ClientRateLimits(perSecond: settings.rateLimit, clock: self.clock, logger: logger)
    refusedAttempts = RefusedAttemptLog(
      pool: pool, clock: self.clock, logger: logger, metrics: metrics.refusedAttempts)
    seenUsers = SeenUsers(pool: pool, clock: self.clock)
    heartbeat = Heartbeat(port: settings.port, metrics: metrics, pool: pool, clock: self.clock)
  }

  /// Whether load balancers should send no more requests.
  var isDraining: Bool { draining.load(ordering: .relaxed) }

  func drain() { draining.store(true, ordering: .relaxed) }

  func close() async {
    // A failure loses the refused requests and the seen users of the last two seconds.
    try? await refusedAttempts.flush()
    try? await seenUsers.flush()
    // Otherwise the row is of a server that died.
    try? await heartbeat.stop()
    await client.shutDown()
    await pool.close()
  }
}
