/// Something that belongs to one event loop, on its way through code that may run anywhere.
///
/// It can be carried to other threads, but only its loop can look inside.
///
/// @unchecked, because the value is reached through ``value`` alone, which stops the program on any thread but the
/// loop's own: no two threads ever touch it at once.
public struct LoopBound<Value>: @unchecked Sendable {
  private let stored: Value
  private let identity: LoopIdentity

  /// Binds a value to the loop on which it lives.
  public init(_ value: Value, to loop: EventLoop) {
    self.init(value, to: loop.identity)
  }

  init(_ value: Value, to identity: LoopIdentity) {
    stored = value
    self.identity = identity
  }

  /// The value.
  ///
  /// - Precondition: the loop is running the caller.
  @inline(__always)
  public var value: Value {
    precondition(identity.isCurrent, "What belongs to a loop is touched on the loop only.")
    return stored
  }
}
