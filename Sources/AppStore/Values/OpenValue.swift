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

/// The environment of a transaction (`environment`; `receiptType` in an app transaction).
public struct Environment: OpenValue {
  /// The value on the wire.
  public let rawValue: String

  /// Accepts any value, known or not.
  public init(rawValue: String) { self.rawValue = rawValue }

  /// The App Store in which customers pay.
  public static let production = Self(rawValue: "Production")
  /// The App Store's sandbox, which also serves TestFlight.
  public static let sandbox = Self(rawValue: "Sandbox")
  /// StoreKit testing in Xcode, signed by the developer's machine and not by Apple.
  public static let xcode = Self(rawValue: "Xcode")
  /// Local testing, not signed by Apple.
  public static let localTesting = Self(rawValue: "LocalTesting")
}
