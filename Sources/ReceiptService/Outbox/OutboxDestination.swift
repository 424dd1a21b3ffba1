import Subscriptions

/// A destination of one app: a CloudKit container or a webhook for customers' states, a webhook for lifecycle events, or the
/// server to which notifications are forwarded.
struct OutboxDestination: Sendable, Hashable {
  /// The values of the column `destination`.
  enum Kind: String, Sendable {
    case cloudkit, webhook
    /// A webhook that receives lifecycle events.
    case event
    /// The server to which the App Store's notifications are forwarded.
    case notification

    /// Whether a delivered row is deleted. The row of a customer's state stays: it says what the destination has.
    var deletesDelivered: Bool { self == .event || self == .notification }
  }

  var kind: Kind
  /// The app.
  var bundleID: String
  /// ``WebhookEndpoint/name``; empty for CloudKit.
  var endpoint = ""
}

extension App {
  /// The destinations of this app's configuration.
  var outboxDestinations: [OutboxDestination] {
    var destinations = erasureDestinations
    for endpoint in eventEndpoints {
      destinations.append(OutboxDestination(kind: .event, bundleID: bundleID, endpoint: endpoint.name))
    }
    if let forwardedNotifications {
      destinations.append(
        OutboxDestination(kind: .notification, bundleID: bundleID, endpoint: forwardedNotifications.name))
    }
    return destinations
  }

  /// The destinations of customers' states.
  ///
  /// A container without a key is one of them: its rows wait, one for each customer, until the key is configured.
  var stateDestinations: [OutboxDestination] { erasureDestinations.filter(receivesStates) }

  /// The destinations that are told of an erasure: those of states, and the webhooks that receive lifecycle events alone,
  /// because events name customers too.
  var erasureDestinations: [OutboxDestination] {
    var destinations = webhooks.map {
      OutboxDestination(kind: .webhook, bundleID: bundleID, endpoint: $0.name)
    }
    if writeTo.contains(.cloudkit) {
      destinations.append(OutboxDestination(kind: .cloudkit, bundleID: bundleID))
    }
    return destinations
  }

  /// Whether a destination receives customers' states.
  func receivesStates(_ destination: OutboxDestination) -> Bool {
    switch destination.kind {
    case .cloudkit: true
    case .webhook:
      webhooks.contains { $0.name == destination.endpoint && $0.receives(WebhookEndpoint.stateEvent) }
    case .event, .notification: false
    }
  }

  /// The webhooks that receive some type of lifecycle event.
  var eventEndpoints: [WebhookEndpoint] {
    webhooks.filter { endpoint in LifecycleEventType.allCases.contains { endpoint.receives($0.rawValue) } }
  }

  /// Whether lifecycle events are written down: no app pays for events that no webhook receives.
  var hasLifecycleEvents: Bool {
    webhooks.contains { endpoint in
      endpoint.events.map { !$0.isSubset(of: [WebhookEndpoint.stateEvent]) } ?? true
    }
  }
}
