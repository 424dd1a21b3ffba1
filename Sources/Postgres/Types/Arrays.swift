extension Array: PostgresEncodable where Element: PostgresArrayElement {
  /// The array type of the elements; `bytea` for bytes.
  @inlinable public static var postgresType: PostgresType { Element.postgresArrayType }

  /// Appends the array as one value.
  @inlinable
  public func encode(into parameters: inout PostgresParameters) {
    Element.encodeArray(self, into: &parameters)
  }
}

extension Array: PostgresDecodable where Element: PostgresDecodableElement {
  /// Reads an array of one dimension; `bytea` for bytes.
  @inlinable
  public static func decode(_ field: PostgresField?) throws(FieldError) -> [Element] {
    guard let field else { throw .unexpectedNull(Self.self) }
    return try Element.decodeArray(field)
  }
}

extension Optional: PostgresArrayElement where Wrapped: PostgresArrayElement {
  /// The type of the wrapped element.
  @inlinable public static var postgresElementType: PostgresType { Wrapped.postgresElementType }
  /// The array type of the wrapped element.
  @inlinable public static var postgresArrayType: PostgresType { Wrapped.postgresArrayType }

  /// Appends the wrapped element and returns true, or returns false for nil.
  @inlinable
  public func encodeElement(into bytes: inout [UInt8]) -> Bool {
    guard let self else { return false }
    return self.encodeElement(into: &bytes)
  }
}

extension Optional: PostgresDecodableElement where Wrapped: PostgresDecodableElement {
  /// Reads the wrapped element, or nil for NULL.
  @inlinable
  public static func decodeElement(_ field: PostgresField?) throws(FieldError) -> Wrapped? {
    guard let field else { return nil }
    return try Wrapped.decodeElement(field)
  }
}

extension PostgresDecodableElement where Self: PostgresDecodable {
  /// Reads an element as the type's own columns are read.
  @inlinable
  public static func decodeElement(_ field: PostgresField?) throws(FieldError) -> Self {
    try decode(field)
  }
}

// The binary format (`array_send` in PostgreSQL's `arrayfuncs.c`) has 32-bit integers: the number of dimensions,
// whether there are NULLs, the element's type, for each dimension its length and lowest index, and for each element its
// length (-1 for NULL) and its bytes.

extension PostgresArrayElement {
  /// Appends an array of one dimension in binary format.
  @inlinable
  public static func encodeArray(_ array: [Self], into parameters: inout PostgresParameters) {
    parameters.appendBinary(postgresArrayType) { bytes in
      bytes.append(bigEndian: Int32(array.isEmpty ? 0 : 1))
      let flag = bytes.count
      bytes.append(bigEndian: Int32(0))
      bytes.append(bigEndian: postgresElementType.oid)
      if array.isEmpty { return }
      bytes.append(bigEndian: Int32(truncatingIfNeeded: array.count))
      bytes.append(bigEndian: Int32(1))
      for element in array {
        let start = bytes.count
        bytes.append(bigEndian: Int32(-1))
        guard element.encodeElement(into: &bytes) else {
          bytes[flag + 3] = 1
          continue
        }
        let length = UInt32(truncatingIfNeeded: bytes.count - start - 4)
        for byte in 0..<4 { bytes[start + byte] = UInt8(truncatingIfNeeded: length >> (24 - 8 * byte)) }
      }
    }
  }
}

extension PostgresParameters {
  /// Binds an array element as a value of its own.
  @inlinable
  mutating func append<Element: PostgresArrayElement>(element: Element) {
    var isNull = false
    appendBinary(Element.postgresElementType) { bytes in isNull = !element.encodeElement(into: &bytes) }
    if isNull { makeLastNull() }
  }
}

extension PostgresDecodableElement {
  /// Reads an array of one dimension in binary format.
  @inlinable
  public static func decodeArray(_ field: PostgresField) throws(FieldError) -> [Self] {
    let bytes = field.bytes
    guard bytes.count >= 12, !field.type.isTextual else { throw .mismatch(field.type, [Self].self) }
    let dimensions = bytes.bigEndian(at: 0, as: Int32.self)
    let type = PostgresType(oid: bytes.bigEndian(at: 8))
    if dimensions == 0, bytes.count == 12 { return [] }
    guard dimensions == 1, bytes.count >= 20 else {
      throw FieldError("is not an array of one dimension")
    }
    let count = Int(bytes.bigEndian(at: 12, as: Int32.self))
    guard count >= 0, count <= (bytes.count - 20) / 4 else { throw .malformed(field.type) }

    var array: [Self] = []
    array.reserveCapacity(count)
    var offset = 20
    for _ in 0..<count {
      guard bytes.count - offset >= 4 else { throw .malformed(field.type) }
      let length = Int(bytes.bigEndian(at: offset, as: Int32.self))
      offset += 4
      if length < 0 {
        array.append(try decodeElement(nil))
        continue
      }
      guard bytes.count - offset >= length else { throw .malformed(field.type) }
      let element = UnsafeRawBufferPointer(rebasing: bytes[offset..<offset + length])
      array.append(try decodeElement(PostgresField(type: type, bytes: element)))
      offset += length
    }
    return array
  }
}
