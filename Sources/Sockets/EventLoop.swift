import Dispatch
import Foundation
public import Platform
import Synchronization

/// A serial Dispatch queue that runs all code of its connections.
public final class EventLoop: Sendable {
  /// The index of this loop in its group, from 0.
  public let index: Int
  /// Watches the sockets of the loop, and runs request handlers on the loop of their connection.
  public let queue: SocketQueue
  private let bound: LoopBound<LoopResources>

  /// A loop with a queue of its own.
  public init(index: Int = 0) {
    self.index = index
    queue = SocketQueue(label: "event-loop-\(index)")
    bound = LoopBound(LoopResources(queue: queue.queue), to: queue.queue)
    let bound = bound
    queue.execute { bound.value.deadlines.start() }
  }

  deinit {
    let bound = bound
    queue.execute { bound.value.deadlines.stop() }
  }

  /// Adds `work` to the end of the loop's queue.
  public func execute(_ work: @escaping @Sendable () -> Void) {
    queue.execute(work)
  }

  /// Runs `work` on the loop after `delay`.
  public func execute(after delay: Duration, _ work: @escaping @Sendable () -> Void) {
    queue.queue.asyncAfter(deadline: MonotonicInstant.now.advanced(by: delay).dispatchTime, execute: work)
  }

  /// The resources that the connections of the loop share.
  var resources: LoopResources { bound.value }
}

/// A fixed number of event loops among which connections are distributed.
public final class EventLoopGroup: Sendable {
  /// The default group of the process: one loop for each active core.
  public static let shared = EventLoopGroup()

  /// The loops, at least one.
  public let loops: [EventLoop]
  private let counter = Atomic<Int>(0)

  /// - Parameter count: how many loops, or nil for one for each active core.
  public init(count: Int? = nil) {
    let count = max(1, count ?? ProcessInfo.processInfo.activeProcessorCount)
    loops = (0..<count).map { EventLoop(index: $0) }
  }

  /// The next loop, round-robin.
  public func next() -> EventLoop {
    loops[counter.wrappingAdd(1, ordering: .relaxed).oldValue % loops.count]
  }
}

/// A reference to a value that only one event loop uses, for code that runs on any thread.
///
/// @unchecked, because only ``value`` gives access, and it stops the program unless the loop's serial queue runs it: no
/// two threads use the value at the same time.
public struct LoopBound<Value>: @unchecked Sendable {
  private let stored: Value
  private let queue: DispatchQueue

  /// Binds a value to the loop that uses it.
  public init(_ value: Value, to loop: EventLoop) {
    self.init(value, to: loop.queue.queue)
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

/// The resources that the connections of one event loop share. Only code on that loop uses them.
final class LoopResources {
  /// The read buffer of all connections of the loop; only one of them reads at a time.
  let readBuffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 65_536, alignment: 64)
  let deadlines: LoopDeadlines

  init(queue: DispatchQueue) {
    deadlines = LoopDeadlines(queue: queue)
  }

  deinit { readBuffer.deallocate() }
}
