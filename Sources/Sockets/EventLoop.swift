import Dispatch
public import Platform

/// A serial Dispatch queue that runs all code of its connections.
public final class EventLoop: Sendable {
  /// The index of this loop in its group, from 0.
  public let index: Int
  let queue: DispatchQueue
  /// Runs request handlers on the loop of their connection.
  public let executor: QueueExecutor
  /// Watches the sockets of the loop.
  let watcher: DescriptorWatcher
  private let bound: LoopBound<LoopResources>

  /// A loop with a queue of its own.
  public init(index: Int = 0) {
    self.index = index
    queue = DispatchQueue(label: "event-loop-\(index)")
    executor = QueueExecutor(queue: queue)
    watcher = DescriptorWatcher(queue: queue)
    bound = LoopBound(LoopResources(queue: queue), to: queue)
    let bound = bound
    queue.async { bound.value.deadlines.start() }
  }

  deinit {
    let bound = bound
    queue.async { bound.value.deadlines.stop() }
  }

  /// Adds `work` to the end of the loop's queue.
  public func execute(_ work: @escaping @Sendable () -> Void) {
    queue.async(execute: work)
  }

  /// Runs `work` on the loop after `delay`.
  public func execute(after delay: Duration, _ work: @escaping @Sendable () -> Void) {
    queue.asyncAfter(deadline: MonotonicInstant.now.advanced(by: delay).dispatchTime, execute: work)
  }

  /// The resources that the connections of the loop share.
  var resources: LoopResources { bound.value }
}
