import Foundation

extension String: PostgresEncodable, PostgresDecodable {
  /// Inferred, as for a quoted literal: fits text, uuid, enumerations, dates and so on.
  public static var postgresType: PostgresType { .inferred }

  /// Appends the characters. A NUL among them makes the query fail with `.encoding`.
  public func encode(into parameters: inout PostgresParameters) {
    parameters.appendText(self, .inferred)
  }

  /// Reads the text types, enumerations, `json`, `jsonb`, `uuid` (in lower case), integers and
  /// `numeric`. Other types need `::text` in the query.
  public static func decode(_ field: PostgresField?) throws(FieldError) -> String {
    guard let field else { throw .unexpectedNull(Self.self) }
    switch field.type {
    case .int2: return String(try field.integer(Int16.self))
    case .int4: return String(try field.integer(Int32.self))
    case .int8: return String(try field.integer(Int64.self))
    case .numeric: return try Numeric.text(of: field)
    case .uuid: return try UUID.decode(field).uuidString.lowercased()
    case .jsonb: return try JSONText.decode(field).text
    default:
      guard field.type.isTextual else { throw .mismatch(field.type, Self.self) }
      guard let text = String(utf8: field.bytes) else { throw .malformed(field.type) }
      return text
    }
  }
}

extension String {
  /// The text, or nil for bytes that are not UTF-8. `String(validating:as:)` takes two and a half times as long.
  init?(utf8 bytes: UnsafeRawBufferPointer) {
    let text: String? = bytes.withMemoryRebound(to: UInt8.self) { bytes in
      guard let text = try? UTF8Span(validating: bytes.span) else { return nil }
      return String(copying: text)
    }
    guard let text else { return nil }
    self = text
  }
}

extension [UInt8] {
  /// Appends the text as one run of bytes.
  mutating func append(utf8 text: String) {
    var text = text
    text.withUTF8 { append(contentsOf: $0) }
  }
}

extension String: PostgresArrayElement, PostgresDecodableElement {
  /// `text`
  public static var postgresElementType: PostgresType { .text }
  /// `text[]`
  public static var postgresArrayType: PostgresType { .textArray }

  /// Appends the characters; the server refuses a NUL among them (22021).
  public func encodeElement(into bytes: inout [UInt8]) -> Bool {
    bytes.append(utf8: self)
    return true
  }
}

extension Bool: PostgresEncodable, PostgresDecodable {
  /// `boolean`
  public static var postgresType: PostgresType { .bool }

  /// Appends one byte.
  public func encode(into parameters: inout PostgresParameters) {
    parameters.appendBinary(.bool) { $0.append(self ? 1 : 0) }
  }

  /// Reads `boolean`.
  public static func decode(_ field: PostgresField?) throws(FieldError) -> Bool {
    guard let field else { throw .unexpectedNull(Self.self) }
    guard field.type == .bool else { throw .mismatch(field.type, Self.self) }
    return try field.integer(UInt8.self) != 0
  }
}

extension Bool: PostgresArrayElement, PostgresDecodableElement {
  /// `boolean`
  public static var postgresElementType: PostgresType { .bool }
  /// `boolean[]`
  public static var postgresArrayType: PostgresType { .boolArray }

  /// Appends one byte.
  public func encodeElement(into bytes: inout [UInt8]) -> Bool {
    bytes.append(self ? 1 : 0)
    return true
  }
}

/// Text as UTF-8 bytes.
public struct UTF8Text: Hashable, Sendable {
  /// The bytes.
  public var bytes: [UInt8]

  /// Text from bytes, which are not validated; the server refuses invalid UTF-8 and NUL (22021).
  public init(_ bytes: [UInt8]) {
    self.bytes = bytes
  }
}

extension UTF8Text: PostgresArrayElement {
  /// `text`
  public static var postgresElementType: PostgresType { .text }
  /// `text[]`
  public static var postgresArrayType: PostgresType { .textArray }

  /// Appends the bytes.
  public func encodeElement(into bytes: inout [UInt8]) -> Bool {
    bytes.append(contentsOf: self.bytes)
    return true
  }
}

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
    bytes.append(utf8: text)
    return true
  }
}
