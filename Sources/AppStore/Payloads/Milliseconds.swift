import FoundationEssentials

/// A date that stands on the wire as whole milliseconds since 1970, the form of every date of Apple's.
///
/// `@Milliseconds var signedDate: Date` and `@Milliseconds var expiresDate: Date?` read and write exactly the
/// integer, whatever date strategy the coder has. A fraction, or a date outside the years 0001 to 9999, is an
/// error that names the field: no calendar, database or RFC 3339 text could hold it.
@propertyWrapper
public struct Milliseconds<Value: MillisecondsValue>: Hashable, Sendable {
  /// The date.
  public var wrappedValue: Value

  /// Wraps a date.
  public init(wrappedValue: Value) {
    self.wrappedValue = wrappedValue
  }
}

/// What `Milliseconds` can wrap: a date, or an optional one.
public protocol MillisecondsValue: Hashable, Sendable {
  /// The date, if there is one.
  var date: Date? { get }
  /// The value for a date or its absence; nil if the value cannot be absent.
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

  /// The date that stands on Apple's wire as this many milliseconds since 1970; nil outside the years 0001
  /// to 9999.
  public init?(millisecondsSince1970 milliseconds: Int64) {
    guard Self.wireMilliseconds.contains(milliseconds) else { return nil }
    self.init(timeIntervalSince1970: Double(milliseconds) / 1000)
  }

  /// Milliseconds since 1970, rounded to the nearest; nil outside the years 0001 to 9999.
  ///
  /// A Double holds a second of these years to 31 microseconds, so what was read comes back unchanged.
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

// The code that the compiler writes for a wrapped property calls these overloads. They are what lets an
// optional date be missing from the object, and they spare each date a decoder of its own.
extension KeyedDecodingContainer {
  func decode(_: Milliseconds<Date>.Type, forKey key: Key) throws -> Milliseconds<Date> {
    let milliseconds = try naming(key) { try decode(Int64.self, forKey: key) }
    return Milliseconds(wrappedValue: try date(from: milliseconds, forKey: key))
  }

  func decode(_: Milliseconds<Date?>.Type, forKey key: Key) throws -> Milliseconds<Date?> {
    let milliseconds = try naming(key) { try decodeIfPresent(Int64.self, forKey: key) }
    return Milliseconds(wrappedValue: try milliseconds.map { try date(from: $0, forKey: key) })
  }

  // The decoder throws an error of its own, without the field, for a number that is no Int64.
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
