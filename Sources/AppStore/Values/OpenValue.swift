import JSON

/// A value of a set that Apple extends without notice.
///
/// Every enumeration on Apple's wire is read into such a type, so that a value nobody has heard of yet is
/// kept as it came, compared, stored and encoded again, and never makes a payload unreadable.
public protocol OpenValue:
  RawRepresentable, Hashable, Codable, JSONReadable, Sendable, CustomStringConvertible
where RawValue: Codable & Hashable & Sendable {
  /// Takes any raw value, known or not.
  init(rawValue: RawValue)
}

extension OpenValue {
  /// The raw value as it stands on the wire.
  public var description: String { "\(rawValue)" }
}

extension OpenValue where RawValue == String {
  /// Reads any word.
  public init(reading json: inout JSONReader) throws(JSONFailure) { self.init(rawValue: try json.read()) }
}

extension OpenValue where RawValue == Int32 {
  /// Reads any number of 32 bits.
  public init(reading json: inout JSONReader) throws(JSONFailure) { self.init(rawValue: try json.read()) }
}

extension OpenValue where RawValue == Int64 {
  /// Reads any number.
  public init(reading json: inout JSONReader) throws(JSONFailure) { self.init(rawValue: try json.read()) }
}

// The code that the compiler writes for a payload type calls these overloads. Read in the general way, each
// value would get a decoder of its own, which costs an eighth of the time of a whole transaction.
extension KeyedDecodingContainer {
  func decode<Value: OpenValue>(_: Value.Type, forKey key: Key) throws -> Value
  where Value.RawValue == String {
    Value(rawValue: try decode(String.self, forKey: key))
  }

  func decodeIfPresent<Value: OpenValue>(_: Value.Type, forKey key: Key) throws -> Value?
  where Value.RawValue == String {
    try decodeIfPresent(String.self, forKey: key).map { Value(rawValue: $0) }
  }

  func decodeIfPresent<Value: OpenValue>(_: Value.Type, forKey key: Key) throws -> Value?
  where Value.RawValue == Int32 {
    try decodeIfPresent(Int32.self, forKey: key).map { Value(rawValue: $0) }
  }
}
