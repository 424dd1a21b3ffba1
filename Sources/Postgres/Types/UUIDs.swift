public import Foundation

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
