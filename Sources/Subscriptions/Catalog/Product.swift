import Foundation

/// A product of an app.
public struct Product: Sendable, Hashable {
  /// The product id in App Store Connect.
  public var id: String
  /// The tier that it gives.
  public var tier: String
  /// Other ids of the product in older builds of the app.
  public var aliases: [String]
  /// The length of a non-renewing subscription in days, which Apple does not define.
  public var accessDays: Int?
  /// The price in thousandths of the currency's unit, by currency (ISO 4217): for KPIs of transactions without a price.
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

  /// The end of a purchase at `purchaseDate`, if the catalog defines it.
  func accessEnds(purchasedAt purchaseDate: Date) -> Date? {
    accessDays.map { purchaseDate.addingTimeInterval(TimeInterval($0) * 86_400) }
  }
}

/// A service level of an app.
public struct Tier: Sendable, Hashable {
  /// The name, which clients see.
  public var name: String
  /// The tier with the highest rank decides.
  public var rank: Int
  /// The features.
  public var features: Features

  /// Creates a tier.
  public init(name: String, rank: Int, features: Features) {
    self.name = name
    self.rank = rank
    self.features = features
  }
}

/// A period of free access that the app defines: its trial or its grace period.
public struct Allowance: Sendable, Hashable {
  /// The length in days of 24 hours.
  public var days: Int
  /// The features.
  public var features: Features

  /// Creates an allowance.
  public init(days: Int, features: Features) {
    self.days = days
    self.features = features
  }

  /// The length in seconds.
  public var duration: TimeInterval { TimeInterval(days) * 86_400 }
}

/// A lifetime grant for customers from before a date, for example from before an app became free.
public struct Grandfather: Sendable, Hashable {
  /// The instant before which the customer must have got the app.
  public var before: Date
  /// The tier of the grant.
  public var tier: String

  /// Creates a rule.
  public init(before: Date, tier: String) {
    self.before = before
    self.tier = tier
  }
}

/// The value of a feature. Only the app knows its meaning.
public enum FeatureValue: Sendable, Hashable {
  /// On or off.
  case flag(Bool)
  /// A whole number.
  case count(Int)
  /// A number.
  case amount(Double)
  /// A text.
  case word(String)
  /// No limit (`null` in JSON).
  case unlimited
}

/// The features of a customer, under the app's own names.
///
/// They are sorted once by the bytes of their names. To sort a dictionary for each response took a tenth of its time.
public struct Features: Sendable, Hashable {
  /// A feature.
  public struct Feature: Sendable, Hashable {
    /// The app's name for it.
    public var name: String
    /// Its value.
    public var value: FeatureValue
  }

  /// The features, each name once.
  public let ordered: [Feature]

  /// Features from a dictionary.
  public init(_ values: [String: FeatureValue]) {
    ordered = values.map { Feature(name: $0.key, value: $0.value) }
      .sorted { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }
  }

  /// The value of a feature; nil if the app does not define it.
  public subscript(name: String) -> FeatureValue? { ordered.first { $0.name == name }?.value }
}

extension Features: ExpressibleByDictionaryLiteral {
  /// - Precondition: the names differ.
  public init(dictionaryLiteral elements: (String, FeatureValue)...) {
    self.init(Dictionary(uniqueKeysWithValues: elements))
  }
}
