import CLibpq

/// The bound values of a query, in the layout of libpq's `PQsendQueryParams`: parallel arrays of types, lengths and
/// formats, and all bytes in one buffer.
public struct PostgresParameters: Sendable {
  private(set) var bytes: [UInt8] = []
  private(set) var types: [Oid] = []
  private(set) var formats: [Int32] = []
  private(set) var lengths: [Int32] = []
  /// The start of each value in `bytes`; -1 for NULL.
  private(set) var offsets: [Int] = []
  /// The reason why the first bad value cannot be sent; sending the query throws it.
  private(set) var problem: String?

  init() {}

  init(reserving count: Int) {
    types.reserveCapacity(count)
    formats.reserveCapacity(count)
    lengths.reserveCapacity(count)
    offsets.reserveCapacity(count)
  }

  /// The number of bound values.
  public var count: Int { types.count }

  /// Binds NULL.
  public mutating func appendNull(_ type: PostgresType) {
    append(type, format: 0, offset: -1, length: 0)
  }

  /// Binds a value in text format. PostgreSQL cannot store a NUL character; such a query throws `.encoding` when it is
  /// sent.
  public mutating func appendText(_ text: some StringProtocol, _ type: PostgresType) {
    let offset = bytes.count
    bytes.append(contentsOf: text.utf8)
    // libpq uses strlen, so a NUL would silently truncate the value.
    if bytes[offset...].contains(0) { refuse("text cannot hold a NUL character") }
    append(type, format: 0, offset: offset, length: bytes.count - offset)
    bytes.append(0)
  }

  /// Binds a value in binary format, which `write` appends to the buffer.
  public mutating func appendBinary(_ type: PostgresType, _ write: (inout [UInt8]) -> Void) {
    let offset = bytes.count
    write(&bytes)
    append(type, format: 1, offset: offset, length: bytes.count - offset)
    // The buffer must not be empty, so that an empty value has an address and is not NULL.
    bytes.append(0)
  }

  /// Replaces the last value by NULL.
  @usableFromInline
  mutating func makeLastNull() {
    offsets[offsets.count - 1] = -1
  }

  /// Appends all values of `others`.
  mutating func append(_ others: PostgresParameters) {
    let start = bytes.count
    bytes += others.bytes
    types += others.types
    formats += others.formats
    lengths += others.lengths
    for offset in others.offsets { offsets.append(offset < 0 ? offset : offset + start) }
    if problem == nil { problem = others.problem }
  }

  private mutating func append(_ type: PostgresType, format: Int32, offset: Int, length: Int) {
    if length > Int32.max { refuse("a value is longer than 2 GiB") }
    types.append(type.oid)
    formats.append(format)
    lengths.append(Int32(truncatingIfNeeded: length))
    offsets.append(offset)
  }

  private mutating func refuse(_ reason: String) {
    if problem == nil { problem = "parameter $\(count + 1): \(reason)" }
  }

  /// Calls `body` with libpq's array of pointers, which are valid only during the call.
  func withUnsafeValues<R>(
    _ body: (_ count: Int32, _ values: UnsafePointer<UnsafePointer<CChar>?>?) throws -> R
  ) rethrows -> R {
    if offsets.isEmpty { return try body(0, nil) }
    return try bytes.withUnsafeBytes { buffer in
      try withUnsafeTemporaryAllocation(of: UnsafePointer<CChar>?.self, capacity: offsets.count) { values in
        for (index, offset) in offsets.enumerated() {
          // For libpq a null pointer is NULL.
          let value = offset < 0 ? nil : buffer.baseAddress.map { $0 + offset }
          values.initializeElement(at: index, to: value?.assumingMemoryBound(to: CChar.self))
        }
        return try body(Int32(offsets.count), UnsafePointer(values.baseAddress))
      }
    }
  }
}
