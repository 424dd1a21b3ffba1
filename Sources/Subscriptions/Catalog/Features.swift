/// What a customer may do, by the app's own names.
///
/// In the order of the names' bytes, in which every answer and every token tells them: to sort a dictionary for each
/// of them took a tenth of the time of an answer.
public struct Features: Sendable, Hashable {
  /// One of them.
  public struct Feature: Sendable, Hashable {
    /// The app's name for it.
    public var name: String
    /// What is open of it.
    public var value: FeatureValue
  }

  /// Each name once.
  public let ordered: [Feature]

  /// Takes them in any order.
  public init(_ values: [String: FeatureValue]) {
    ordered = values.map { Feature(name: $0.key, value: $0.value) }
      .sorted { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }
  }

  /// What is open of one; `nil` where the app does not speak of it.
  public subscript(name: String) -> FeatureValue? { ordered.first { $0.name == name }?.value }
}

extension Features: ExpressibleByDictionaryLiteral {
  /// - Precondition: each name stands there once.
  public init(dictionaryLiteral elements: (String, FeatureValue)...) {
    self.init(Dictionary(uniqueKeysWithValues: elements))
  }
}
