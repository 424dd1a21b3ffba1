import Foundation

/// A JSON value. Requests, responses and kept values go through this one type, because each type with a synthesized `Codable`
/// adds several kilobytes to an app. An object is a list, because each type of dictionary adds some too.
enum JSON: Codable, Sendable {
  case null
  case flag(Bool)
  case number(Double)
  case text(String)
  case list([JSON])
  case object([Member])

  /// A member of an object.
  struct Member: Sendable {
    let name: String
    let value: JSON
  }

  /// The name of a member.
  struct Name: CodingKey {
    let stringValue: String
    var intValue: Int? { nil }

    init(stringValue: String) { self.stringValue = stringValue }
    init?(intValue: Int) { nil }
  }

  init(from decoder: any Decoder) throws {
    if let container = try? decoder.container(keyedBy: Name.self) {
      var members: [Member] = []
      for name in container.allKeys {
        members.append(
          Member(name: name.stringValue, value: try container.decode(JSON.self, forKey: name)))
      }
      self = .object(members)
      return
    }
    let container = try decoder.singleValueContainer()
    if let value = try? container.decode(String.self) {
      self = .text(value)
    } else if let value = try? container.decode(Double.self) {
      self = .number(value)
    } else if let value = try? container.decode(Bool.self) {
      self = .flag(value)
    } else if container.decodeNil() {
      self = .null
    } else {
      self = .list(try container.decode([JSON].self))
    }
  }

  func encode(to encoder: any Encoder) throws {
    if case .object(let members) = self {
      var container = encoder.container(keyedBy: Name.self)
      for member in members { try container.encode(member.value, forKey: Name(stringValue: member.name)) }
      return
    }
    var container = encoder.singleValueContainer()
    switch self {
    case .null, .object: try container.encodeNil()
    case .flag(let value): try container.encode(value)
    case .number(let value):
      if let whole = Int(exactly: value) { try container.encode(whole) } else { try container.encode(value) }
    case .text(let value): try container.encode(value)
    case .list(let value): try container.encode(value)
    }
  }

  /// Reads a value of another type, for its `Codable`.
  static func decoded<Value>(from decoder: any Decoder, _ read: (JSON?) -> Value?) throws -> Value {
    if let value = read(try JSON(from: decoder)) { return value }
    throw DecodingError.dataCorrupted(
      .init(codingPath: decoder.codingPath, debugDescription: "not a \(Value.self)"))
  }

  /// Reads a JSON text; `nil` if it is none.
  @inline(never) init?(_ data: Data) {
    guard let value = try? JSONDecoder().decode(JSON.self, from: data) else { return nil }
    self = value
  }

  /// A text, or nothing.
  @inline(never) init?(_ text: String?) {
    guard let text else { return nil }
    self = .text(text)
  }

  /// A time in seconds since 1970, or nothing.
  @inline(never) init?(_ number: Double?) {
    guard let number else { return nil }
    self = .number(number)
  }

  /// A time as the server writes it.
  @inline(never) init(_ date: Date) { self = .text(Date.ISO8601FormatStyle().format(date)) }

  /// Creates an object without the members that have no value.
  static func members(_ members: (name: String, value: JSON?)...) -> JSON { .members(members) }

  @inline(never) static func members(_ members: [(name: String, value: JSON?)]) -> JSON {
    var object: [Member] = []
    for member in members {
      if let value = member.value { object.append(Member(name: member.name, value: value)) }
    }
    return .object(object)
  }

  /// The JSON text with its members in order; empty for a number that JSON does not have.
  @inline(never) var data: Data {
    let encoder = JSONEncoder()
    encoder.outputFormatting = .sortedKeys
    return (try? encoder.encode(self)) ?? Data()
  }

  @inline(never) var string: String { data.text }

  /// A member of an object.
  @inline(never) subscript(_ name: String) -> JSON? {
    guard case .object(let members) = self else { return nil }
    for member in members where member.name == name { return member.value }
    return nil
  }

  @inline(never) var text: String? {
    guard case .text(let value) = self else { return nil }
    return value
  }
  @inline(never) var number: Double? {
    guard case .number(let value) = self else { return nil }
    return value
  }
  @inline(never) var flag: Bool? {
    guard case .flag(let value) = self else { return nil }
    return value
  }
  @inline(never) var list: [JSON] {
    guard case .list(let values) = self else { return [] }
    return values
  }
  @inline(never) var date: Date? {
    guard let text else { return nil }
    return try? Date.ISO8601FormatStyle().parse(text)
  }
}

extension JSON {
  /// A member that is a text.
  @inline(never) func text(of name: String) -> String? { self[name]?.text }
  /// A member that is a number.
  @inline(never) func number(of name: String) -> Double? { self[name]?.number }
  /// A member that is true or false.
  @inline(never) func flag(of name: String) -> Bool? { self[name]?.flag }
  /// A member that is a time.
  @inline(never) func date(of name: String) -> Date? { self[name]?.date }
}

/// Base64url without padding (RFC 4648 section 5).
enum Base64URL {
  @inline(never) static func data(_ text: String) -> Data? {
    let base64 = text.replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
    return Data(base64Encoded: base64 + String(repeating: "=", count: (4 - base64.count % 4) % 4))
  }

  @inline(never) static func string(_ data: Data) -> String {
    data.base64EncodedString().replacingOccurrences(of: "+", with: "-")
      .replacingOccurrences(of: "/", with: "_").replacingOccurrences(of: "=", with: "")
  }
}

extension String {
  /// The text in UTF-8. `Data(utf8)` is inlined, and is two kilobytes.
  @inline(never) var bytes: Data { data(using: .utf8) ?? Data() }
}

extension Data {
  /// The text that these bytes are in UTF-8.
  @inline(never) var text: String { String(data: self, encoding: .utf8) ?? "" }
}
