/// An app's container in CloudKit, and the server-to-server key that may write to its public database.
public struct CloudKitContainer: Sendable, Hashable {
  /// Which of a container's two databases.
  public enum Environment: String, Sendable, Hashable, CaseIterable {
    /// The one that Xcode's builds use.
    case development
    /// The one that the App Store's and TestFlight's builds use.
    case production
  }

  /// Its name: `iCloud.` and the rest.
  public var name: String
  /// Which of its databases.
  public var environment: Environment
  /// The id that CloudKit Console gave the key.
  public var keyID: String
  /// The path of the key: a P-256 private key in PEM.
  public var keyFile: String
  /// The record type that is written.
  public var recordType: String
  /// The base address in place of Apple's.
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

/// A server that wants to know when a customer's state changes.
public struct WebhookEndpoint: Sendable, Hashable {
  /// Where events are posted.
  public var url: String
  /// The environment variable with the secrets that sign them.
  public var secretEnvironmentVariable: String
  /// Whether it may be in a private network; else only public addresses are called.
  public var allowsPrivateAddresses: Bool

  /// Creates an endpoint.
  public init(url: String, secretEnvironmentVariable: String, allowsPrivateAddresses: Bool = false) {
    self.url = url
    self.secretEnvironmentVariable = secretEnvironmentVariable
    self.allowsPrivateAddresses = allowsPrivateAddresses
  }

  /// What it is called where people read: a query may hold what only the two servers should know.
  public var name: String { String(url.prefix { $0 != "?" }) }
}
