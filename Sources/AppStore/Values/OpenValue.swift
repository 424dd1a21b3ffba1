import JSON

/// A value of an enumeration that Apple extends without notice.
///
/// An unknown value is kept, compared, stored and encoded like a known one. It never makes a payload unreadable.
public protocol OpenValue:
  RawRepresentable, Hashable, Codable, JSONReadable, Sendable, CustomStringConvertible
where RawValue: Codable & Hashable & Sendable {
  /// Accepts any raw value, known or not.
  init(rawValue: RawValue)
}

extension OpenValue {
  /// The raw value as text.
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
