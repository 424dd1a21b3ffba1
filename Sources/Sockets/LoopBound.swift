import Dispatch

/// A reference to a value that only one event loop uses, for code that runs on any thread.
///
/// @unchecked, because only ``value`` gives access, and it stops the program unless the loop's serial queue runs it: no
/// two threads use the value at the same time.
public struct LoopBound<Value>: @unchecked Sendable {
  private let stored: Value
  private let queue: DispatchQueue

  /// Binds a value to the loop that uses it.
  public init(_ value: Value, to loop: EventLoop) {
    self.init(value, to: loop.queue)
  }

  init(_ value: Value, to queue: DispatchQueue) {
    stored = value
    self.queue = queue
  }

  /// The value.
  ///
  /// - Precondition: the caller runs on the loop.
  @inline(__always)
  public var value: Value {
    dispatchPrecondition(condition: .onQueue(queue))
    return stored
  }
}
