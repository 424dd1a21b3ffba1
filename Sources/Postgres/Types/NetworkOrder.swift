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
