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
