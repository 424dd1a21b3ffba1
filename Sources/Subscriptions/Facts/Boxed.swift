/// A property that is copied as one reference.
///
/// A fact has some twenty fields, half of them strings: to copy one is to count ten references up and later
/// down again, and it is copied wherever a value that has it goes from hand to hand. In a box it stays where
/// it is. To change it makes another box, so nobody sees it change.
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

  /// Puts a value into a box.
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
