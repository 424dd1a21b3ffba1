public import Foundation
import Identifiers

/// The percent-decoded values of the route pattern's `{name}` segments.
public struct PathParameters: Sendable, Hashable, ExpressibleByDictionaryLiteral {
  private var items: [Item]

  private struct Item: Hashable {
    let name: String
    let value: String
  }

  /// No parameters.
  public init() { items = [] }

  /// Parameters from a literal, for tests.
  public init(dictionaryLiteral elements: (String, String)...) {
    items = elements.map(Item.init)
  }

  mutating func append(name: String, value: String) {
    items.append(Item(name: name, value: value))
  }

  /// The value of the parameter, which is never empty; nil if the pattern does not have it.
  public subscript(name: String) -> String? {
    for item in items where item.name == name { return item.value }
    return nil
  }

  /// The value of the parameter, converted.
  ///
  /// - Throws: 400 `invalid_request` with the name of the parameter and the expected form.
  public func require<Value: PathParameterValue>(
    _ name: String, as type: Value.Type = Value.self
  ) throws(Problem) -> Value {
    guard let text = self[name], let value = Value(pathParameter: text) else {
      throw .invalidRequest("'\(name)' in the path must be \(Value.pathParameterForm).")
    }
    return value
  }
}

/// A type of path parameters.
public protocol PathParameterValue {
  /// The expected form, as the end of the sentence "must be …".
  static var pathParameterForm: String { get }

  /// The value of the decoded text, or nil if it has another form.
  init?(pathParameter text: String)
}

extension String: PathParameterValue {
  /// Any text.
  public static var pathParameterForm: String { "a text" }

  /// Accepts any text.
  public init?(pathParameter text: String) { self = text }
}

extension UUID: PathParameterValue {
  /// The usual 36 characters.
  public static var pathParameterForm: String { "a UUID" }

  /// Accepts the 8-4-4-4-12 form of RFC 9562 §4, in either case.
  public init?(pathParameter text: String) { self.init(rfc9562: text) }
}

extension Int: PathParameterValue {
  /// Decimal digits.
  public static var pathParameterForm: String { "a whole number in decimal digits" }

  /// Accepts decimal digits only.
  public init?(pathParameter text: String) {
    guard let value = DecimalDigits.parse(text.utf8.span) else { return nil }
    self = value
  }
}
