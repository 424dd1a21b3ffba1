import Dispatch

/// A serial queue that owns connections: all that happens to them happens here, one thing at a time.
///
/// As a task executor it also runs tasks, so that a handler's code can be where its connection is.
public final class EventLoop: Sendable {
  /// Which of its group's loops this is, from 0.
  public let index: Int
  let queue: DispatchQueue
  private let bound: LoopBound<LoopResources>

  /// A loop with a queue of its own.
  public init(index: Int = 0) {
    self.index = index
    queue = DispatchQueue(label: "event-loop-\(index)", qos: .userInitiated)
    bound = LoopBound(LoopResources(queue: queue), to: queue)
    let bound = bound
    queue.async { bound.value.deadlines.start() }
  }

  deinit {
    let bound = bound
    queue.async { bound.value.deadlines.stop() }
  }

  /// Runs `work` on the loop, after what is running and waiting there.
  public func execute(_ work: @escaping @Sendable () -> Void) {
    queue.async(execute: work)
  }

  /// Runs `work` on the loop after a while.
  public func execute(after delay: Duration, _ work: @escaping @Sendable () -> Void) {
    let deadline = MonotonicInstant.now.advanced(by: delay)
    queue.asyncAfter(deadline: DispatchTime(uptimeNanoseconds: deadline.nanoseconds), execute: work)
  }

  /// Stops the program unless the loop is running the caller.
  @inline(__always)
  public func preconditionOnLoop() {
    dispatchPrecondition(condition: .onQueue(queue))
  }

  /// What the loop's connections share.
  var resources: LoopResources { bound.value }
}

extension EventLoop: TaskExecutor {
  /// Runs a piece of a task on the loop.
  public func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
  }
}
