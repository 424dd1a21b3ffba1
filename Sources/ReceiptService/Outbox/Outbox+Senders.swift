import Curl
import FoundationEssentials
import Logging
import Subscriptions

/// The clients that carry what is written elsewhere: not those that ask the store, which must not wait for others'
/// servers.
struct OutboxClients: Sendable {
  /// For CloudKit, and for endpoints that may be in a private network.
  let open: CurlClient
  /// For all other endpoints.
  let publicOnly: CurlClient

  init(_ catalog: AppCatalog) {
    // Every lane can have all its requests hanging without another one waiting.
    let lanes = catalog.apps.reduce(0) { $0 + $1.outboxLanes.count }
    var configuration = CurlConfiguration(userAgent: "receiptd")
    configuration.maximumInFlight = max(1, lanes) * WebhookSender.concurrency
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
  /// The way to each place that the configuration names, but for containers without a key.
  func outboxSenders(
    environment: [String: String], clients: OutboxClients, clock: ServiceClock, logger: Logger
  ) throws(ConfigurationProblem) -> [OutboxLane: any OutboxSender] {
    var senders: [OutboxLane: any OutboxSender] = [:]
    for app in apps {
      for endpoint in app.webhooks {
        let lane = OutboxLane(
          destination: .webhook, bundleID: app.bundleID, endpoint: endpoint.name)
        senders[lane] = try WebhookSender(
          endpoint, environment: environment,
          client: endpoint.allowsPrivateAddresses ? clients.open : clients.publicOnly, clock: clock)
      }
      guard app.writeTo.contains(.cloudkit) else { continue }
      guard let container = app.cloudKit else {
        logger.warning(
          "an app's writeTo has cloudkit, but there is no key: what is to go there waits",
          metadata: ["bundleID": "\(app.bundleID)", "missing": "cloudkit"])
        continue
      }
      senders[OutboxLane(destination: .cloudkit, bundleID: app.bundleID)] = try CloudKitSender(
        container, subject: "cloudkit of \(app.bundleID)", client: clients.open, clock: clock)
    }
    return senders
  }
}
