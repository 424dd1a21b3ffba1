import Actions
import Adoption
import AppStore
import Authentication
import CBuildInfo
import Configuration
import Curl
import Customers
import Deliveries
import Foundation
import HTTP
import Ledger
import Logging
import Numbers
import Postgres
import Proofs
import Requests
import Subscriptions
import Support
import Work

/// The parts that handle requests and run jobs, built for one configuration of the apps.
///
/// A service is immutable. A reload builds a new service on the same ``SharedResources``, which then gets new requests;
/// running requests end with the former service.
package final class Service: Sendable {
  let catalog: AppCatalog
  /// The app that a request names.
  let apps: AppOfRequest
  let notifications: NotificationIntake
  let replay: Replay
  let customers: CustomerRoom
  let proofs: ProofRoom
  let deliveries: DeliveryRoom
  let numbers: NumberRoom
  /// What live apps claim.
  package let adoption: AdoptionRoom
  /// The actions of support.
  package let support: SupportDesk
  /// The people with a token of their own.
  package let people: People
  let retentionJob: RetentionJob
  let readiness: Readiness
  let configuredApps: ConfiguredApps
  let sweep: ExpirySweep
  let reconciliation: Reconciliation
  let reconcileJob: ReconcileJob
  let supportToken: String?
  let signIn: SupportSignIn
  let databaseGauges: DatabaseGauges
  let businessGauges: BusinessGauges
  let jobRunner: JobRunner
  var rooms: [any Room] { [customers, proofs, deliveries, numbers, adoption, support] }
  /// The first six bytes of the SHA-256 of the configuration file, in hex.
  package var configurationDigest: String { catalog.digest }
  let sharedResources: SharedResources
  private let authenticator: Authenticator

  /// Reads the files of the settings and builds the service. It opens no connection yet.
  /// - Parameter uses: the parts of the configuration whose warnings are logged.
  /// - Throws: ``ConfigurationProblem``
  package convenience init(
    settings: Settings, clock: ServiceClock = .system, logger: Logger,
    warningAbout uses: Set<ConfigurationUse> = ConfigurationUse.all
  ) async throws(ConfigurationProblem) {
    try await self.init(
      SharedResources(settings: settings, clock: clock, logger: logger), after: nil, warningAbout: uses)
  }

  /// Reads the files again and builds the service that replaces this one.
  /// - Throws: ``ConfigurationProblem``. This service stays usable.
  package func reloaded() async throws(ConfigurationProblem) -> Service {
    do {
      return try await Service(sharedResources, after: self, warningAbout: ConfigurationUse.all)
    } catch {
      metrics.configuration.failed()
      throw error
    }
  }

  private init(
    _ sharedResources: SharedResources, after former: Service?, warningAbout uses: Set<ConfigurationUse>
  ) async throws(ConfigurationProblem) {
    let settings = sharedResources.settings
    let (pool, client, rateLimits) = (
      sharedResources.pool, sharedResources.client, sharedResources.rateLimits
    )
    let (signer, clock, logger) = (sharedResources.signer, sharedResources.clock, sharedResources.logger)
    catalog = try AppCatalog(contentsOf: settings.configurationFile)
    let requestWarnings = uses.contains(.requests) ? logger : .silent
    try catalog.checkSecrets(in: settings.environment, requestWarnings)
    settings.checkSupportToken(requestWarnings)
    if former == nil {
      ReplacedVariables(in: settings.environment, catalog: catalog).report(to: requestWarnings)
      for name in MistypedSetting.all(in: settings.environment, catalog: catalog) {
        requestWarnings.warning("\(name)", metadata: ["setting": "\(name.variable)"])
      }
    }
    let metrics = sharedResources.metrics
    metrics.ledger.expect(catalog.apps.map(\.bundleID))
    metrics.outcomes.expect(catalog.apps)
    metrics.events.expect(catalog.apps)
    metrics.deliveries.expect(catalog.apps)
    let roots = try TrustedRoots(settings)
    metrics.show(roots)
    let verifier = SignedDataVerifier(
      roots: roots, xcode: try XcodeCertificates(catalog, settings), onOutcome: metrics.verifications.record)
    let authenticator = await Authenticator(
      catalog: catalog, environment: settings.environment, client: client, clock: clock, logger: logger,
      metrics: metrics.authentication, seenUsers: sharedResources.seenUsers, after: former?.authenticator)
    let ledger = LedgerWriter(
      pool: pool, recentNotifications: sharedResources.recentNotifications, catalog: catalog,
      effects: [LedgerRecord(), DeliveryEffect(catalog: catalog)], clock: clock, logger: logger,
      metrics: metrics.ledger)
    apps = AppOfRequest(catalog: catalog)
    let apis = try Self.storeAPIs(settings, catalog, client, clock, metrics)
    metrics.store.watch(apis)
    // A job can wait longer than a request, and needs current data.
    let patientAPIs = apis.mapValues { $0.with(timeout: .seconds(60), maximumAge: .zero) }

    notifications = NotificationIntake(
      verifier: verifier, ledger: ledger, catalog: catalog, rateLimits: rateLimits, clock: clock,
      logger: logger,
      metrics: metrics.ledger)
    let signedPurchases = SignedPurchases(verifier: verifier, logger: logger)
    let work = WorkContext(pool: pool, clock: clock, logger: logger, metrics: metrics.work)
    support = SupportDesk(
      catalog: catalog, customerTransactions: sharedResources.customerTransactions,
      ledger: ledger,
      // A person waits for the response, and needs current data.
      apis: apis.mapValues { $0.with(timeout: .seconds(15), maximumAge: .zero) }, patientAPIs: patientAPIs,
      signed: signedPurchases, work)
    let statusWriter = CustomerStatusWriter(catalog: catalog, clock: clock, logger: logger)
    customers = CustomerRoom(
      catalog: catalog, transactions: sharedResources.customerTransactions,
      charges: sharedResources.dayCharges, statusWriter: statusWriter, signer: signer,
      keysAreFiles: settings.entitlementKeys != nil, verifier: verifier,
      profileWriteFailures: metrics.ledger.profileWriteFailures, rateLimits: rateLimits, work)
    proofs = ProofRoom(
      verifier: verifier, catalog: catalog, apis: apis, patientAPIs: patientAPIs,
      authenticator: authenticator, deviceAuthenticator: customers.deviceAuthenticator,
      ledger: ledger, grandfathering: customers.grandfathering, signer: signer, rateLimits: rateLimits,
      outcomes: metrics.outcomes, metrics: metrics.ledger, work)
    deliveries = try DeliveryRoom(
      catalog: catalog, ledger: ledger, apis: patientAPIs, authenticator: authenticator,
      deviceAuthenticator: customers.deviceAuthenticator, transactions: sharedResources.customerTransactions,
      rateLimits: rateLimits, environment: settings.environment,
      clockCorrection: sharedResources.clockCorrection,
      destinationLogger: uses.contains(.deliveries) ? logger : .silent, metrics: metrics.deliveries, work)
    numbers = NumberRoom(
      catalog: catalog, pool: pool, authenticator: authenticator, charges: sharedResources.dayCharges,
      rateLimits: rateLimits, clock: clock, metrics: metrics.events)
    retentionJob = RetentionJob(
      pool: pool, catalog: catalog, retention: settings.retention, clock: clock, logger: logger)
    readiness = Readiness(sharedResources: sharedResources)
    adoption = AdoptionRoom(
      catalog: catalog, appsWithKey: Set(apis.keys), proofs: proofs, ledger: ledger,
      logKey: sharedResources.logKey, work)
    configuredApps = ConfiguredApps(
      catalog: catalog, clientWriteModes: adoption.modes, pool: pool, clock: clock, logger: logger)
    sweep = ExpirySweep(
      pool: pool, ledger: ledger, catalog: catalog, clock: clock, logger: logger,
      grants: GrantSweep(pool: pool, catalog: catalog, statusWriter: statusWriter, clock: clock),
      freeAccess: FreeAccessSweep(pool: pool, catalog: catalog, clock: clock, logger: logger),
      clockCorrection: sharedResources.clockCorrection)
    replay = Replay(pool: pool, intake: notifications, ledger: ledger, logger: logger)
    reconciliation = Reconciliation(
      apis: patientAPIs, catalog: catalog, pool: pool,
      missed: MissedNotifications(intake: notifications, ledger: ledger, logger: logger),
      overdue: OverdueRenewals(
        pool: pool, signed: signedPurchases, ledger: ledger, clock: clock, logger: logger),
      clock: clock, logger: logger)
    reconcileJob = ReconcileJob(
      reconciliation: reconciliation, pool: pool, clock: clock, logger: logger, metrics: metrics)
    databaseGauges = DatabaseGauges(
      pool: pool, apps: catalog.apps.map(\.bundleID),
      destinations: catalog.apps.flatMap(\.outboxDestinations), clock: clock,
      meters: metrics.databaseGauges)
    businessGauges = BusinessGauges(
      pool: pool, apps: catalog.apps.map(\.bundleID), clock: clock,
      meters: metrics.businessGauges)
    jobRunner = JobRunner(logger: logger, countRun: metrics.jobs.swept)
    supportToken = settings.supportToken
    people = People(pool: pool, clock: clock)
    signIn = SupportSignIn(token: settings.supportToken, people: people, rateLimits: rateLimits)
    self.sharedResources = sharedResources
    self.authenticator = authenticator
    await authenticator.takeOver(from: former?.authenticator)
    metrics.configuration.loaded(
      configurationDigest, at: clock.now(), insteadOf: former?.configurationDigest)
  }

  /// The App Store Server API of each app that has a key, its own or the settings'.
  private static func storeAPIs(
    _ settings: Settings, _ catalog: AppCatalog, _ client: CurlClient, _ clock: ServiceClock,
    _ metrics: ServiceMetrics
  ) throws(ConfigurationProblem) -> [String: AppStoreServerAPI] {
    var apis: [String: AppStoreServerAPI] = [:]
    var storeClock = StoreClock.system
    storeClock.cacheDate = clock.now
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
        requestTimeout: .seconds(5), clock: storeClock, onCall: metrics.store.record)
    }
    return apis
  }

  /// The connection pool.
  package var pool: PostgresPool { sharedResources.pool }
  /// Applies the migrations.
  package var migrator: Migrator { sharedResources.migrator }
  var clock: ServiceClock { sharedResources.clock }
  var logger: Logger { sharedResources.logger }
  var rateLimits: ClientRateLimits { sharedResources.rateLimits }
  /// The metrics.
  package var metrics: ServiceMetrics { sharedResources.metrics }
  var signer: EntitlementSigner { sharedResources.signer }

  /// Runs the background jobs until the task is cancelled.
  package func runJobs() async {
    let jobs =
      rooms.flatMap(\.jobs) + sweep.jobs + databaseGauges.jobs + [
        configuredApps.windowJob, reconcileJob.job, businessGauges.job, authenticator.job,
        sharedResources.refusedAttempts.job, sharedResources.seenUsers.job,
        sharedResources.heartbeat.job(configuration: configurationDigest),
      ]
    await withTaskGroup { group in
      group.addTask { await self.jobRunner.run(jobs) }
      group.addTask { await self.jobRunner.runUntilSuccess(self.sharedResources.logKey.job(self.pool)) }
      group.addTask {
        await self.jobRunner.runUntilSuccess(self.deliveries.outbox.registrationJob)
        await self.jobRunner.run(self.deliveries.outbox.deliveryJobs)
      }
      group.addTask {
        // Retention deletes notifications of apps that are not in `configured_apps`.
        await self.writeConfiguredApps()
        await self.jobRunner.run(self.retentionJob.job)
      }
      group.addTask {
        await self.replayWaiting()
        await self.jobRunner.run(self.replayJob(only: .failed), waitsFirst: true)
      }
    }
  }

  /// Makes `/readyz` answer 503, so that load balancers stop sending requests.
  package func drain() { sharedResources.drain() }

  /// Closes the resources that are not shared, after another service has replaced this one and its jobs have ended.
  package func retire() async { await deliveries.shutDown() }

  /// Closes all connections to the database and other servers.
  package func close() async {
    await retire()
    await sharedResources.close()
  }
}

extension Settings {
  /// Warns of a support token that can be guessed; ``Doctor`` fails for it.
  func checkSupportToken(_ logger: Logger) {
    guard let supportToken, supportToken.count < Doctor.lengthOfSupportToken else { return }
    logger.warning(
      "SUPPORT_TOKEN is short: an attacker who guesses it has all rights of support",
      metadata: ["setting": "SUPPORT_TOKEN", "characters-advised": "\(Doctor.lengthOfSupportToken)"])
  }
}

extension AppCatalog {
  /// Checks the shared secrets. Without its secret and without public keys, an app's tokens cannot be verified. A short
  /// secret can be guessed from any token, so it gets a warning.
  fileprivate func checkSecrets(
    in environment: [String: String], _ logger: Logger
  ) throws(ConfigurationProblem) {
    for app in apps {
      guard let auth = app.auth else { continue }
      for name in auth.variablesOfShortSecrets(in: environment) {
        logger.warning(
          "a shared secret is short: a client can guess it from its token and sign tokens of other users",
          metadata: ["setting": "\(name)", "bytes-advised": "\(TokenIssuer.advisedSecretLength)"])
      }
      if auth.jwks == nil, let name = auth.unsetVariables(in: environment).first {
        throw ConfigurationProblem(name, "is not set; \(app.bundleID) needs it to check its users' tokens")
      }
    }
  }
}

/// A part of the configuration that a command may use. A command logs warnings only about the parts that it uses.
package enum ConfigurationUse: Sendable, Hashable, CaseIterable {
  /// The tokens and secrets of requests, and variables that no part of receiptd reads.
  case requests
  /// Destinations of deliveries.
  case deliveries

  /// All parts, for the server.
  package static let all = Set(allCases)
}

extension Logger {
  /// A logger that discards all lines.
  static var silent: Logger { Logger(label: "receiptd") { _ in SwiftLogNoOpLogHandler() } }
}

/// The build, as `receiptd --version` and the metric `receiptd_build_info` show it.
package struct BuildInfo: Sendable, Hashable {
  /// The version, as in `CHANGELOG.md`; `-dev` follows where the builder named no commit.
  package let version: String
  /// The first digits of the commit; a `+` follows where the tree had changes. `unknown` where the builder named none.
  package let commit: String
  /// The text of `receiptd --version`.
  package let text: String

  /// - Parameter commit: the commit that the builder named, or an empty string.
  package init(release: String, commit: String) {
    let isNamed = !commit.isEmpty
    version = isNamed ? release : release + "-dev"
    self.commit = isNamed ? commit : "unknown"
    text = "receiptd \(version)" + (isNamed ? " (\(commit))" : "")
  }

  /// This build. A release changes the number here and in `CHANGELOG.md`; scripts/package takes it from the program.
  package static let current = BuildInfo(release: "0.1.0", commit: String(cString: receiptd_build_commit()))
}
