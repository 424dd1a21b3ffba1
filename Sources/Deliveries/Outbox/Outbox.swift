import Configuration
import Curl
import Customers
import Foundation
import Ledger
import Logging
import Postgres
import Subscriptions
import Work

/// The outbox: customers' states, lifecycle events and notifications that wait for delivery.
///
/// Each destination has a worker of its own, so that an unreachable one delays no other. Any number of servers may
/// deliver.
package struct Outbox: Sendable {
  let catalog: AppCatalog
  let workers: [DeliveryWorker]
  let work: WorkContext

  var pool: PostgresPool { work.pool }
  var clock: ServiceClock { work.clock }

  init(
    catalog: AppCatalog, senders: [OutboxDestination: any OutboxSender], metrics: DeliveryMetrics,
    _ work: WorkContext
  ) {
    self.catalog = catalog
    self.work = work
    workers = catalog.apps.flatMap { app in
      app.outboxDestinations.compactMap { destination in
        senders[destination].map {
          DeliveryWorker(destination: destination, app: app, sender: $0, metrics: metrics, work: work)
        }
      }
    }
  }

  /// Registers the destinations; the jobs of ``deliveryJobs`` deliver to a destination once it is registered.
  package var registrationJob: BackgroundJob {
    BackgroundJob("outbox registration", every: .seconds(1)) { try await register() }
  }

  /// One job for each destination, so that a slow destination delays no other.
  package var deliveryJobs: [BackgroundJob] {
    workers.map { worker in
      let destination = worker.destination
      let name = [destination.kind.rawValue, destination.bundleID, destination.endpoint].filter {
        !$0.isEmpty
      }
      return BackgroundJob("delivery to \(name.joined(separator: " "))", every: .seconds(1)) {
        while try await worker.runOnce() > 0, !Task.isCancelled {}
      }
    }
  }

  /// Registers the destinations of all apps. A new CloudKit container gets the state of every customer, because it is a
  /// copy; a new webhook gets only later changes. The states of a webhook that receives none any more are deleted.
  func register() async throws {
    for app in catalog.apps {
      for destination in app.outboxDestinations {
        // Before it is registered: after a stop it begins anew.
        if destination.kind == .cloudkit,
          try await pool.query(DestinationRows.isRegistered(destination)).isEmpty
        {
          try await CustomerChanges.enqueueEveryone(of: app, for: destination, at: clock.now(), in: pool)
        }
        _ = try await pool.query(DestinationRows.register(destination, at: clock.now()))
        guard destination.kind == .webhook, !app.receivesStates(destination) else { continue }
        let states = DestinationRows.deleteStates(of: destination, limit: 1_000)
        while try await pool.query(states).affected > 0 {}
      }
    }
  }

  /// Delivers the due rows of all destinations.
  /// - Returns: the number of rows that were due.
  @discardableResult
  package func run() async throws -> Int {
    try await withThrowingTaskGroup(of: Int.self) { group in
      for worker in workers {
        group.addTask {
          var total = 0
          while case let count = try await worker.runOnce(), count > 0 { total += count }
          return total
        }
      }
      return try await group.reduce(0, +)
    }
  }
}

/// The HTTP clients of the outbox. Requests to the App Store have a client of their own, so they do not wait for these.
struct OutboxClients: Sendable {
  /// For CloudKit, and for endpoints that may be in a private network.
  let open: CurlClient
  /// For all other endpoints.
  let publicOnly: CurlClient

  init(_ catalog: AppCatalog) {
    // All requests of a destination may hang without a request of another one waiting.
    let destinations = catalog.apps.reduce(0) { $0 + $1.outboxDestinations.count }
    var configuration = CurlConfiguration(userAgent: "receiptd")
    configuration.maximumInFlight = max(1, destinations) * WebhookSender.concurrency
    configuration.maximumConnectionsPerHost = configuration.maximumInFlight
    open = CurlClient(configuration: configuration)
    configuration.refusesPrivateAddresses = true
    publicOnly = CurlClient(configuration: configuration)
  }

  func shutDown() async {
    await open.shutDown()
    await publicOnly.shutDown()
  }
}

extension AppCatalog {
  /// The sender of each configured destination, except for containers without a key.
  func outboxSenders(
    environment: [String: String], clients: OutboxClients, clock: ServiceClock, logger: Logger
  ) throws(ConfigurationProblem) -> [OutboxDestination: any OutboxSender] {
    var senders: [OutboxDestination: any OutboxSender] = [:]
    for app in apps {
      func add(
        _ endpoint: WebhookEndpoint, for kinds: [OutboxDestination.Kind]
      ) throws(ConfigurationProblem) {
        let sender = try WebhookSender(
          endpoint, environment: environment,
          client: endpoint.allowsPrivateAddresses ? clients.open : clients.publicOnly, clock: clock)
        for kind in kinds {
          senders[OutboxDestination(kind: kind, bundleID: app.bundleID, endpoint: endpoint.name)] = sender
        }
      }
      for endpoint in app.webhooks { try add(endpoint, for: [.webhook, .event]) }
      if let endpoint = app.forwardedNotifications { try add(endpoint, for: [.notification]) }
      guard app.writeTo.contains(.cloudkit) else { continue }
      guard let container = app.cloudKit else {
        logger.warning(
          "an app writes to cloudkit but has no CloudKit key; its deliveries wait",
          metadata: ["bundleID": "\(app.bundleID)", "missing": "cloudkit"])
        continue
      }
      senders[OutboxDestination(kind: .cloudkit, bundleID: app.bundleID)] = try CloudKitSender(
        container, subject: "cloudkit of \(app.bundleID)", client: clients.open, clock: clock)
    }
    return senders
  }
}

/// The queries of support and of retention on rows of the outbox.
package enum OutboxRows {
  /// Deletes events and forwarded notifications that were given up, or that wait, for so long.
  package static func deleteUndelivered(before oldest: Date, limit: Int) -> Query {
    """
    DELETE FROM outbox WHERE id IN (
      SELECT id FROM outbox
      WHERE done_at IS NULL AND created_at < \(oldest) AND destination IN ('event', 'notification')
      ORDER BY created_at LIMIT \(limit))
    """
  }
}
