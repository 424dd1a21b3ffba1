import Foundation

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
