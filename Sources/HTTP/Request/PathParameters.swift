public import FoundationEssentials
import Identifiers

/// What stood in the path where the route's pattern has `{name}`, percent-decoded.
public struct PathParameters: Sendable, Hashable, ExpressibleByDictionaryLiteral {
  private var items: [Item]

  private struct Item: Hashable {
    let name: String
    let value: String
  }

  /// No parameters.
  public init() { items = [] }

  /// Parameters made by hand, for tests of handlers.
  public init(dictionaryLiteral elements: (String, String)...) {
    items = elements.map(Item.init)
  }

  mutating func append(name: String, value: String) {
    items.append(Item(name: name, value: value))
  }

  /// The value of the parameter, or nil if the pattern has none of that name. It is never empty.
  public subscript(name: String) -> String? {
    for item in items where item.name == name { return item.value }
    return nil
  }

  /// The value of the parameter, converted.
  ///
  /// - Throws: 400 `invalid_request` that names the parameter and what it should have been.
  public func require<Value: PathParameterValue>(
    _ name: String, as type: Value.Type = Value.self
  ) throws(Problem) -> Value {
    guard let text = self[name], let value = Value(pathParameter: text) else {
      throw .invalidRequest("'\(name)' in the path must be \(Value.pathParameterForm).")
    }
    return value
  }
}

/// A type that a path parameter can be converted to.
public protocol PathParameterValue {
  /// The form that is expected, to end the sentence "must be …".
  static var pathParameterForm: String { get }

  /// The value that the decoded text stands for, or nil if it has another form.
  init?(pathParameter text: String)
}

extension String: PathParameterValue {
  /// Any text.
  public static var pathParameterForm: String { "a text" }

  /// Any text is taken as it is.
  public init?(pathParameter text: String) { self = text }
}

extension UUID: PathParameterValue {
  /// The usual 36 characters.
  public static var pathParameterForm: String { "a UUID" }

  /// Takes the 8-4-4-4-12 form of RFC 9562 §4, in either case.
  public init?(pathParameter text: String) { self.init(rfc9562: text) }
}

extension Int: PathParameterValue {
  /// Decimal digits.
  public static var pathParameterForm: String { "a whole number in decimal digits" }

  /// Takes decimal digits only: no sign, no spaces.
  public init?(pathParameter text: String) {
    guard let value = DecimalDigits.parse(text.utf8.span) else { return nil }
    self = value
  }
}
