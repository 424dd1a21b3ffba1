import Subscriptions

/// A destination of customers' states: a CloudKit container or a webhook of one app.
struct OutboxDestination: Sendable, Hashable {
  /// The values of the column `destination`.
  enum Kind: String, Sendable {
    case cloudkit, webhook
  }

  var kind: Kind
  /// The app.
  var bundleID: String
  /// ``WebhookEndpoint/name``; empty for CloudKit.
  var endpoint = ""
}

extension App {
  /// The destinations of this app's configuration.
  ///
  /// A container without a key is one of them: its rows wait, one for each customer, until the key is configured.
  var outboxDestinations: [OutboxDestination] {
    var destinations = webhooks.map {
      OutboxDestination(kind: .webhook, bundleID: bundleID, endpoint: $0.name)
    }
    if writeTo.contains(.cloudkit) {
      destinations.append(OutboxDestination(kind: .cloudkit, bundleID: bundleID))
    }
    return destinations
  }
}
