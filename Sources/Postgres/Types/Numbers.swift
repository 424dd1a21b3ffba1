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

/// The binary format of `numeric`: the number of groups of four decimal digits, the power of 10,000 of the first group,
/// the sign, the number of digits after the point, and the groups, each in 16 bits (`numeric_send` in PostgreSQL's
/// `numeric.c`).
enum Numeric {
  private static let negative: UInt16 = 0x4000
  private static let notANumber: UInt16 = 0xC000
  private static let positiveInfinity: UInt16 = 0xD000
  private static let negativeInfinity: UInt16 = 0xF000

  /// The number in the server's text format.
  static func text(of field: PostgresField) throws(FieldError) -> String {
    let bytes = field.bytes
    guard bytes.count >= 8 else { throw .malformed(.numeric) }
    let count = Int(bytes.bigEndian(at: 0, as: UInt16.self))
    let weight = Int(bytes.bigEndian(at: 2, as: Int16.self))
    let sign = bytes.bigEndian(at: 4, as: UInt16.self)
    let scale = Int(bytes.bigEndian(at: 6, as: UInt16.self))
    guard bytes.count == 8 + 2 * count else { throw .malformed(.numeric) }

    switch sign {
    case notANumber: return "NaN"
    case positiveInfinity: return "Infinity"
    case negativeInfinity: return "-Infinity"
    default: break
    }

    /// The group for 10,000 to the power of `power`; 0 if it was not sent.
    func group(_ power: Int) -> Int {
      let index = weight - power
      return index >= 0 && index < count ? Int(bytes.bigEndian(at: 8 + 2 * index, as: UInt16.self)) : 0
    }

    var text = sign == negative ? "-" : ""
    text += String(group(max(weight, 0)))
    for power in stride(from: weight - 1, through: 0, by: -1) { text += padded(group(power)) }
    if scale > 0 {
      var fraction = ""
      var power = -1
      while fraction.utf8.count < scale {
        fraction += padded(group(power))
        power -= 1
      }
      text += "." + fraction.prefix(scale)
    }
    return text
  }

  private static func padded(_ group: Int) -> String {
    let digits = String(group)
    return String(repeating: "0", count: max(0, 4 - digits.utf8.count)) + digits
  }
}
