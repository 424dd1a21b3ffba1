import AppStore
import Curl
import FoundationEssentials
import HTTP
import Logging
import Postgres
import Subscriptions

/// The product: everything between a request and the database, put together for one configuration of the apps.
///
/// It never changes. A reload makes another one beside it, on the same ``Facilities``, and lets that one answer; what
/// is under way ends with the one that it began with.
public final class Service: Sendable {
  let validation: Validation
  let notifications: NotificationIntake
  let profiles: ProfileSync
  let trials: TrialStart
  let devices: DeviceEntitlements
  let pairing: Pairing
  let events: EventIntake
  let numbers: Numbers
  let numbersJob: NumbersJob
  let monthsJob: MonthsJob
  let readiness: Readiness
  let configuredApps: ConfiguredApps
  let sweep: ExpirySweep
  let profileRetry: ProfileRetry
  let outbox: Outbox
  let replay: Replay
  let reconciliation: Reconciliation
  let reconcileJob: ReconcileJob
  let grandfathering: Grandfathering
  /// `nil` where the keys are files.
  let entitlementKeyRefresh: EntitlementKeyRefresh?
  let supportToken: String?
  let figures: DatabaseFigures
  /// What support can do for a customer.
  public let support: SupportDesk
  let facilities: Facilities
  private let authenticator: Authenticator
  private let outboxClients: OutboxClients

  /// Reads the files that the settings name and puts the service together. Connects to nothing yet.
  /// - Throws: ``ConfigurationProblem``
  public convenience init(
    settings: Settings, clock: ServiceClock = .system, logger: Logger
  ) async throws(ConfigurationProblem) {
    try await self.init(
      Facilities(settings: settings, clock: clock, logger: logger), after: nil)
  }

  /// Reads the same files again, and puts a service together that takes this one's place.
  /// - Throws: ``ConfigurationProblem``; this one is as it was.
  public func reloaded() async throws(ConfigurationProblem) -> Service {
    try await Service(facilities, after: self)
  }

  private init(
    _ facilities: Facilities, after former: Service?
  ) async throws(ConfigurationProblem) {
    let settings = facilities.settings
    let (pool, client, traffic) = (facilities.pool, facilities.client, facilities.traffic)
    let (signer, clock, logger) = (facilities.signer, facilities.clock, facilities.logger)
    let catalog = try AppCatalog(contentsOf: settings.configurationFile)
    try catalog.checkSecrets(in: settings.environment, logger)
    settings.checkSupportToken(logger)
    let metrics = facilities.metrics
    metrics.ledger.expect(catalog.apps.map(\.bundleID))
    metrics.outcomes.expect(catalog.apps)
    let roots = try TrustedRoots(settings)
    metrics.show(roots)
    let verifier = SignedDataVerifier(roots: roots, onOutcome: metrics.verifications.record)
    let authenticator = await Authenticator(
      catalog: catalog, environment: settings.environment, client: client, clock: clock, logger: logger,
      metrics: metrics, after: former?.authenticator)
    let ledger = LedgerWriter(
      pool: pool, recentNotifications: facilities.recentNotifications, catalog: catalog, clock: clock,
      logger: logger, metrics: metrics)
    let proofs = ProofVerifier(verifier: verifier, catalog: catalog)
    let deviceAuthenticator = DeviceAuthenticator(pool: pool, clock: clock)
    let apis = try Self.storeAPIs(settings, catalog, client, clock, metrics)
    metrics.store.watch(apis)
    let store = StoreLookup(apis: apis, verifier: verifier, logger: logger)

    entitlementKeyRefresh =
      settings.entitlementKeys == nil
      ? EntitlementKeyRefresh(
        store: EntitlementKeyStore(pool: pool, clock: clock), signer: signer,
        lifetime: catalog.apps.map(EntitlementClaims.lifetime).max() ?? 0, clock: clock, logger: logger)
      : nil
    validation = Validation(
      proofs: proofs, store: store, authenticator: authenticator,
      deviceAuthenticator: deviceAuthenticator, ledger: ledger, catalog: catalog, pool: pool,
      signer: signer, traffic: traffic, clock: clock, metrics: metrics)
    notifications = NotificationIntake(
      verifier: verifier, ledger: ledger, catalog: catalog, traffic: traffic, clock: clock, logger: logger,
      metrics: metrics)
    support = SupportDesk(catalog: catalog, pool: pool, ledger: ledger, clock: clock, logger: logger)
    grandfathering = Grandfathering(
      catalog: catalog, pool: pool, followUp: support.followUp, clock: clock)
    profiles = ProfileSync(
      proofs: proofs, authenticator: authenticator, ledger: ledger, pool: pool,
      grandfathering: grandfathering, signer: signer, traffic: traffic, clock: clock, metrics: metrics)
    trials = TrialStart(
      proofs: proofs, catalog: catalog, pool: pool, authenticator: deviceAuthenticator, signer: signer,
      clock: clock, metrics: metrics)
    devices = DeviceEntitlements(
      catalog: catalog, pool: pool, authenticator: deviceAuthenticator, signer: signer, clock: clock)
    pairing = Pairing(catalog: catalog, pool: pool, authenticator: deviceAuthenticator, clock: clock)
    events = EventIntake(
      catalog: catalog, authenticator: authenticator, pool: pool, traffic: traffic, clock: clock,
      metrics: metrics)
    numbers = Numbers(catalog: catalog, pool: pool, clock: clock)
    numbersJob = NumbersJob(numbers: numbers, logger: logger)
    monthsJob = MonthsJob(pool: pool, retention: settings.retention, logger: logger, metrics: metrics)
    readiness = Readiness(facilities: facilities)
    profileRetry = ProfileRetry(
      pool: pool, catalog: catalog, clock: clock, logger: logger, metrics: metrics)
    let outboxClients = OutboxClients(catalog)
    let senders = try catalog.outboxSenders(
      environment: settings.environment, clients: outboxClients, clock: clock, logger: logger)
    outbox = Outbox(
      pool: pool, catalog: catalog, senders: senders, clock: clock, logger: logger, metrics: metrics)
    configuredApps = ConfiguredApps(catalog: catalog, pool: pool, clock: clock, logger: logger)
    sweep = ExpirySweep(
      pool: pool, ledger: ledger, catalog: catalog, clock: clock, logger: logger,
      grants: GrantSweep(pool: pool, catalog: catalog, followUp: support.followUp, clock: clock),
      freeAccess: FreeAccessSweep(pool: pool, catalog: catalog, clock: clock), metrics: metrics,
      clockCorrection: facilities.clockCorrection)
    replay = Replay(pool: pool, intake: notifications, ledger: ledger, logger: logger)
    reconciliation = Reconciliation(
      // Nobody waits for it, and it wants to know what is so now.
      apis: apis.mapValues { $0.with(patience: .seconds(60), maximumAge: .zero) }, catalog: catalog,
      pool: pool,
      missed: MissedNotifications(intake: notifications, ledger: ledger, logger: logger),
      overdue: OverdueRenewals(
        pool: pool, verifier: verifier, ledger: ledger, clock: clock, logger: logger),
      clock: clock, logger: logger)
    reconcileJob = ReconcileJob(
      reconciliation: reconciliation, pool: pool, clock: clock, logger: logger, metrics: metrics)
    figures = DatabaseFigures(
      pool: pool, apps: catalog.apps.map(\.bundleID), clock: clock, logger: logger,
      meters: DatabaseFigures.Meters(metrics.registry))
    supportToken = settings.supportToken
    self.facilities = facilities
    self.authenticator = authenticator
    self.outboxClients = outboxClients
    await authenticator.takeOver(from: former?.authenticator)
  }

  /// The App Store Server API of each app that has a key, its own or the settings'.
  private static func storeAPIs(
    _ settings: Settings, _ catalog: AppCatalog, _ client: CurlClient, _ clock: ServiceClock,
    _ metrics: ServiceMetrics
  ) throws(ConfigurationProblem) -> [String: AppStoreServerAPI] {
    var apis: [String: AppStoreServerAPI] = [:]
    var storeClock = StoreClock.system
    storeClock.answerDate = clock.now
    for app in catalog.apps {
      var credentials = settings.storeCredentials
      if let key = app.storeKey {
        credentials = try AppStoreCredentials(
          file: key.file, keyID: key.keyID, issuerID: key.issuerID,
          setting: "\(settings.configurationFile): appStore of \(app.bundleID)")
      }
      guard let credentials else { continue }
      apis[app.bundleID] = AppStoreServerAPI(
        transport: CurlTransport(client: client), credentials: credentials, bundleID: app.bundleID,
        production: settings.storeAddresses.production, sandbox: settings.storeAddresses.sandbox,
        timeout: .seconds(5), clock: storeClock, onCall: metrics.store.record)
    }
    return apis
  }

  /// Where everything is kept.
  public var pool: PostgresPool { facilities.pool }
  /// Applies the migrations.
  public var migrator: Migrator { facilities.migrator }
  var clock: ServiceClock { facilities.clock }
  var logger: Logger { facilities.logger }
  var traffic: TrafficLimits { facilities.traffic }
  /// What it measures of itself.
  public var metrics: ServiceMetrics { facilities.metrics }
  var signer: EntitlementSigner { facilities.signer }

  /// What has to be done without anybody asking, again and again, until the task is cancelled.
  public func runJobs() async {
    await withTaskGroup { group in
      group.addTask { await self.sweep.runForever() }
      group.addTask { await self.profileRetry.runForever() }
      group.addTask { await self.outbox.runForever() }
      group.addTask { await self.reconcileJob.runForever() }
      group.addTask { await self.numbersJob.runForever() }
      group.addTask {
        // Which notifications are of foreign apps is told by what stands there.
        await self.noteConfiguration()
        await self.monthsJob.runForever()
      }
      group.addTask { await self.replayForever() }
      group.addTask { await self.entitlementKeyRefresh?.runForever() }
      group.addTask { await self.readFiguresForever() }
      group.addTask { await self.authenticator.retryForever() }
    }
  }

  /// From now on says that it is not ready, so that nobody sends more work.
  public func drain() { facilities.drain() }

  /// Ends what is its own after another one has taken its place; its jobs have ended.
  public func retire() async { await outboxClients.shutDown() }

  /// Ends what is under way with the database and the store.
  public func close() async {
    await retire()
    await facilities.close()
  }
}

extension Settings {
  /// A support token that can be guessed is said at every start; ``Doctor`` fails for it.
  func checkSupportToken(_ logger: Logger) {
    guard let supportToken, supportToken.count < Doctor.lengthOfSupportToken else { return }
    logger.warning(
      "the support token is short: whoever guesses it may do all that support may",
      metadata: ["setting": "SUPPORT_TOKEN", "characters-advised": "\(Doctor.lengthOfSupportToken)"])
  }
}

extension AppCatalog {
  /// A shared secret that is named but not set leaves an app whose tokens nobody can check, unless it
  /// has public keys too. One that is short can be guessed from any token, which its owner should know.
  fileprivate func checkSecrets(
    in environment: [String: String], _ logger: Logger
  ) throws(ConfigurationProblem) {
    for app in apps {
      guard let auth = app.auth, let name = auth.secretEnvironmentVariable else { continue }
      if let secret = auth.secret(in: environment) {
        guard secret.utf8.count < TokenIssuer.advisedSecretLength else { continue }
        logger.warning(
          "a shared secret is short: whoever has a token can guess it and sign as anybody",
          metadata: ["setting": "\(name)", "bytes-advised": "\(TokenIssuer.advisedSecretLength)"])
      } else if auth.jwks == nil {
        throw ConfigurationProblem(name, "is not set; \(app.bundleID) needs it to check its users' tokens")
      }
    }
  }
}
