import CLibpq

/// The values bound to a query, in the layout that libpq's `PQsendQueryParams` takes: parallel
/// arrays of types, lengths and formats, and all bytes in one buffer.
public struct PostgresParameters: Sendable {
  private(set) var bytes: [UInt8] = []
  private(set) var types: [Oid] = []
  private(set) var formats: [Int32] = []
  private(set) var lengths: [Int32] = []
  /// Where each value starts in `bytes`; -1 is NULL.
  private(set) var offsets: [Int] = []
  /// The first value that cannot be sent, as a sentence; sending the query throws it.
  private(set) var problem: String?

  init() {}

  init(reserving count: Int) {
    types.reserveCapacity(count)
    formats.reserveCapacity(count)
    lengths.reserveCapacity(count)
    offsets.reserveCapacity(count)
  }

  /// How many values are bound.
  public var count: Int { types.count }

  /// Binds NULL.
  public mutating func appendNull(_ type: PostgresType) {
    append(type, format: 0, offset: -1, length: 0)
  }

  /// Binds a value in its text form. Text with a NUL character cannot be stored by PostgreSQL;
  /// such a query throws `.encoding` when it is sent.
  public mutating func appendText(_ text: some StringProtocol, _ type: PostgresType) {
    let offset = bytes.count
    bytes.append(contentsOf: text.utf8)
    // libpq measures text with strlen, so a NUL inside would silently cut the value.
    if bytes[offset...].contains(0) { refuse("text cannot hold a NUL character") }
    append(type, format: 0, offset: offset, length: bytes.count - offset)
    bytes.append(0)
  }

  /// Binds a value in its binary form, which `write` appends to the buffer.
  public mutating func appendBinary(_ type: PostgresType, _ write: (inout [UInt8]) -> Void) {
    let offset = bytes.count
    write(&bytes)
    append(type, format: 1, offset: offset, length: bytes.count - offset)
    // Keeps the buffer from being empty, so that an empty value has an address and is not NULL.
    bytes.append(0)
  }

  /// Makes NULL of the value that was bound last.
  @usableFromInline
  mutating func makeLastNull() {
    offsets[offsets.count - 1] = -1
  }

  /// Binds all values of others, after those that are here.
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

  /// Calls `body` with the arrays as libpq wants them. `values` point into one buffer and are
  /// valid only during the call.
  func withUnsafeValues<R>(
    _ body: (_ count: Int32, _ values: UnsafePointer<UnsafePointer<CChar>?>?) throws -> R
  ) rethrows -> R {
    if offsets.isEmpty { return try body(0, nil) }
    return try bytes.withUnsafeBytes { buffer in
      try withUnsafeTemporaryAllocation(of: UnsafePointer<CChar>?.self, capacity: offsets.count) { values in
        for (index, offset) in offsets.enumerated() {
          // A null pointer means NULL to libpq.
          let value = offset < 0 ? nil : buffer.baseAddress.map { $0 + offset }
          values.initializeElement(at: index, to: value?.assumingMemoryBound(to: CChar.self))
        }
        return try body(Int32(offsets.count), UnsafePointer(values.baseAddress))
      }
    }
  }
}
