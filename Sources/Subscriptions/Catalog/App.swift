import Foundation

/// The configuration of one app: its products, tiers, customers and rules.
///
/// A class, because it is immutable and every request passes it on.
public final class App: Sendable {
  /// Apple's bundle identifier.
  public let bundleID: String
  /// Apple's numeric identifier of the app, which production notifications contain.
  public let appAppleID: Int64?
  /// The display name.
  public let name: String
  /// The environments whose signed data is accepted.
  public let environments: Set<StoreEnvironment>
  /// The customers whose sandbox purchases give access.
  public let sandboxGrants: SandboxGrants
  /// The kind of the app's customers.
  public let customer: CustomerKind
  /// The rule for a second user who proves the same purchase. Devices share purchases instead.
  public let transferPolicy: TransferPolicy
  /// The number of devices that may share one purchase or one trial, if customers are devices. Beyond it the device
  /// that was not seen for the longest time leaves. A purchase or a trial moves to another customer so many times
  /// within 24 hours.
  public let devicesPerPurchase: Int
  /// The host names, in lower case, under which requests without a bundle id are for this app.
  public let hosts: [String]
  /// Whether requests that name no app are for this one.
  public let isDefault: Bool
  /// How the app treats old builds of its client; nil for the default.
  public let clientWrites: ClientWrites?
  /// The roles of the database, beside receiptd's own, that write premium columns of the app's own tables: those of its
  /// backend.
  public let premiumWriters: [String]
  /// How the app answers the App Store's questions about refunds.
  public let refundAnswers: RefundAnswers
  /// Whether the App Store is told the user who first proved a purchase without an `appAccountToken`.
  public let tellsAccountToken: Bool
  /// The products by their canonical name.
  public let products: [String: Product]
  /// The tiers by their name.
  public let tiers: [String: Tier]
  /// The features of every customer.
  public let free: Features
  /// The app's own trial, if it has one.
  public let trial: Allowance?
  /// The app's own grace period after the end of a purchase, if it has one.
  public let grace: Allowance?
  /// The lifetime grant for customers from before a date, if there is one.
  public let grandfather: Grandfather?
  /// The number of days after the last response for which a client without network keeps its access.
  public let offlineGraceDays: Int
  /// How long a client without network keeps paid access.
  public let offline: OfflineRule
  /// Whether new trials start.
  public let newTrials: NewTrials
  /// The limit of stored client events, in bytes per day.
  public let eventBytesPerDay: Int
  /// The issuer of its users' access tokens.
  public let auth: TokenIssuer?
  /// The places to which the status is written, in addition to `subscriptions`.
  public let writeTo: Set<StatusDestination>
  /// Whether free access is also written to the app's own tables, for clients that read them. They have their former
  /// values when it ends.
  public let freeAccessWrites: Bool
  /// The app's own key for the App Store Server API; without one, the key in the settings is used.
  public let storeKey: StoreKey?
  /// The files of the certificates of StoreKit tests in Xcode, whose data is accepted if ``environments`` has `Xcode`.
  public let xcodeCertificates: [String]
  /// The app's CloudKit container; required if `writeTo` has `cloudkit`.
  public let cloudKit: CloudKitContainer?
  /// The webhooks for changes of a customer's state and for lifecycle events.
  public let webhooks: [WebhookEndpoint]
  /// When customers are reminded that a free period ends.
  public let reminders: Reminders
  /// The server that gets the App Store's notifications as they came; nil for none.
  public let forwardedNotifications: WebhookEndpoint?
  /// The values of `bookmark_limit` in the table `user_preferences`.
  public let bookmarkLimits: BookmarkLimits

  /// The number of devices that share a purchase where the configuration has none.
  public static let defaultDevicesPerPurchase = 10

  /// 32 MiB, about 100,000 events.
  public static let defaultEventBytesPerDay = 32 << 20

  /// The canonical name for every name of a product, with aliases.
  private let canonicalNames: [String: String]

  /// Creates an app; every parameter is described at its property.
  public init(
    bundleID: String, appAppleID: Int64? = nil, name: String,
    environments: Set<StoreEnvironment> = [.production, .sandbox],
    sandboxGrants: SandboxGrants = .nobody, customer: CustomerKind,
    transferPolicy: TransferPolicy = .keep, devicesPerPurchase: Int = App.defaultDevicesPerPurchase,
    hosts: [String] = [], isDefault: Bool = false, clientWrites: ClientWrites? = nil,
    premiumWriters: [String] = [],
    refundAnswers: RefundAnswers = .none, tellsAccountToken: Bool = false,
    products: [Product], tiers: [Tier],
    free: Features = [:], trial: Allowance? = nil, grace: Allowance? = nil,
    grandfather: Grandfather? = nil, offlineGraceDays: Int = 7, offline: OfflineRule = .grace,
    newTrials: NewTrials = .open,
    eventBytesPerDay: Int = App.defaultEventBytesPerDay, auth: TokenIssuer? = nil,
    writeTo: Set<StatusDestination> = [], freeAccessWrites: Bool = false, storeKey: StoreKey? = nil,
    xcodeCertificates: [String] = [], cloudKit: CloudKitContainer? = nil,
    webhooks: [WebhookEndpoint] = [], reminders: Reminders = Reminders(),
    forwardedNotifications: WebhookEndpoint? = nil, bookmarkLimits: BookmarkLimits = BookmarkLimits()
  ) {
    self.bundleID = bundleID
    self.appAppleID = appAppleID
    self.name = name
    self.environments = environments
    self.sandboxGrants = sandboxGrants
    self.customer = customer
    self.transferPolicy = transferPolicy
    self.devicesPerPurchase = devicesPerPurchase
    self.hosts = hosts
    self.isDefault = isDefault
    self.clientWrites = clientWrites
    self.premiumWriters = premiumWriters
    self.refundAnswers = refundAnswers
    self.tellsAccountToken = tellsAccountToken
    self.products = Dictionary(products.map { ($0.id, $0) }, uniquingKeysWith: { first, _ in first })
    self.tiers = Dictionary(tiers.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
    self.free = free
    self.trial = trial
    self.grace = grace
    self.grandfather = grandfather
    self.offlineGraceDays = offlineGraceDays
    self.offline = offline
    self.newTrials = newTrials
    self.eventBytesPerDay = eventBytesPerDay
    self.auth = auth
    self.writeTo = writeTo
    self.freeAccessWrites = freeAccessWrites
    self.storeKey = storeKey
    self.xcodeCertificates = xcodeCertificates
    self.cloudKit = cloudKit
    self.webhooks = webhooks
    self.reminders = reminders
    self.forwardedNotifications = forwardedNotifications
    self.bookmarkLimits = bookmarkLimits
    var canonicalNames: [String: String] = [:]
    for product in products {
      for name in [product.id] + product.aliases { canonicalNames[name] = product.id }
    }
    self.canonicalNames = canonicalNames
  }

  /// Whether several customers can share one purchase.
  public var sharesPurchases: Bool { customer == .device && devicesPerPurchase > 1 }

  /// The product with this canonical name or alias.
  public func product(named name: String) -> Product? {
    canonicalNames[name].flatMap { products[$0] }
  }

  /// The canonical name of a product, or nil if it is not in the catalog.
  public func canonicalProductID(_ name: String) -> String? { canonicalNames[name] }
}

/// The kinds of customers.
public enum CustomerKind: String, Sendable, Hashable, CaseIterable {
  /// A signed-in user, identified by the `sub` of a token.
  case user
  /// A device, identified by an id of its own.
  case device
}

/// The rule for a user who proves a purchase of another user. It lasts until the purchase ends: the `appAccountToken` of a
/// later purchase under the same original id decides anew.
public enum TransferPolicy: String, Sendable, Hashable, CaseIterable {
  /// The purchase stays with its owner; the claim is refused.
  case keep
  /// The purchase moves to the customer who proved it last.
  case transfer
  /// The purchase moves only while it gives its owner no access.
  case transferWhenInactive
}

/// How long a client without network keeps paid access.
public enum OfflineRule: String, Sendable, Hashable, CaseIterable {
  /// For `offlineGraceDays` after the last response.
  case grace
  /// Until the end of the paid or granted time, and for `offlineGraceDays` after the last response where that is later.
  /// Access that never ends does not end offline either. A client learns of a refund when it asks again.
  case paidTime
}

/// Whether devices without a trial start one.
public enum NewTrials: String, Sendable, Hashable, CaseIterable {
  case open
  /// Running trials go on, and devices of their accounts join them; no other trial starts.
  case paused
}

/// The issuer of the access tokens of an app's users.
public struct TokenIssuer: Sendable, Hashable {
  /// The URL of the public keys (RFC 7517).
  public var jwks: String?
  /// The required `iss` of a token.
  public var issuer: String?
  /// The required `aud` of a token.
  public var audience: String?
  /// The environment variables with shared HS256 secrets: one, or two while the secret is rotated.
  public var secretEnvironmentVariables: [String]

  /// Creates an issuer.
  public init(
    jwks: String? = nil, issuer: String? = nil, audience: String? = nil,
    secretEnvironmentVariables: [String] = []
  ) {
    self.jwks = jwks
    self.issuer = issuer
    self.audience = audience
    self.secretEnvironmentVariables = secretEnvironmentVariables
  }
}

/// A key of App Store Connect for an app in an account of its own.
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

/// A place to which the status is written, in addition to `subscriptions`.
public enum StatusDestination: String, Sendable, Hashable, CaseIterable {
  /// The premium columns of the table `profiles`.
  case profiles
  /// `is_premium` and `bookmark_limit` of the table `user_preferences`.
  case userPreferences = "user_preferences"
  /// The app's CloudKit container.
  case cloudkit
}

/// How an app treats old builds of its client, which write premium status themselves and send bare transaction ids.
public enum ClientWrites: String, Sendable, Hashable, CaseIterable {
  /// Old builds write the premium columns, and get or join purchases by a bare transaction id.
  case accept
  /// The premium columns keep the server's values; a client's claim is noted. Old builds get or join purchases
  /// by a bare transaction id.
  case observe
  /// Clients write no premium column, and a customer needs signed data to get or join a purchase.
  case refuse
}

/// How an app answers the App Store's questions about refunds.
public enum RefundAnswers: String, Sendable, Hashable, CaseIterable {
  /// It does not answer.
  case none
  /// It sends facts, without a preference.
  case facts
  /// It sends facts, and prefers that the refund is granted.
  case preferGrant = "prefer-grant"
  /// It sends facts, and prefers that the refund is declined.
  case preferDecline = "prefer-decline"
}

/// The customers whose sandbox purchases give access.
public enum SandboxGrants: Sendable, Hashable {
  /// No customer.
  case nobody
  /// Every customer, for a staging server.
  case everyone
  /// Every customer before this instant, for App Review and TestFlight.
  case everyoneUntil(Date)
  /// These users and devices.
  case testers(Set<String>)

  /// Whether sandbox purchases of this customer give access at `instant`.
  public func include(_ customer: Customer?, at instant: Date) -> Bool {
    switch self {
    case .nobody, .everyone, .everyoneUntil: isOpenToEveryone(at: instant)
    case .testers(let ids):
      customer.map { customer in
        ids.contains { $0.caseInsensitiveEquals(customer.id) }
      } ?? false
    }
  }

  /// Whether sandbox purchases of every customer give access at `instant`.
  public func isOpenToEveryone(at instant: Date) -> Bool {
    switch self {
    case .nobody, .testers: false
    case .everyone: true
    case .everyoneUntil(let end): instant < end
    }
  }

  /// The end of the open window; nil if no window is open at `instant`.
  public func windowEnd(at instant: Date) -> Date? {
    if case .everyoneUntil(let end) = self, instant < end { end } else { nil }
  }
}

extension String {
  fileprivate func caseInsensitiveEquals(_ other: String) -> Bool { lowercased() == other.lowercased() }
}

extension App {
  /// The ids of the configured testers, in lower case.
  package var testers: [String] {
    if case .testers(let ids) = sandboxGrants { ids.map { $0.lowercased() }.sorted() } else { [] }
  }
}
