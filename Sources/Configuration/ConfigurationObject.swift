import JSON

/// A JSON object of a configuration file with its path, which errors name.
///
/// `Codable` ignores misspelled keys; ``allowOnly(_:)`` refuses them.
struct ConfigurationObject {
  /// The path of the object, for error messages.
  let path: String
  private let members: [String: JSONValue]

  init(_ value: JSONValue, at path: String) throws(ConfigurationProblem) {
    guard case .object(let members) = value else {
      throw ConfigurationProblem(path, "must be an object, is \(value.kind)")
    }
    self.path = path
    self.members = members
  }

  /// Refuses members beyond these.
  func allowOnly(_ names: [String]) throws(ConfigurationProblem) {
    guard let unknown = members.keys.filter({ !names.contains($0) }).min() else { return }
    throw ConfigurationProblem(
      path + "." + unknown, "unknown key; remove it or use one of \(names.sorted().joined(separator: ", "))")
  }

  /// The sorted names of all members, for objects that are dictionaries.
  var names: [String] { members.keys.sorted() }

  func path(of name: String) -> String { path + "." + name }

  func optional(_ name: String) -> JSONValue? { members[name] }

  func required(_ name: String) throws(ConfigurationProblem) -> JSONValue {
    guard let value = members[name] else { throw ConfigurationProblem(path(of: name), "is missing") }
    return value
  }

  func object(_ name: String) throws(ConfigurationProblem) -> ConfigurationObject? {
    guard let value = members[name] else { return nil }
    return try ConfigurationObject(value, at: path(of: name))
  }

  func string(_ name: String) throws(ConfigurationProblem) -> String? {
    guard let value = members[name] else { return nil }
    return try text(value, at: path(of: name))
  }

  func requiredString(_ name: String) throws(ConfigurationProblem) -> String {
    try text(required(name), at: path(of: name))
  }

  func integer(_ name: String, in range: ClosedRange<Int>) throws(ConfigurationProblem) -> Int? {
    guard let value = members[name] else { return nil }
    guard case .integer(let number) = value else {
      throw ConfigurationProblem(path(of: name), "must be a whole number, is \(value.kind)")
    }
    guard range.contains(number) else {
      throw ConfigurationProblem(
        path(of: name), "must be from \(range.lowerBound) to \(range.upperBound), is \(number)")
    }
    return number
  }

  func boolean(_ name: String) throws(ConfigurationProblem) -> Bool? {
    guard let value = members[name] else { return nil }
    guard case .bool(let flag) = value else {
      throw ConfigurationProblem(path(of: name), "must be true or false, is \(value.kind)")
    }
    return flag
  }

  /// Reads a list of objects.
  func objects(_ name: String) throws(ConfigurationProblem) -> [ConfigurationObject]? {
    guard let value = members[name] else { return nil }
    guard case .array(let elements) = value else {
      throw ConfigurationProblem(path(of: name), "must be a list, is \(value.kind)")
    }
    var objects: [ConfigurationObject] = []
    for (index, element) in elements.enumerated() {
      objects.append(try ConfigurationObject(element, at: path(of: name) + "[\(index)]"))
    }
    return objects
  }

  func strings(_ name: String) throws(ConfigurationProblem) -> [String]? {
    guard let value = members[name] else { return nil }
    guard case .array(let elements) = value else {
      throw ConfigurationProblem(path(of: name), "must be a list, is \(value.kind)")
    }
    var strings: [String] = []
    for (index, element) in elements.enumerated() {
      strings.append(try text(element, at: path(of: name) + "[\(index)]"))
    }
    return strings
  }

  /// Reads one of the cases of an enumeration.
  func word<Word: RawRepresentable & CaseIterable>(
    _ name: String, as type: Word.Type
  ) throws(ConfigurationProblem) -> Word? where Word.RawValue == String {
    guard let string = try string(name) else { return nil }
    return try parse(string, as: type, at: path(of: name))
  }

  /// Reads a list of cases of an enumeration.
  func words<Word: RawRepresentable & CaseIterable>(
    _ name: String, as type: Word.Type
  ) throws(ConfigurationProblem) -> [Word]? where Word.RawValue == String {
    guard let strings = try strings(name) else { return nil }
    var words: [Word] = []
    for (index, string) in strings.enumerated() {
      words.append(try parse(string, as: type, at: path(of: name) + "[\(index)]"))
    }
    return words
  }

  private func text(_ value: JSONValue, at path: String) throws(ConfigurationProblem) -> String {
    guard case .string(let string) = value else {
      throw ConfigurationProblem(path, "must be a string, is \(value.kind)")
    }
    guard !string.isEmpty else { throw ConfigurationProblem(path, "must not be empty") }
    return string
  }

  private func parse<Word: RawRepresentable & CaseIterable>(
    _ string: String, as type: Word.Type, at path: String
  ) throws(ConfigurationProblem) -> Word where Word.RawValue == String {
    guard let word = Word(rawValue: string) else {
      let known = Word.allCases.map(\.rawValue).joined(separator: ", ")
      throw ConfigurationProblem(path, "'\(string)' is not one of \(known)")
    }
    return word
  }
}

extension ConfigurationObject {
  /// Reads amounts by currency such as `{"USD": 7.99}`, in thousandths of the currency unit.
  func prices(_ name: String) throws(ConfigurationProblem) -> [String: Int64]? {
    guard let amounts = try object(name) else { return nil }
    var prices: [String: Int64] = [:]
    for currency in amounts.names {
      let path = amounts.path(of: currency)
      guard currency.utf8.count == 3, currency.utf8.allSatisfy({ (0x41...0x5A).contains($0) }) else {
        throw ConfigurationProblem(path, "is not a currency of three capital letters (ISO 4217)")
      }
      guard let value = amounts.optional(currency), let milliunits = value.milliunits else {
        throw ConfigurationProblem(path, "must be an amount such as 7.99, with three decimals at most")
      }
      prices[currency] = milliunits
    }
    return prices
  }
}

extension JSONValue {
  /// An amount of money in thousandths, as Apple writes prices.
  fileprivate var milliunits: Int64? {
    let amount: Double
    switch self {
    case .integer(let whole): amount = Double(whole)
    case .number(let fractional): amount = fractional
    default: return nil
    }
    let thousandths = (amount * 1000).rounded()
    // 7.99 has no exact binary form. A larger difference means more than three decimals.
    guard amount >= 0, amount <= 1_000_000_000, abs(amount * 1000 - thousandths) < 1e-4 else { return nil }
    return Int64(thousandths)
  }
}

/// An invalid setting or configuration file, described in one line that names it.
package struct ConfigurationProblem: Error, Sendable, Hashable, CustomStringConvertible {
  /// The setting, or the file and the path in it: `config/apps.json: apps[0].tiers.pro.rank`.
  package var subject: String
  /// The reason why it is invalid.
  package var reason: String

  /// Creates a problem.
  package init(_ subject: String, _ reason: String) {
    self.subject = subject
    self.reason = reason
  }

  /// One line. Control characters, which a key in the path may have, become spaces.
  package var description: String {
    String(
      String.UnicodeScalarView(
        "\(subject): \(reason)".unicodeScalars.map { $0.properties.generalCategory == .control ? " " : $0 }))
  }
}
