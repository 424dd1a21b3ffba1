import Foundation

/// The purchases, trial and grants of a customer of one app: the input of the entitlements.
public struct CustomerRecords: Sendable, Hashable {
  /// The purchases in any order.
  public var subscriptions: [Subscription]
  /// The app's own trial, if the customer has started it.
  public var trial: Trial?
  /// The grants, active or ended.
  public var grants: [Grant]
  /// Whether the customer had a grant that was revoked.
  public var hadGrant: Bool
  /// The app's periods of free access.
  public var freeAccess: FreeAccess

  /// Records from their parts.
  public init(
    subscriptions: [Subscription] = [], trial: Trial? = nil, grants: [Grant] = [],
    hadGrant: Bool = false, freeAccess: FreeAccess = .never
  ) {
    self.subscriptions = subscriptions
    self.trial = trial
    self.grants = grants
    self.hadGrant = hadGrant
    self.freeAccess = freeAccess
  }

  /// The environment of the records: that of real purchases where any record is of it, or where there is none; else
  /// that of the sandbox where any is of it.
  public var environment: StoreEnvironment {
    let all =
      subscriptions.map(\.current.environment) + [trial?.environment].compactMap(\.self)
      + grants.map(\.environment)
    if all.isEmpty || all.contains(.production) { return .production }
    return all.contains(.sandbox) ? .sandbox : .xcode
  }

  /// Whether any of the records is not of production.
  var isOfSandbox: Bool {
    subscriptions.contains { $0.current.environment != .production }
      || trial.map { $0.environment != .production } ?? false
      || grants.contains { $0.environment != .production }
  }
}

/// Access without a purchase: from support, or for customers from before a date.
public struct Grant: Sendable, Hashable {
  /// The id.
  public var id: UUID
  /// The tier.
  public var tier: String
  /// The start.
  public var startsAt: Date
  /// The end; nil for lifetime.
  public var endsAt: Date?
  /// The environment of the app transaction for which it was given; otherwise production.
  public var environment: StoreEnvironment

  /// Creates a grant.
  public init(
    id: UUID, tier: String, startsAt: Date, endsAt: Date?, environment: StoreEnvironment = .production
  ) {
    self.id = id
    self.tier = tier
    self.startsAt = startsAt
    self.endsAt = endsAt
    self.environment = environment
  }

  /// The product name of a grant on a profile.
  public var productID: String { "grant:\(tier)" }

  /// Whether the grant is active at `instant`: it includes its start and excludes its end.
  public func isOpen(at instant: Date) -> Bool {
    startsAt <= instant && instant < (endsAt ?? .distantFuture)
  }
}

/// A customer's trial: once per device and once per Apple Account.
public struct Trial: Sendable, Hashable {
  /// When it began.
  public var startedAt: Date
  /// The end with extensions and without free access.
  public var endsAt: Date
  /// The environment of the app transaction that started it.
  public var environment: StoreEnvironment

  /// Creates a trial.
  public init(startedAt: Date, endsAt: Date, environment: StoreEnvironment = .production) {
    self.startedAt = startedAt
    self.endsAt = endsAt
    self.environment = environment
  }

  /// The end after the pauses of free access; nil while it is unknown.
  public func end(honoring freeAccess: FreeAccess) -> Date? {
    freeAccess.end(of: endsAt.timeIntervalSince(startedAt), from: startedAt)
  }
}
