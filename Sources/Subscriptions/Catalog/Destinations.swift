/// The number of bookmarks that users may keep, for the table `user_preferences`.
public struct BookmarkLimits: Sendable, Hashable {
  /// Without premium.
  public var free: Int
  /// With premium.
  public var premium: Int

  /// Creates the limits.
  public init(free: Int = 2, premium: Int = 999) {
    self.free = free
    self.premium = premium
  }
}

/// An app's CloudKit container, with the server-to-server key for its public database.
public struct CloudKitContainer: Sendable, Hashable {
  /// The environments of a container.
  public enum Environment: String, Sendable, Hashable, CaseIterable {
    /// The environment of builds from Xcode.
    case development
    /// The environment of builds from the App Store and TestFlight.
    case production
  }

  /// The name, such as `iCloud.com.example.app`.
  public var name: String
  /// The environment.
  public var environment: Environment
  /// The id of the key in CloudKit Console.
  public var keyID: String
  /// The path of the key, a P-256 private key in PEM.
  public var keyFile: String
  /// The type of the records.
  public var recordType: String
  /// The base URL that replaces Apple's, for tests.
  public var address: String?

  /// Creates a container; every parameter is described at its property.
  public init(
    name: String, environment: Environment, keyID: String, keyFile: String, recordType: String,
    address: String? = nil
  ) {
    self.name = name
    self.environment = environment
    self.keyID = keyID
    self.keyFile = keyFile
    self.recordType = recordType
    self.address = address
  }
}

/// A webhook for changes of a customer's state and for lifecycle events.
public struct WebhookEndpoint: Sendable, Hashable {
  /// The URL for the events.
  public var url: String
  /// The environment variable with the signing secrets.
  public var secretEnvironmentVariable: String
  /// Whether the server may have a private address.
  public var allowsPrivateAddresses: Bool
  /// The types of the events to send; nil for all.
  public var events: Set<String>?

  /// The type of the event that has a customer's state; ``LifecycleEventType`` has the others.
  package static let stateEvent = "customer.updated"

  /// Creates an endpoint.
  public init(
    url: String, secretEnvironmentVariable: String, allowsPrivateAddresses: Bool = false,
    events: Set<String>? = nil
  ) {
    self.url = url
    self.secretEnvironmentVariable = secretEnvironmentVariable
    self.allowsPrivateAddresses = allowsPrivateAddresses
    self.events = events
  }

  /// Whether events of this type are sent to it.
  public func receives(_ type: String) -> Bool { events?.contains(type) ?? true }

  /// The URL without its query, which may have a secret; for logs.
  public var name: String { String(url.prefix { $0 != "?" }) }
}

/// When customers are reminded that a free period ends.
public struct Reminders: Sendable, Hashable {
  /// How many days before its end a trial is said to end.
  public var trialEndingDays: Int
  /// How many days before its end a grace period is said to end.
  public var graceEndingDays: Int
  /// Whether each day of a grace period has a reminder.
  public var graceDaily: Bool

  /// Creates the settings.
  public init(trialEndingDays: Int = 3, graceEndingDays: Int = 2, graceDaily: Bool = false) {
    self.trialEndingDays = trialEndingDays
    self.graceEndingDays = graceEndingDays
    self.graceDaily = graceDaily
  }
}
