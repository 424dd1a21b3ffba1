/// A type that a ``JSONWriter`` can write.
///
/// The types of frequent responses conform to it instead of `Encodable`, which uses existential values and a dictionary for
/// each object.
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
