/// Any JSON value, for members without a fixed schema.
package enum JSONValue: Sendable, Hashable {
  case null
  case bool(Bool)
  case integer(Int)
  case number(Double)
  case string(String)
  case array([JSONValue])
  case object([String: JSONValue])

  /// The kind of value in words, for error messages.
  package var kind: String {
    switch self {
    case .null: "null"
    case .bool: "a boolean"
    case .integer, .number: "a number"
    case .string: "a string"
    case .array: "a list"
    case .object: "an object"
    }
  }
}

extension JSONValue: Codable {
  package init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    if container.decodeNil() {
      self = .null
    } else if let value = try? container.decode(Bool.self) {
      self = .bool(value)
    } else if let value = try? container.decode(Int.self) {
      self = .integer(value)
    } else if let value = try? container.decode(Double.self) {
      self = .number(value)
    } else if let value = try? container.decode(String.self) {
      self = .string(value)
    } else if let value = try? container.decode([JSONValue].self) {
      self = .array(value)
    } else {
      self = .object(try container.decode([String: JSONValue].self))
    }
  }

  package func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    switch self {
    case .null: try container.encodeNil()
    case .bool(let value): try container.encode(value)
    case .integer(let value): try container.encode(value)
    case .number(let value): try container.encode(value)
    case .string(let value): try container.encode(value)
    case .array(let value): try container.encode(value)
    case .object(let value): try container.encode(value)
    }
  }
}

extension JSONValue: JSONReadable {
  /// Any value. Of several members with one name the first counts. It takes time in proportion to the bytes, whereas
  /// decoding through `Codable` tries each kind at each level.
  package init(reading json: inout JSONReader) throws(JSONFailure) {
    switch json.peek() {
    case UInt8(ascii: "{"):
      var values: [String: JSONValue] = [:]
      var members = try json.beginObject()
      while try json.hasNextMember(&members) {
        let name = try json.string()
        try json.colon()
        let value = try JSONValue(reading: &json)
        if values[name] == nil { values[name] = value }
      }
      self = .object(values)
    case UInt8(ascii: "["): self = .array(try json.read())
    case UInt8(ascii: "\""): self = .string(try json.string())
    case UInt8(ascii: "t"), UInt8(ascii: "f"): self = .bool(try json.boolean())
    case UInt8(ascii: "n"):
      _ = try json.takeNull()
      self = .null
    default: self = try json.anyNumber()
    }
  }
}

extension JSONReader {
  /// A whole number that fits, else the nearest of 64 bits.
  fileprivate mutating func anyNumber() throws(JSONFailure) -> JSONValue {
    _ = peek()
    let start = position
    _ = try number()
    let end = position
    position = start
    if let whole = try? integer() { return .integer(Int(whole)) }
    position = end
    guard let value = Double(String(decoding: bytes[start..<end], as: UTF8.self)), value.isFinite else {
      throw JSONFailure(.malformed, at: start)
    }
    return .number(value)
  }
}

/// A member that is encoded as `null` if it has no value, so that every key is present.
@propertyWrapper
package struct Nullable<Value: Encodable & Sendable>: Encodable, Sendable {
  package var wrappedValue: Value?

  package init(wrappedValue: Value?) { self.wrappedValue = wrappedValue }

  package func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    if let wrappedValue {
      try container.encode(wrappedValue)
    } else {
      try container.encodeNil()
    }
  }
}
