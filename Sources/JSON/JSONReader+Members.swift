import Foundation

/// The member names of an object type.
public struct JSONNames<Name: CaseIterable & RawRepresentable<String> & Sendable>: Sendable {
  @usableFromInline let names: [Name]
  @usableFromInline let table: JSONNameTable

  /// The raw values of all cases, at most 64.
  public init() {
    names = Array(Name.allCases)
    table = JSONNameTable(names.map(\.rawValue))
    precondition(names.count <= UInt64.bitWidth, "an object type may have at most 64 member names")
  }
}

/// Iterates over the members of an object. Members with other names and repeated members are validated and skipped.
public struct JSONNamedMembers<Name: CaseIterable & RawRepresentable<String> & Sendable>: Sendable {
  @usableFromInline let names: JSONNames<Name>
  @usableFromInline var cursor: JSONCursor
  /// A bit for each name that was found.
  @usableFromInline var found: UInt64 = 0

  @usableFromInline
  init(names: JSONNames<Name>, cursor: JSONCursor) {
    self.names = names
    self.cursor = cursor
  }

  /// The name of the next member, whose value the caller then must read; nil at the end of the object.
  @inlinable
  public mutating func next(in json: inout JSONReader) throws(JSONFailure) -> Name? {
    try json.nextMember(&cursor, of: names.table, found: &found).map { names.names[$0] }
  }

  /// - Throws: ``JSONFailure/Reason/missing(_:)`` for the first of these names that was not found.
  public func require(_ required: Name...) throws(JSONFailure) {
    for name in required where !names.table.contains(name.rawValue, in: found) {
      throw JSONFailure(.missing(name.rawValue), at: cursor.start)
    }
  }
}

extension JSONReader {
  /// Begins an object. Call ``JSONNamedMembers/next(in:)`` until it returns nil.
  @inlinable
  public mutating func members<Name>(of names: JSONNames<Name>) throws(JSONFailure) -> JSONNamedMembers<Name>
  {
    JSONNamedMembers(names: names, cursor: try beginNamedObject())
  }

  @usableFromInline
  mutating func beginNamedObject() throws(JSONFailure) -> JSONCursor { try beginObject() }

  /// The index of the next member's name that is in the table and not in `found`.
  @usableFromInline
  mutating func nextMember(
    _ cursor: inout JSONCursor, of table: JSONNameTable, found: inout UInt64
  ) throws(JSONFailure) -> Int? {
    while try hasNextMember(&cursor) {
      let index = try name(in: table)
      try colon()
      if let index, found & 1 << UInt64(index) == 0 {
        found |= 1 << UInt64(index)
        return index
      }
      try skip()
    }
    return nil
  }

  private mutating func name(in table: JSONNameTable) throws(JSONFailure) -> Int? {
    let start = position
    if let plain = try plainString() { return bytes.withUnsafeBytes { table.index(of: $0[plain]) } }
    // A name with escapes is the same name.
    position = start
    var name = try string()
    return name.withUTF8 { table.index(of: UnsafeRawBufferPointer($0)[...]) }
  }
}

/// A hash table of member names.
public struct JSONNameTable: Sendable {
  /// A hash of the length and the first and last bytes of each name. Names with another hash are not compared.
  private let keys: [UInt64]
  private let names: [[UInt8]]

  /// A table of these names.
  public init(_ names: [String]) {
    self.names = names.map { Array($0.utf8) }
    keys = self.names.map { $0.withUnsafeBytes { Self.key($0[...]) } }
  }

  /// Whether the bytes are a name in the table.
  public func contains(_ name: ArraySlice<UInt8>) -> Bool {
    name.withUnsafeBytes { index(of: $0[...]) != nil }
  }

  func index(of name: UnsafeRawBufferPointer.SubSequence) -> Int? {
    let key = Self.key(name)
    for index in keys.indices where keys[index] == key && Self.isSame(names[index], name) { return index }
    return nil
  }

  private static func isSame(_ a: [UInt8], _ b: UnsafeRawBufferPointer.SubSequence) -> Bool {
    guard a.count == b.count, let theirs = UnsafeRawBufferPointer(rebasing: b).baseAddress else {
      return a.count == b.count
    }
    return a.withUnsafeBytes { ours in ours.baseAddress.map { memcmp($0, theirs, a.count) == 0 } ?? true }
  }

  /// Whether the bit of a name is set.
  func contains(_ name: String, in found: UInt64) -> Bool {
    var name = name
    let index = name.withUTF8 { self.index(of: UnsafeRawBufferPointer($0)[...]) }
    return index.map { found & 1 << UInt64($0) != 0 } ?? false
  }

  private static func key(_ name: UnsafeRawBufferPointer.SubSequence) -> UInt64 {
    let bytes = UnsafeRawBufferPointer(rebasing: name)
    guard bytes.count >= 8 else {
      return bytes.reduce(UInt64(bytes.count)) { $0 << 8 | UInt64($1) }
    }
    let first = bytes.loadUnaligned(as: UInt64.self)
    let last = bytes.loadUnaligned(fromByteOffset: bytes.count - 8, as: UInt64.self)
    return first ^ last &* 0x9E37_79B9_7F4A_7C15 ^ UInt64(bytes.count)
  }
}
