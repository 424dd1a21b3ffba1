/// Writes JSON (RFC 8259) in UTF-8, on one line.
///
/// Commas and quotation marks are its work; that an object has members and an array elements is the caller's.
/// Of what RFC 8259 §7 lets one escape, only what must be is escaped: quotation mark, backslash and the control
/// characters, those by their letter where they have one.
public struct JSONWriter: Sendable {
  /// What was written.
  public private(set) var bytes: [UInt8] = []
  /// Whether something stands before in the object or array that is being written.
  private var hasElement = false

  /// - Parameter capacity: about how many bytes will be written.
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

  /// A member of the object that is being written.
  ///
  /// - Parameter name: needs no escapes.
  @inlinable
  public mutating func member(_ name: StaticString, _ value: some JSONWritable) {
    self.name(name)
    value.write(to: &self)
  }

  /// A member that is left out where there is nothing.
  @inlinable
  public mutating func member(_ name: StaticString, ifPresent value: (some JSONWritable)?) {
    if let value { member(name, value) }
  }

  /// A member whose name is somebody else's choice.
  @inlinable
  public mutating func member(named name: String, _ value: some JSONWritable) {
    separate()
    string(name)
    colon()
    value.write(to: &self)
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

  /// A string of bytes that are UTF-8.
  public mutating func string(utf8 text: UnsafeBufferPointer<UInt8>) {
    bytes.append(UInt8(ascii: "\""))
    let isPlain = UnsafeRawBufferPointer(text).endOfPlainText(from: 0) == text.count
    if isPlain { bytes.append(contentsOf: text) } else { appendEscaped(text) }
    bytes.append(UInt8(ascii: "\""))
  }

  /// A whole number.
  public mutating func integer(_ value: Int64) {
    if value < 0 { bytes.append(UInt8(ascii: "-")) }
    // Digits come out from the last to the first; Int64.min has 19.
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

  /// The shortest number that is read as this one; `null` for what JSON has no number for: infinities and NaN.
  public mutating func number(_ value: Double) {
    guard value.isFinite else { return null() }
    let text = value.description
    // As most others write it, 5 in place of 5.0.
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
    // What ends here stands before whatever comes next in the container around it.
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
