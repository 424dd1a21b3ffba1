public import Foundation

// `[UInt8]` is an array in Swift and one value in PostgreSQL, so `UInt8` has its own array encoding.
extension UInt8: PostgresArrayElement, PostgresDecodableElement {
  /// `bytea`: bytes have no element type of their own.
  public static var postgresElementType: PostgresType { .bytea }
  /// `bytea`
  public static var postgresArrayType: PostgresType { .bytea }

  /// Appends the byte.
  public func encodeElement(into bytes: inout [UInt8]) -> Bool {
    bytes.append(self)
    return true
  }

  /// Appends the bytes as one `bytea`.
  public static func encodeArray(_ array: [UInt8], into parameters: inout PostgresParameters) {
    parameters.appendBinary(.bytea) { $0.append(contentsOf: array) }
  }

  /// Always throws: `decodeArray` reads bytes.
  public static func decodeElement(_ field: PostgresField?) throws(FieldError) -> UInt8 {
    throw FieldError("holds bytes, which are read as [UInt8]")
  }

  /// Reads a `bytea`.
  public static func decodeArray(_ field: PostgresField) throws(FieldError) -> [UInt8] {
    guard field.type == .bytea else { throw .mismatch(field.type, [UInt8].self) }
    return [UInt8](field.bytes)
  }
}

extension Array: PostgresArrayElement where Element == UInt8 {
  /// `bytea`
  public static var postgresElementType: PostgresType { .bytea }
  /// `bytea[]`
  public static var postgresArrayType: PostgresType { .byteaArray }

  /// Appends the bytes.
  public func encodeElement(into bytes: inout [UInt8]) -> Bool {
    bytes.append(contentsOf: self)
    return true
  }
}

extension Array: PostgresDecodableElement where Element == UInt8 {
  /// Reads a `bytea` inside an array.
  public static func decodeElement(_ field: PostgresField?) throws(FieldError) -> [UInt8] {
    try decode(field)
  }
}

extension ArraySlice: PostgresEncodable where Element == UInt8 {
  /// `bytea`
  public static var postgresType: PostgresType { .bytea }

  /// Appends the bytes.
  public func encode(into parameters: inout PostgresParameters) {
    parameters.appendBinary(.bytea) { $0.append(contentsOf: self) }
  }
}

extension Data: PostgresEncodable, PostgresDecodable {
  /// `bytea`
  public static var postgresType: PostgresType { .bytea }

  /// Appends the bytes.
  public func encode(into parameters: inout PostgresParameters) {
    parameters.appendBinary(.bytea) { $0.append(contentsOf: self) }
  }

  /// Reads a `bytea`.
  public static func decode(_ field: PostgresField?) throws(FieldError) -> Data {
    guard let field else { throw .unexpectedNull(Self.self) }
    guard field.type == .bytea else { throw .mismatch(field.type, Data.self) }
    return Data(field.bytes)
  }
}
