/// A property with copy-on-write storage: to copy the enclosing value copies one reference.
///
/// A fact has about twenty fields, half of them strings. Without this storage, each copy of a value with a fact would retain
/// and release ten references.
@propertyWrapper
@frozen
public struct Boxed<Value: Sendable>: Sendable {
  @usableFromInline
  final class Content: Sendable {
    @usableFromInline let value: Value

    @inlinable
    init(_ value: Value) {
      self.value = value
    }
  }

  @usableFromInline var content: Content

  /// Stores a value.
  @inlinable
  public init(wrappedValue: Value) {
    content = Content(wrappedValue)
  }

  /// The value.
  @inlinable
  public var wrappedValue: Value {
    get { content.value }
    set { content = Content(newValue) }
  }
}

extension Boxed: Equatable where Value: Equatable {
  /// Whether the values are equal.
  @inlinable
  public static func == (a: Self, b: Self) -> Bool {
    a.content === b.content || a.content.value == b.content.value
  }
}

extension Boxed: Hashable where Value: Hashable {
  /// Hashes the value.
  @inlinable
  public func hash(into hasher: inout Hasher) {
    hasher.combine(content.value)
  }
}
