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
