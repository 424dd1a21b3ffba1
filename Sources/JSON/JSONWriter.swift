/// Writes JSON (RFC 8259) in UTF-8, on one line.
///
/// It writes commas and quotation marks. The caller must write members in objects and elements in arrays. Only the
/// characters that RFC 8259 §7 requires are escaped: quotation mark, backslash and control characters.
public struct JSONWriter: Sendable {
  /// The JSON so far.
  public private(set) var bytes: [UInt8] = []
  /// Whether the current object or array has a member or element.
  private var hasElement = false

  /// - Parameter capacity: the expected length in bytes.
  public init(capacity: Int = 0) { bytes.reserveCapacity(capacity) }

  /// The JSON of a value.
  @inlinable
  public static func bytes(of value: some JSONWritable, capacity: Int = 1024) -> [UInt8] {
    var json = JSONWriter(capacity: capacity)
    value.write(to: &json)
    return json.bytes
  }

  /// An object.
  @inlinable
  public mutating func object(_ members: (inout JSONWriter) -> Void) {
    begin("{")
    members(&self)
    end("}")
  }

  /// A member of the current object.
  ///
  /// - Parameter name: must not need escapes.
  @inlinable
  public mutating func member(_ name: StaticString, _ value: some JSONWritable) {
    self.name(name)
    value.write(to: &self)
  }

  /// A member that is omitted for nil.
  @inlinable
  public mutating func member(_ name: StaticString, ifPresent value: (some JSONWritable)?) {
    if let value { member(name, value) }
  }

  /// A member with any name.
  @inlinable
  public mutating func member(named name: String, _ value: some JSONWritable) {
    separate()
    string(name)
    colon()
    value.write(to: &self)
  }

  /// The members of an object that is JSON already.
  ///
  /// - Parameter object: a valid JSON object.
  public mutating func members(of object: [UInt8]) {
    guard let start = object.firstIndex(of: UInt8(ascii: "{")),
      let end = object.lastIndex(of: UInt8(ascii: "}"))
    else { return }
    let members = object[(start + 1)..<end]
    guard members.contains(where: { $0 > UInt8(ascii: " ") }) else { return }
    separate()
    bytes.append(contentsOf: members)
  }

  /// An array.
  @inlinable
  public mutating func array(_ elements: some Sequence<some JSONWritable>) {
    begin("[")
    for element in elements {
      separate()
      element.write(to: &self)
    }
    end("]")
  }

  /// A string.
  public mutating func string(_ text: String) {
    var text = text
    text.withUTF8 { string(utf8: $0) }
  }

  /// A string from UTF-8 bytes.
  public mutating func string(utf8 text: UnsafeBufferPointer<UInt8>) {
    bytes.append(UInt8(ascii: "\""))
    let isPlain = UnsafeRawBufferPointer(text).endOfPlainText(from: 0) == text.count
    if isPlain { bytes.append(contentsOf: text) } else { appendEscaped(text) }
    bytes.append(UInt8(ascii: "\""))
  }

  /// A whole number.
  public mutating func integer(_ value: Int64) {
    if value < 0 { bytes.append(UInt8(ascii: "-")) }
    // The digits are made from the last to the first; Int64.min has 19.
    withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 20) { digits in
      var rest = value.magnitude
      var start = digits.count
      repeat {
        start -= 1
        digits[start] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
        rest /= 10
      } while rest > 0
      bytes.append(contentsOf: digits[start...])
    }
  }

  /// The shortest text that is read as the same number; `null` for infinities and NaN, which JSON does not have.
  public mutating func number(_ value: Double) {
    guard value.isFinite else { return null() }
    let text = value.description
    // 5 instead of 5.0, as other encoders.
    bytes.append(contentsOf: text.utf8.dropLast(text.hasSuffix(".0") ? 2 : 0))
  }

  /// `true` or `false`.
  public mutating func boolean(_ value: Bool) { append(value ? "true" : "false") }

  /// `null`.
  public mutating func null() { append("null") }

  @usableFromInline
  mutating func begin(_ bracket: Unicode.Scalar) {
    bytes.append(UInt8(ascii: bracket))
    hasElement = false
  }

  @usableFromInline
  mutating func end(_ bracket: Unicode.Scalar) {
    bytes.append(UInt8(ascii: bracket))
    // The container is an element of the enclosing one.
    hasElement = true
  }

  @usableFromInline
  mutating func separate() {
    if hasElement { bytes.append(UInt8(ascii: ",")) }
    hasElement = true
  }

  @usableFromInline
  mutating func colon() { bytes.append(UInt8(ascii: ":")) }

  @usableFromInline
  mutating func name(_ name: StaticString) {
    separate()
    bytes.append(UInt8(ascii: "\""))
    append(name)
    bytes.append(UInt8(ascii: "\""))
    colon()
  }

  private mutating func append(_ text: StaticString) {
    text.withUTF8Buffer { bytes.append(contentsOf: $0) }
  }

  private mutating func appendEscaped(_ text: UnsafeBufferPointer<UInt8>) {
    for byte in text {
      switch byte {
      case UInt8(ascii: "\""): append(#"\""#)
      case UInt8(ascii: "\\"): append(#"\\"#)
      case 0x08: append(#"\b"#)
      case 0x09: append(#"\t"#)
      case 0x0A: append(#"\n"#)
      case 0x0C: append(#"\f"#)
      case 0x0D: append(#"\r"#)
      case ..<0x20:
        append(#"\u00"#)
        bytes.append(UInt8(ascii: "0") + byte >> 4)
        bytes.append(byte & 15 < 10 ? UInt8(ascii: "0") + byte & 15 : UInt8(ascii: "a") + byte & 15 - 10)
      default: bytes.append(byte)
      }
    }
  }
}

/// A type that a ``JSONWriter`` can write.
///
/// The types of frequent responses conform to it instead of `Encodable`, which uses existential values and a dictionary
/// for each object.
public protocol JSONWritable {
  /// Writes exactly one value.
  func write(to json: inout JSONWriter)
}

extension String: JSONWritable {
  /// A string.
  @inlinable
  public func write(to json: inout JSONWriter) { json.string(self) }
}

extension Bool: JSONWritable {
  /// `true` or `false`.
  @inlinable
  public func write(to json: inout JSONWriter) { json.boolean(self) }
}

extension Int: JSONWritable {
  /// A number.
  @inlinable
  public func write(to json: inout JSONWriter) { json.integer(Int64(self)) }
}

extension Int64: JSONWritable {
  /// A number.
  @inlinable
  public func write(to json: inout JSONWriter) { json.integer(self) }
}

extension Double: JSONWritable {
  /// A number.
  @inlinable
  public func write(to json: inout JSONWriter) { json.number(self) }
}

extension Optional: JSONWritable where Wrapped: JSONWritable {
  /// The value, or `null`. ``JSONWriter/member(_:ifPresent:)`` omits the member instead.
  @inlinable
  public func write(to json: inout JSONWriter) {
    if let self { self.write(to: &json) } else { json.null() }
  }
}

extension Array: JSONWritable where Element: JSONWritable {
  /// An array.
  @inlinable
  public func write(to json: inout JSONWriter) { json.array(self) }
}

extension Dictionary: JSONWritable where Key == String, Value: JSONWritable {
  /// An object, with its members in the order of their names' bytes.
  public func write(to json: inout JSONWriter) {
    json.object { json in
      for (name, value) in sorted(by: { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }) {
        json.member(named: name, value)
      }
    }
  }
}
