import Glibc

/// The names that the members of an object may have.
public struct JSONNames<Name: CaseIterable & RawRepresentable<String> & Sendable>: Sendable {
  @usableFromInline let names: [Name]
  @usableFromInline let table: JSONNameTable

  /// The raw values of all cases, of which there may be 64.
  public init() {
    names = Array(Name.allCases)
    table = JSONNameTable(names.map(\.rawValue))
    precondition(names.count <= UInt64.bitWidth, "JSONNamedMembers remembers 64 names")
  }
}

/// The members of the object that is being read, by their names. Members of other names are checked and passed
/// over, and so is a second one of the same name.
public struct JSONNamedMembers<Name: CaseIterable & RawRepresentable<String> & Sendable>: Sendable {
  @usableFromInline let names: JSONNames<Name>
  @usableFromInline var cursor: JSONCursor
  /// A bit for each name that was there.
  @usableFromInline var found: UInt64 = 0

  @usableFromInline
  init(names: JSONNames<Name>, cursor: JSONCursor) {
    self.names = names
    self.cursor = cursor
  }

  /// The name of the next member, whose value then must be read; nil if there is none, and the object is behind
  /// the reader.
  @inlinable
  public mutating func next(in json: inout JSONReader) throws(JSONFailure) -> Name? {
    try json.nextMember(&cursor, of: names.table, found: &found).map { names.names[$0] }
  }

  /// Throws for the first of these names that was not there.
  public func require(_ required: Name...) throws(JSONFailure) {
    for name in required where !names.table.contains(name.rawValue, in: found) {
      throw JSONFailure(.missing(name.rawValue), at: cursor.start)
    }
  }
}

extension JSONReader {
  /// Goes into an object. ``JSONNamedMembers/next(in:)`` is to be asked until there is none.
  @inlinable
  public mutating func members<Name>(of names: JSONNames<Name>) throws(JSONFailure) -> JSONNamedMembers<Name>
  {
    JSONNamedMembers(names: names, cursor: try beginNamedObject())
  }

  @usableFromInline
  mutating func beginNamedObject() throws(JSONFailure) -> JSONCursor { try beginObject() }

  /// The place in the table of the next member's name, which is not in `found` yet.
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
    // One can write a name with escapes, and it is the same name.
    position = start
    var name = try string()
    return name.withUTF8 { table.index(of: UnsafeRawBufferPointer($0)[...]) }
  }
}

/// Finds names among a few dozen.
public struct JSONNameTable: Sendable {
  /// Length, first and last bytes of each name in one number: names that differ in it are not compared.
  private let keys: [UInt64]
  private let names: [[UInt8]]

  /// A table of some names.
  public init(_ names: [String]) {
    self.names = names.map { Array($0.utf8) }
    keys = self.names.map { $0.withUnsafeBytes { Self.key($0[...]) } }
  }

  /// Whether the bytes are one of the names.
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
