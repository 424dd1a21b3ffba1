import Configuration
import Curl
import Foundation
import Logging
import Subscriptions
import Work

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
