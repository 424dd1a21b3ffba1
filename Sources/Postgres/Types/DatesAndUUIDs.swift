public import Foundation

/// The binary form of `timestamptz`: microseconds since 2000-01-01 00:00 UTC, with the extremes of
/// Int64 for `infinity` and `-infinity`.
private enum Timestamp {
  /// 2000-01-01 in seconds since 1970.
  static let epoch: Double = 946_684_800
  static let infinity = Int64.max
  static let negativeInfinity = Int64.min

  static func microseconds(_ date: Date) -> Int64 {
    let exact = ((date.timeIntervalSince1970 - epoch) * 1_000_000).rounded()
    // A time beyond the range of Int64 is sent as infinity.
    return Int64(exactly: exact) ?? (exact > 0 ? infinity : negativeInfinity)
  }

  static func date(_ microseconds: Int64) -> Date {
    // One division of an exact integer, so that a date that was made from milliseconds is read back as the same Double.
    Date(timeIntervalSince1970: (Double(microseconds) + epoch * 1_000_000) / 1_000_000)
  }
}

extension Date: PostgresEncodable, PostgresDecodable {
  /// `timestamptz`
  public static var postgresType: PostgresType { .timestamptz }

  /// Appends the instant, rounded to microseconds.
  public func encode(into parameters: inout PostgresParameters) {
    parameters.appendBinary(.timestamptz) { _ = encodeElement(into: &$0) }
  }

  /// Reads `timestamptz`. `infinity` is an error, and so is `timestamp`, which is not an instant.
  public static func decode(_ field: PostgresField?) throws(FieldError) -> Date {
    guard let field else { throw .unexpectedNull(Self.self) }
    guard field.type == .timestamptz else { throw .mismatch(field.type, Self.self) }
    let microseconds = try field.integer(Int64.self)
    guard microseconds != Timestamp.infinity, microseconds != Timestamp.negativeInfinity else {
      throw FieldError("is infinite and cannot be read as Date")
    }
    return Timestamp.date(microseconds)
  }
}

extension Date {
  /// The instant rounded down to microseconds, which PostgreSQL returns as the same `Date` (from 1970 to 2105).
  ///
  /// The server stores microseconds, and the system's clock is more precise. If the server rounded an instant up, a
  /// period that begins now would not have begun when it is read back.
  public var cutToMicroseconds: Date {
    let microseconds = Timestamp.microseconds(self)
    guard microseconds != Timestamp.infinity, microseconds != Timestamp.negativeInfinity else { return self }
    let nearest = Timestamp.date(microseconds)
    return nearest <= self ? nearest : Timestamp.date(microseconds - 1)
  }
}

extension Date: PostgresArrayElement, PostgresDecodableElement {
  /// `timestamptz`
  public static var postgresElementType: PostgresType { .timestamptz }
  /// `timestamptz[]`
  public static var postgresArrayType: PostgresType { .timestamptzArray }

  /// Appends eight bytes.
  public func encodeElement(into bytes: inout [UInt8]) -> Bool {
    bytes.append(bigEndian: Timestamp.microseconds(self))
    return true
  }
}

extension UUID: PostgresEncodable, PostgresDecodable {
  /// `uuid`
  public static var postgresType: PostgresType { .uuid }

  /// Appends sixteen bytes.
  public func encode(into parameters: inout PostgresParameters) {
    parameters.appendBinary(.uuid) { _ = encodeElement(into: &$0) }
  }

  /// Reads `uuid`.
  public static func decode(_ field: PostgresField?) throws(FieldError) -> UUID {
    guard let field else { throw .unexpectedNull(Self.self) }
    guard field.type == .uuid else { throw .mismatch(field.type, Self.self) }
    guard field.bytes.count == 16 else { throw .malformed(.uuid) }
    return UUID(uuid: field.bytes.loadUnaligned(as: uuid_t.self))
  }
}

extension UUID: PostgresArrayElement, PostgresDecodableElement {
  /// `uuid`
  public static var postgresElementType: PostgresType { .uuid }
  /// `uuid[]`
  public static var postgresArrayType: PostgresType { .uuidArray }

  /// Appends sixteen bytes.
  public func encodeElement(into bytes: inout [UInt8]) -> Bool {
    withUnsafeBytes(of: uuid) { bytes.append(contentsOf: $0) }
    return true
  }
}
