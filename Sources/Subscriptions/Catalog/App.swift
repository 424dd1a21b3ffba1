import FoundationEssentials

/// One app as its configuration describes it: what it sells, to whom, and what that opens.
///
/// It never changes, and everything that is served hands it on, so it is one object that all refer to.
public final class App: Sendable {
  /// Apple's bundle identifier.
  public let bundleID: String
  /// Apple's numeric identifier of the app; production notifications carry it.
  public let appAppleID: Int64?
  /// The name for people.
  public let name: String
  /// The environments whose signed data is accepted.
  public let environments: Set<StoreEnvironment>
  /// Whose sandbox purchases open anything.
  public let sandboxGrants: SandboxGrants
  /// What a customer of this app is.
  public let customer: CustomerKind
  /// What happens when a second customer proves a purchase.
  public let transferPolicy: TransferPolicy
  /// How many devices may have one purchase at once, where customers are devices: a phone and its watch, say.
  public let devicesPerPurchase: Int
  /// By their canonical name.
  public let products: [String: Product]
  /// By their name.
  public let tiers: [String: Tier]
  /// What everybody may do.
  public let free: Features
  /// The app's own free time, if it has one.
  public let trial: Allowance?
  /// The app's own time after the end, if it has one.
  public let grace: Allowance?
  /// What those get for good who had the app before a date, if there is such a rule.
  public let grandfather: Grandfather?
  /// For how many days after the last answer a client without network may go on.
  public let offlineGraceDays: Int
  /// How many bytes of clients' events are kept of one day.
  public let eventBytesPerDay: Int
  /// Who signs the tokens of its users.
  public let auth: TokenIssuer?
  /// Where the status is written besides `subscriptions`.
  public let writeTo: Set<Mirror>
  /// A key of its own for the App Store Server API; the settings' key where it has none.
  public let storeKey: StoreKey?
  /// Its CloudKit container; needed where `writeTo` has `cloudkit`.
  public let cloudKit: CloudKitContainer?
  /// Servers that are told when a customer's state changes.
  public let webhooks: [WebhookEndpoint]

  /// 32 MiB: some 100,000 events.
  public static let defaultEventBytesPerDay = 32 << 20

  /// Every name of a product, old ones included, to its canonical one.
  private let canonicalNames: [String: String]

  /// Creates an app; every parameter is described at its property.
  public init(
    bundleID: String, appAppleID: Int64? = nil, name: String,
    environments: Set<StoreEnvironment> = [.production, .sandbox],
    sandboxGrants: SandboxGrants = .nobody, customer: CustomerKind,
    transferPolicy: TransferPolicy = .keep, devicesPerPurchase: Int = 1, products: [Product],
    tiers: [Tier],
    free: Features = [:], trial: Allowance? = nil, grace: Allowance? = nil,
    grandfather: Grandfather? = nil, offlineGraceDays: Int = 7,
    eventBytesPerDay: Int = App.defaultEventBytesPerDay, auth: TokenIssuer? = nil,
    writeTo: Set<Mirror> = [], storeKey: StoreKey? = nil, cloudKit: CloudKitContainer? = nil,
    webhooks: [WebhookEndpoint] = []
  ) {
    self.bundleID = bundleID
    self.appAppleID = appAppleID
    self.name = name
    self.environments = environments
    self.sandboxGrants = sandboxGrants
    self.customer = customer
    self.transferPolicy = transferPolicy
    self.devicesPerPurchase = devicesPerPurchase
    self.products = Dictionary(products.map { ($0.id, $0) }, uniquingKeysWith: { first, _ in first })
    self.tiers = Dictionary(tiers.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
    self.free = free
    self.trial = trial
    self.grace = grace
    self.grandfather = grandfather
    self.offlineGraceDays = offlineGraceDays
    self.eventBytesPerDay = eventBytesPerDay
    self.auth = auth
    self.writeTo = writeTo
    self.storeKey = storeKey
    self.cloudKit = cloudKit
    self.webhooks = webhooks
    var canonicalNames: [String: String] = [:]
    for product in products {
      for name in [product.id] + product.aliases { canonicalNames[name] = product.id }
    }
    self.canonicalNames = canonicalNames
  }

  /// Whether several customers can have one purchase.
  public var sharesPurchases: Bool { customer == .device && devicesPerPurchase > 1 }

  /// The product that goes by this name, its canonical one or an alias.
  public func product(named name: String) -> Product? {
    canonicalNames[name].flatMap { products[$0] }
  }

  /// The canonical name of a product, or `nil` where the catalog does not know it.
  public func canonicalProductID(_ name: String) -> String? { canonicalNames[name] }
}

/// What a customer of an app is.
public enum CustomerKind: String, Sendable, Hashable, CaseIterable {
  /// A signed-in user, named by the `sub` of a token.
  case user
  /// A device, named by itself.
  case device
}

/// What happens when another customer proves a purchase that is already somebody's.
public enum TransferPolicy: String, Sendable, Hashable, CaseIterable {
  /// It stays where it is; the other is refused.
  case keep
  /// It goes to whoever proved it last.
  case transfer
  /// It goes to the other only while it opens nothing for its owner.
  case transferWhenInactive
}

/// Whose sandbox purchases open anything.
public enum SandboxGrants: Sendable, Hashable {
  /// Nobody's.
  case nobody
  /// Everybody's, for a staging server.
  case everyone
  /// Those of these users and devices.
  case testers(Set<String>)

  /// Whether a sandbox purchase opens anything for this customer.
  public func include(_ customer: Customer?) -> Bool {
    switch self {
    case .nobody: false
    case .everyone: true
    case .testers(let ids):
      customer.map { customer in
        ids.contains { $0.caseInsensitiveEquals(customer.id) }
      } ?? false
    }
  }
}

/// Who signs the access tokens of an app's users.
public struct TokenIssuer: Sendable, Hashable {
  /// Where the public keys are (RFC 7517).
  public var jwks: String?
  /// The `iss` that a token must carry.
  public var issuer: String?
  /// The `aud` that a token must carry.
  public var audience: String?
  /// The environment variable that holds a shared HS256 secret.
  public var secretEnvironmentVariable: String?

  /// Creates an issuer.
  public init(
    jwks: String? = nil, issuer: String? = nil, audience: String? = nil,
    secretEnvironmentVariable: String? = nil
  ) {
    self.jwks = jwks
    self.issuer = issuer
    self.audience = audience
    self.secretEnvironmentVariable = secretEnvironmentVariable
  }
}

/// A key of App Store Connect, of an app that is not in the account of the others.
public struct StoreKey: Sendable, Hashable {
  /// The path of the `.p8` file.
  public var file: String
  /// The key's id.
  public var keyID: String
  /// The issuer's id.
  public var issuerID: String

  /// Creates a key.
  public init(file: String, keyID: String, issuerID: String) {
    self.file = file
    self.keyID = keyID
    self.issuerID = issuerID
  }
}

/// A place besides `subscriptions` that the status is written to.
public enum Mirror: String, Sendable, Hashable, CaseIterable {
  /// The premium columns of the table `profiles`.
  case profiles
  /// `is_premium` and `bookmark_limit` of the table `user_preferences`.
  case userPreferences = "user_preferences"
  /// The app's CloudKit container.
  case cloudkit
}

extension String {
  fileprivate func caseInsensitiveEquals(_ other: String) -> Bool { lowercased() == other.lowercased() }
}
