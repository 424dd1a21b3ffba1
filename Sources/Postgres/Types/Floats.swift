extension Double: PostgresEncodable, PostgresDecodable {
  /// Inferred, as for a number in quotes.
  public static var postgresType: PostgresType { .inferred }

  /// Appends the shortest digits that read back as the same value.
  public func encode(into parameters: inout PostgresParameters) {
    parameters.appendText(description, .inferred)
  }

  /// Reads `double precision`, `real`, `numeric` (rounded) and the integer types that fit exactly.
  public static func decode(_ field: PostgresField?) throws(FieldError) -> Double {
    guard let field else { throw .unexpectedNull(Self.self) }
    switch field.type {
    case .float8: return Double(bitPattern: try field.integer(UInt64.self))
    case .float4: return Double(Float(bitPattern: try field.integer(UInt32.self)))
    case .int4: return Double(try field.integer(Int32.self))
    case .int2: return Double(try field.integer(Int16.self))
    case .numeric:
      guard let value = Double(try Numeric.text(of: field)) else { throw .malformed(.numeric) }
      return value
    default: throw .mismatch(field.type, Self.self)
    }
  }
}

extension Double: PostgresArrayElement, PostgresDecodableElement {
  /// `double precision`
  public static var postgresElementType: PostgresType { .float8 }
  /// `double precision[]`
  public static var postgresArrayType: PostgresType { .float8Array }

  /// Appends eight bytes.
  public func encodeElement(into bytes: inout [UInt8]) -> Bool {
    bytes.append(bigEndian: bitPattern)
    return true
  }
}
