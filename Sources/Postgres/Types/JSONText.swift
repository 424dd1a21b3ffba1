/// JSON as text, bound as `jsonb` and read from `jsonb`, `json` and the text types.
public struct JSONText: Hashable, Sendable {
  /// The JSON.
  public var text: String

  /// JSON from a text, which is not validated; the server refuses invalid JSON (22P02).
  public init(_ text: String) {
    self.text = text
  }

  /// JSON from bytes; invalid UTF-8 is replaced as by `String(decoding:as:)`.
  public init(utf8 bytes: some Collection<UInt8>) {
    self.text = String(decoding: bytes, as: UTF8.self)
  }
}

extension JSONText: PostgresEncodable, PostgresDecodable {
  /// `jsonb`; PostgreSQL assigns it to `json` columns too.
  public static var postgresType: PostgresType { .jsonb }

  /// Appends the text.
  public func encode(into parameters: inout PostgresParameters) {
    parameters.appendBinary(.jsonb) { _ = encodeElement(into: &$0) }
  }

  /// Reads `jsonb`, `json` and the text types.
  public static func decode(_ field: PostgresField?) throws(FieldError) -> JSONText {
    guard let field else { throw .unexpectedNull(Self.self) }
    guard field.type == .jsonb else {
      guard field.type.isTextual else { throw .mismatch(field.type, Self.self) }
      return JSONText(try String.decode(field))
    }
    guard field.bytes.first == version,
      let text = String(utf8: UnsafeRawBufferPointer(rebasing: field.bytes.dropFirst()))
    else { throw .malformed(.jsonb) }
    return JSONText(text)
  }

  /// The only version of jsonb's binary format (`jsonb_recv` in PostgreSQL's `jsonb.c`).
  private static let version: UInt8 = 1
}

extension JSONText: PostgresArrayElement, PostgresDecodableElement {
  /// `jsonb`
  public static var postgresElementType: PostgresType { .jsonb }
  /// `jsonb[]`
  public static var postgresArrayType: PostgresType { .jsonbArray }

  /// Appends the version of the binary format and the text.
  public func encodeElement(into bytes: inout [UInt8]) -> Bool {
    bytes.append(Self.version)
    bytes.append(contentsOf: text.utf8)
    return true
  }
}
