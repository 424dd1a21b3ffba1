/// A value that can be bound to a query.
///
/// Numbers and strings are sent as text of an unspecified type, so that the server infers the type from the context, as for
/// a quoted literal: an `Int` fits `integer`, `bigint` and `numeric` columns, a `String` fits `text`, `uuid`, enumerations
/// and so on. Without context (`\(x) is null`), write a cast: `\(x)::text`. The other types are sent with their type.
public protocol PostgresEncodable {
  /// The declared type of the value.
  static var postgresType: PostgresType { get }

  /// Appends exactly one value.
  func encode(into parameters: inout PostgresParameters)
}

/// A value that can be an element of a bound array.
///
/// Arrays are sent in binary format with the type of their elements: `[String]` is `text[]`,
/// `[Int]` is `bigint[]`. For a column of another type, write a cast: `\(ids)::uuid[]`.
public protocol PostgresArrayElement {
  /// The type of one element.
  static var postgresElementType: PostgresType { get }

  /// The type of the array.
  static var postgresArrayType: PostgresType { get }

  /// Appends the element in binary format and returns true, or returns false for NULL.
  func encodeElement(into bytes: inout [UInt8]) -> Bool

  /// Appends a whole array as one value. There is a default for every element but `UInt8`,
  /// whose array is a `bytea`.
  static func encodeArray(_ array: [Self], into parameters: inout PostgresParameters)
}

extension Optional: PostgresEncodable where Wrapped: PostgresEncodable {
  /// The type of the wrapped value.
  public static var postgresType: PostgresType { Wrapped.postgresType }

  /// Appends the wrapped value, or NULL.
  @inlinable
  public func encode(into parameters: inout PostgresParameters) {
    if let self {
      self.encode(into: &parameters)
    } else {
      parameters.appendNull(Wrapped.postgresType)
    }
  }
}

extension PostgresEncodable where Self: RawRepresentable, RawValue: PostgresEncodable {
  /// The type of the raw value.
  public static var postgresType: PostgresType { RawValue.postgresType }

  /// Appends the raw value.
  public func encode(into parameters: inout PostgresParameters) {
    rawValue.encode(into: &parameters)
  }
}
