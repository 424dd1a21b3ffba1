import FoundationEssentials

/// Access that was given, not bought: by support, or for good to those who were there before.
public struct Grant: Sendable, Hashable {
  /// Its identity.
  public var id: UUID
  /// The tier that it opens.
  public var tier: String
  /// From when.
  public var startsAt: Date
  /// Until when; `nil` for good.
  public var endsAt: Date?
  /// The environment of the app transaction that it was given for; production where it was given for something else.
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

  /// What stands as the product on a profile whose access was given.
  public var productID: String { "grant:\(tier)" }

  /// Whether it opens its tier at `instant`: from its first instant to its end, which it does not own.
  public func isOpen(at instant: Date) -> Bool {
    startsAt <= instant && instant < (endsAt ?? .distantFuture)
  }
}
