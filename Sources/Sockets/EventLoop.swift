import Dispatch
import Platform

/// A serial Dispatch queue that runs all code of its connections.
///
/// It is also a task executor, so that a request handler runs on its connection's loop.
public final class EventLoop: Sendable {
  /// The index of this loop in its group, from 0.
  public let index: Int
  let queue: DispatchQueue
  /// Watches the sockets of the loop.
  let watcher: DescriptorWatcher
  private let bound: LoopBound<LoopResources>

  /// A loop with a queue of its own.
  public init(index: Int = 0) {
    self.index = index
    queue = DispatchQueue(label: "event-loop-\(index)")
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

extension EventLoop: TaskExecutor {
  /// Adds part of a task to the end of the loop's queue.
  public func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
  }
}
