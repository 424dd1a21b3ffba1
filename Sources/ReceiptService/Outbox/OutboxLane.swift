import Subscriptions

/// One place that customers' states are written to: its rows of the outbox wait for nobody else's.
struct OutboxLane: Sendable, Hashable {
  /// The words in the column `destination`.
  enum Destination: String, Sendable {
    case cloudkit, webhook
  }

  var destination: Destination
  /// The app.
  var bundleID: String
  /// Of several places of one kind, which; see ``WebhookEndpoint/name``.
  var endpoint = ""
}

extension App {
  /// The places that this app's configuration names.
  ///
  /// A container whose key is still missing is one of them: what is to go there waits, a row for each customer, and
  /// goes when the key is there.
  var outboxLanes: [OutboxLane] {
    var lanes = webhooks.map {
      OutboxLane(destination: .webhook, bundleID: bundleID, endpoint: $0.name)
    }
    if writeTo.contains(.cloudkit) {
      lanes.append(OutboxLane(destination: .cloudkit, bundleID: bundleID))
    }
    return lanes
  }
}
