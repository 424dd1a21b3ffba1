import Curl
import FoundationEssentials
import Logging
import Subscriptions

extension AppCatalog {
  /// The way to each place that the configuration names, but for containers without a key.
  ///
  /// - Parameters:
  ///   - client: for CloudKit, and for endpoints that may be in a private network.
  ///   - publicClient: for all other endpoints; refuses private addresses.
  func outboxSenders(
    environment: [String: String], client: CurlClient, publicClient: CurlClient, clock: ServiceClock,
    logger: Logger
  ) throws(ConfigurationProblem) -> [OutboxLane: any OutboxSender] {
    var senders: [OutboxLane: any OutboxSender] = [:]
    for app in apps {
      for endpoint in app.webhooks {
        let lane = OutboxLane(
          destination: .webhook, bundleID: app.bundleID, endpoint: endpoint.name)
        senders[lane] = try WebhookSender(
          endpoint, environment: environment,
          client: endpoint.allowsPrivateAddresses ? client : publicClient, clock: clock)
      }
      guard app.writeTo.contains(.cloudkit) else { continue }
      guard let container = app.cloudKit else {
        logger.warning(
          "an app's writeTo has cloudkit, but there is no key: what is to go there waits",
          metadata: ["bundleID": "\(app.bundleID)", "missing": "cloudkit"])
        continue
      }
      senders[OutboxLane(destination: .cloudkit, bundleID: app.bundleID)] = try CloudKitSender(
        container, subject: "cloudkit of \(app.bundleID)", client: client, clock: clock)
    }
    return senders
  }
}
