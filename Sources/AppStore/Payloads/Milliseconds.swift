import Foundation

/// Encodes a date as whole milliseconds since 1970, the form of all dates of Apple's API.
///
/// `@Milliseconds var signedDate: Date` and `@Milliseconds var expiresDate: Date?` ignore the coder's date strategy. A
/// fraction, or a date outside the years 0001 to 9999, is an error that names the field, because PostgreSQL and RFC
/// 3339 cannot hold it.
@propertyWrapper
public struct Milliseconds<Value: MillisecondsValue>: Hashable, Sendable {
  /// The date.
  public var wrappedValue: Value

  /// Wraps a date.
  public init(wrappedValue: Value) {
    self.wrappedValue = wrappedValue
  }
}

/// A type that `Milliseconds` can wrap: a date or an optional date.
public protocol MillisecondsValue: Hashable, Sendable {
  /// The date, if there is one.
  var date: Date? { get }
  /// Makes a value from an optional date; nil if the value must be present.
  init?(date: Date?)
}

extension Date: MillisecondsValue {
  /// The date itself.
  public var date: Date? { self }

  /// The date; nil without one.
  public init?(date: Date?) {
    guard let date else { return nil }
    self = date
  }
}

extension Optional: MillisecondsValue where Wrapped == Date {
  /// The date, if there is one.
  public var date: Date? { self }

  /// The date or its absence.
  public init(date: Date?) { self = date }
}

extension Date {
  /// 0001-01-01T00:00:00.000Z to 9999-12-31T23:59:59.999Z.
  static let wireMilliseconds: ClosedRange<Int64> = -62_135_596_800_000...253_402_300_799_999

  /// Makes a date from milliseconds since 1970; nil outside the years 0001 to 9999.
  public init?(millisecondsSince1970 milliseconds: Int64) {
    guard Self.wireMilliseconds.contains(milliseconds) else { return nil }
    self.init(timeIntervalSince1970: Double(milliseconds) / 1000)
  }

  /// Milliseconds since 1970, rounded to the nearest; nil outside the years 0001 to 9999.
  ///
  /// A Double represents these years with an error below 31 microseconds, so a round trip is exact.
  public var millisecondsSince1970: Int64? {
    let milliseconds = (timeIntervalSince1970 * 1000).rounded()
    guard let exact = Int64(exactly: milliseconds), Self.wireMilliseconds.contains(exact) else { return nil }
    return exact
  }
}

extension Milliseconds: Codable {
  /// Reads one integer, or null where the value is optional.
  public init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    let date: Date? =
      if container.decodeNil() {
        nil
      } else if let date = Date(millisecondsSince1970: try container.decode(Int64.self)) {
        date
      } else {
        throw DecodingError.dataCorruptedError(in: container, debugDescription: outsideTheYears)
      }
    guard let value = Value(date: date) else {
      throw DecodingError.valueNotFound(
        Int64.self, .init(codingPath: decoder.codingPath, debugDescription: "null in place of a date"))
    }
    wrappedValue = value
  }

  /// Writes one integer, or null.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    guard let date = wrappedValue.date else { return try container.encodeNil() }
    try container.encode(wireInteger(of: date, at: encoder.codingPath))
  }
}

// The synthesized code of a wrapped property calls these overloads. They allow an optional date to be missing.
extension KeyedDecodingContainer {
  func decode(_: Milliseconds<Date>.Type, forKey key: Key) throws -> Milliseconds<Date> {
    let milliseconds = try naming(key) { try decode(Int64.self, forKey: key) }
    return Milliseconds(wrappedValue: try date(from: milliseconds, forKey: key))
  }

  func decode(_: Milliseconds<Date?>.Type, forKey key: Key) throws -> Milliseconds<Date?> {
    let milliseconds = try naming(key) { try decodeIfPresent(Int64.self, forKey: key) }
    return Milliseconds(wrappedValue: try milliseconds.map { try date(from: $0, forKey: key) })
  }

  // For a number that is no Int64 the decoder throws an error without the field.
  private func naming<Value>(_ key: Key, _ decode: () throws -> Value) throws -> Value {
    do {
      return try decode()
    } catch let error as DecodingError {
      throw error
    } catch {
      throw DecodingError.dataCorruptedError(forKey: key, in: self, debugDescription: outsideTheYears)
    }
  }

  private func date(from milliseconds: Int64, forKey key: Key) throws -> Date {
    guard let date = Date(millisecondsSince1970: milliseconds) else {
      throw DecodingError.dataCorruptedError(forKey: key, in: self, debugDescription: outsideTheYears)
    }
    return date
  }
}

extension KeyedEncodingContainer {
  mutating func encode(_ value: Milliseconds<Date?>, forKey key: Key) throws {
    guard let date = value.wrappedValue else { return }
    try encode(wireInteger(of: date, at: codingPath + [key]), forKey: key)
  }
}

private let outsideTheYears = "not a date of the years 0001 to 9999 in milliseconds"

private func wireInteger(of date: Date, at path: [any CodingKey]) throws -> Int64 {
  guard let milliseconds = date.millisecondsSince1970 else {
    throw EncodingError.invalidValue(date, .init(codingPath: path, debugDescription: outsideTheYears))
  }
  return milliseconds
}
