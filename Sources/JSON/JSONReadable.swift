/// A type that a ``JSONReader`` can read.
public protocol JSONReadable {
  /// Reads exactly one value.
  init(reading json: inout JSONReader) throws(JSONFailure)
}

extension String: JSONReadable {
  /// A string.
  @inlinable
  public init(reading json: inout JSONReader) throws(JSONFailure) { self = try json.string() }
}

extension Bool: JSONReadable {
  /// `true` or `false`.
  @inlinable
  public init(reading json: inout JSONReader) throws(JSONFailure) { self = try json.boolean() }
}

extension Int64: JSONReadable {
  /// A whole number.
  @inlinable
  public init(reading json: inout JSONReader) throws(JSONFailure) { self = try json.integer() }
}

extension Int32: JSONReadable {
  /// A whole number of 32 bits.
  @inlinable
  public init(reading json: inout JSONReader) throws(JSONFailure) {
    let start = json.position
    guard let value = Int32(exactly: try json.integer()) else {
      throw JSONFailure(.mismatch(.integer), at: start)
    }
    self = value
  }
}

extension Array: JSONReadable where Element: JSONReadable {
  /// An array.
  @inlinable
  public init(reading json: inout JSONReader) throws(JSONFailure) {
    self = []
    var elements = try json.beginArray()
    while try json.hasNextElement(&elements) { append(try Element(reading: &json)) }
  }
}

extension JSONReader {
  /// A value.
  @inlinable
  public mutating func read<Value: JSONReadable>() throws(JSONFailure) -> Value {
    try Value(reading: &self)
  }

  /// A value, or nil for `null`.
  @inlinable
  public mutating func readOrNull<Value: JSONReadable>() throws(JSONFailure) -> Value? {
    try takeNull() ? nil : Value(reading: &self)
  }
}
