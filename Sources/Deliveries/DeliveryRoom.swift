import AppStore
import Authentication
import Configuration
import Customers
import HTTP
import HTTPTypes
import Ledger
import Logging
import Postgres
import Requests
import Work

/// Deliveries to CloudKit and webhooks, events that time causes, consents, and calls that change something at the App
/// Store.
package struct DeliveryRoom: Room {
  package let outbox: Outbox
  let storeCalls: StoreCallQueue
  let eventSweep: EventSweep
  let clients: OutboxClients
  private let consents: ConsentIntake

  /// - Parameters:
  ///   - apis: the App Store Server API of each app that has a key, by bundle id, for jobs.
  ///   - environment: has the keys of the destinations.
  ///   - destinationLogger: gets the warnings about destinations.
  /// - Throws: ``ConfigurationProblem`` for a destination whose key cannot be used.
  package init(
    catalog: AppCatalog, ledger: LedgerWriter, apis: [String: AppStoreServerAPI],
    authenticator: Authenticator, deviceAuthenticator: DeviceAuthenticator,
    transactions: CustomerTransactions, rateLimits: ClientRateLimits, environment: [String: String],
    clockCorrection: ClockCorrection, destinationLogger: Logger, metrics: DeliveryMetrics, _ work: WorkContext
  ) throws(ConfigurationProblem) {
    let (pool, clock, logger) = (work.pool, work.clock, work.logger)
    clients = OutboxClients(catalog)
    let senders = try catalog.outboxSenders(
      environment: environment, clients: clients, clock: clock, logger: destinationLogger)
    outbox = Outbox(catalog: catalog, senders: senders, metrics: metrics, work)
    storeCalls = StoreCallQueue(catalog: catalog, apis: apis, metrics: metrics, work)
    eventSweep = EventSweep(
      pool: pool, ledger: ledger, catalog: catalog, clock: clock, logger: logger,
      clockCorrection: clockCorrection)
    consents = ConsentIntake(
      apps: AppOfRequest(catalog: catalog), authenticator: authenticator,
      deviceAuthenticator: deviceAuthenticator, transactions: transactions, rateLimits: rateLimits,
      clock: clock)
  }

  package func addRoutes(to router: inout Router) {
    router.on(.post, "/api/v1/consent", maximumBodyLength: 16 << 10, consents.respond(to:))
  }

  package var jobs: [BackgroundJob] { [eventSweep.job, storeCalls.job] }

  /// Closes the connections to the destinations.
  package func shutDown() async { await clients.shutDown() }
}
