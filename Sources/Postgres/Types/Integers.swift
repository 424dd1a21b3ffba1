extension PostgresEncodable where Self: FixedWidthInteger {
  /// Inferred, as for an integer literal in quotes.
  public static var postgresType: PostgresType { .inferred }

  /// Appends the decimal digits.
  public func encode(into parameters: inout PostgresParameters) {
    parameters.appendText(String(self), .inferred)
  }
}

extension PostgresDecodable where Self: FixedWidthInteger {
  /// Reads `smallint`, `integer`, `bigint`, and `numeric` without a fraction (the type of a `sum`
  /// of `bigint`). A value that does not fit is an error.
  public static func decode(_ field: PostgresField?) throws(FieldError) -> Self {
    guard let field else { throw .unexpectedNull(Self.self) }
    let value: Self?
    switch field.type {
    case .int8: value = Self(exactly: try field.integer(Int64.self))
    case .int4: value = Self(exactly: try field.integer(Int32.self))
    case .int2: value = Self(exactly: try field.integer(Int16.self))
    case .numeric: value = Self(try Numeric.text(of: field))
    default: throw .mismatch(field.type, Self.self)
    }
    guard let value else { throw FieldError("holds a number that does not fit \(Self.self)") }
    return value
  }
}

extension Int: PostgresEncodable, PostgresDecodable {}
extension Int64: PostgresEncodable, PostgresDecodable {}
extension Int32: PostgresEncodable, PostgresDecodable {}

extension Int: PostgresArrayElement, PostgresDecodableElement {
  /// `bigint`
  public static var postgresElementType: PostgresType { .int8 }
  /// `bigint[]`
  public static var postgresArrayType: PostgresType { .int8Array }

  /// Appends eight bytes.
  public func encodeElement(into bytes: inout [UInt8]) -> Bool {
    bytes.append(bigEndian: Int64(self))
    return true
  }
}

extension Int64: PostgresArrayElement, PostgresDecodableElement {
  /// `bigint`
  public static var postgresElementType: PostgresType { .int8 }
  /// `bigint[]`
  public static var postgresArrayType: PostgresType { .int8Array }

  /// Appends eight bytes.
  public func encodeElement(into bytes: inout [UInt8]) -> Bool {
    bytes.append(bigEndian: self)
    return true
  }
}

extension Int32: PostgresArrayElement, PostgresDecodableElement {
  /// `integer`
  public static var postgresElementType: PostgresType { .int4 }
  /// `integer[]`
  public static var postgresArrayType: PostgresType { .int4Array }

  /// Appends four bytes.
  public func encodeElement(into bytes: inout [UInt8]) -> Bool {
    bytes.append(bigEndian: self)
    return true
  }
}
