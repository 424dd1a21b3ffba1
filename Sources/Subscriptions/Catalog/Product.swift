import FoundationEssentials

/// Something an app sells.
public struct Product: Sendable, Hashable {
  /// Its name in App Store Connect.
  public var id: String
  /// The tier that it opens.
  public var tier: String
  /// Names that older builds of the app use for the same thing.
  public var aliases: [String]
  /// How long a non-renewing subscription lasts: Apple does not say, the app does. Days.
  public var accessDays: Int?
  /// What it costs in thousandths of the currency's unit, by currency (ISO 4217): for numbers where Apple's own
  /// word on a transaction has no price.
  public var prices: [String: Int64]

  /// Creates a product.
  public init(
    id: String, tier: String, aliases: [String] = [], accessDays: Int? = nil, prices: [String: Int64] = [:]
  ) {
    self.id = id
    self.tier = tier
    self.aliases = aliases
    self.accessDays = accessDays
    self.prices = prices
  }

  /// The end of what was bought at `purchaseDate`, where the catalog and not Apple sets it.
  func accessEnds(purchasedAt purchaseDate: Date) -> Date? {
    accessDays.map { purchaseDate.addingTimeInterval(TimeInterval($0) * 86_400) }
  }
}

/// A level of what an app sells.
public struct Tier: Sendable, Hashable {
  /// Its name, as clients know it.
  public var name: String
  /// Of several tiers the one with the highest rank counts.
  public var rank: Int
  /// What it opens.
  public var features: Features

  /// Creates a tier.
  public init(name: String, rank: Int, features: Features) {
    self.name = name
    self.rank = rank
    self.features = features
  }
}

/// A time that the app gives by itself: its trial, or its grace.
public struct Allowance: Sendable, Hashable {
  /// How long, in days of 24 hours.
  public var days: Int
  /// What it opens.
  public var features: Features

  /// Creates an allowance.
  public init(days: Int, features: Features) {
    self.days = days
    self.features = features
  }

  /// How long, in seconds.
  public var duration: TimeInterval { TimeInterval(days) * 86_400 }
}

/// What those get for good who had the app before a date: when it was sold as a whole, perhaps.
public struct Grandfather: Sendable, Hashable {
  /// Whoever had it before this instant.
  public var before: Date
  /// The tier that they get.
  public var tier: String

  /// Creates a rule.
  public init(before: Date, tier: String) {
    self.before = before
    self.tier = tier
  }
}

/// The value of a feature: the app gives it a meaning, the service only carries it.
public enum FeatureValue: Sendable, Hashable {
  /// Open or not.
  case flag(Bool)
  /// How many.
  case count(Int)
  /// How much.
  case amount(Double)
  /// A word of the app's own.
  case word(String)
  /// No limit (`null` in JSON).
  case unlimited
}
