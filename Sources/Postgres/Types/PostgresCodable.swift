/// A value that can be bound to a query.
///
/// Numbers and strings are sent as text of an unspecified type, so that the server infers the type from the context, as
/// for a quoted literal: an `Int` fits `integer`, `bigint` and `numeric` columns, a `String` fits `text`, `uuid`,
/// enumerations and so on. Without context (`\(x) is null`), write a cast: `\(x)::text`. The other types are sent with
/// their type.
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

/// A value that can be read from a column.
public protocol PostgresDecodable {
  /// Reads a field; nil is NULL. The field's bytes are valid only during the call.
  static func decode(_ field: PostgresField?) throws(FieldError) -> Self
}

/// A value that can be read as an element of an array column.
public protocol PostgresDecodableElement {
  /// Reads one element; nil is NULL.
  static func decodeElement(_ field: PostgresField?) throws(FieldError) -> Self

  /// Reads a whole array. There is a default for every element but `UInt8`, whose array is
  /// a `bytea`.
  static func decodeArray(_ field: PostgresField) throws(FieldError) -> [Self]
}

/// One value that is not NULL, in PostgreSQL's binary form.
public struct PostgresField {
  /// The column's type.
  public let type: PostgresType
  /// The value in network byte order; valid only during the call.
  public let bytes: UnsafeRawBufferPointer

  @usableFromInline
  init(type: PostgresType, bytes: UnsafeRawBufferPointer) {
    self.type = type
    self.bytes = bytes
  }
}

/// The reason why a field cannot be decoded as a type. It does not contain the value.
public struct FieldError: Error, Sendable {
  /// A phrase that completes "column x …".
  public let reason: String

  /// An error with this reason.
  public init(_ reason: String) {
    self.reason = reason
  }

  @usableFromInline
  static func unexpectedNull(_ type: Any.Type) -> FieldError {
    FieldError("is NULL and cannot be read as \(type)")
  }

  @usableFromInline
  static func mismatch(_ column: PostgresType, _ type: Any.Type) -> FieldError {
    FieldError("is \(column) and cannot be read as \(type)")
  }

  @usableFromInline
  static func malformed(_ column: PostgresType) -> FieldError {
    FieldError("holds a malformed \(column)")
  }
}

extension Optional: PostgresDecodable where Wrapped: PostgresDecodable {
  /// Reads the wrapped value, or nil for NULL.
  @inlinable
  public static func decode(_ field: PostgresField?) throws(FieldError) -> Wrapped? {
    guard let field else { return nil }
    return try Wrapped.decode(field)
  }
}

extension PostgresDecodable where Self: RawRepresentable, RawValue: PostgresDecodable {
  /// Reads the raw value; one that `init(rawValue:)` does not know is an error.
  public static func decode(_ field: PostgresField?) throws(FieldError) -> Self {
    guard let value = Self(rawValue: try RawValue.decode(field)) else {
      throw FieldError("holds a value that \(Self.self) does not know")
    }
    return value
  }
}

// PostgreSQL's binary formats are big-endian.

extension [UInt8] {
  @inlinable
  mutating func append(bigEndian value: some FixedWidthInteger) {
    Swift.withUnsafeBytes(of: value.bigEndian) { append(contentsOf: $0) }
  }
}

extension UnsafeRawBufferPointer {
  /// The integer at `offset`; the caller has checked that it lies within the buffer.
  @inlinable
  func bigEndian<T: FixedWidthInteger & BitwiseCopyable>(at offset: Int = 0, as type: T.Type = T.self) -> T {
    T(bigEndian: loadUnaligned(fromByteOffset: offset, as: T.self))
  }
}

extension PostgresField {
  /// The whole field as one integer of exactly its width.
  func integer<T: FixedWidthInteger & BitwiseCopyable>(_ type: T.Type) throws(FieldError) -> T {
    guard bytes.count == MemoryLayout<T>.size else { throw .malformed(self.type) }
    return bytes.bigEndian()
  }
}
