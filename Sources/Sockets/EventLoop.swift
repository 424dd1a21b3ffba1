import Dispatch

/// A serial queue that owns connections: all that happens to them happens here, one thing at a time.
///
/// As a task executor it also runs tasks, so that a handler's code can be where its connection is.
public final class EventLoop: Sendable {
  /// Which of its group's loops this is, from 0.
  public let index: Int
  let queue: DispatchQueue
  /// Set on the loop's own queue only, and so tells whether it is running the caller.
  private let mark = DispatchSpecificKey<Void>()
  private let bound: LoopBound<LoopResources>
  private let inbox = LoopInbox()

  /// A loop with a queue of its own.
  public init(index: Int = 0) {
    self.index = index
    queue = DispatchQueue(label: "event-loop-\(index)", qos: .userInitiated)
    bound = LoopBound(LoopResources(queue: queue), to: queue)
    queue.setSpecific(key: mark, value: ())
    queue.async { [queue, bound, weak self] in
      bound.value.deadlines.start()
      // Weak, because the loop ends with the last that refers to it, and its source with the loop.
      bound.value.descriptors.start(on: queue) { [weak self] in self?.deliverReadiness() }
    }
  }

  deinit {
    let bound = bound
    queue.async {
      bound.value.deadlines.stop()
      bound.value.descriptors.stop()
    }
  }

  /// Runs `work` on the loop, after what is running and waiting there.
  public func execute(_ work: @escaping @Sendable () -> Void) {
    queue.async { self.turn(work) }
  }

  /// Runs `work` on the loop after a while.
  public func execute(after delay: Duration, _ work: @escaping @Sendable () -> Void) {
    let deadline = MonotonicInstant.now.advanced(by: delay)
    queue.asyncAfter(deadline: DispatchTime(uptimeNanoseconds: deadline.nanoseconds)) { self.turn(work) }
  }

  /// Stops the program unless the loop is running the caller.
  @inline(__always)
  public func preconditionOnLoop() {
    dispatchPrecondition(condition: .onQueue(queue))
  }

  /// What the loop's connections share.
  var resources: LoopResources { bound.value }

  /// One turn of the loop: whatever it does is done in one, so that the tasks that it sets off run in the
  /// same turn.
  @inline(__always)
  func turn(_ work: () -> Void) { turn(bound.value.jobs, work) }

  /// Each event has a turn of its own, so that an answer that needs a task does not wait for all the others.
  private func deliverReadiness() {
    let resources = resources
    resources.descriptors.deliver { watcher, readiness in
      turn(resources.jobs) { watcher.ready(for: readiness) }
    }
  }

  @inline(__always)
  private func turn(_ jobs: LoopJobs, _ work: () -> Void) {
    jobs.isTurning = true
    work()
    jobs.runWaiting(on: self)
    jobs.isTurning = false
  }
}

extension EventLoop: TaskExecutor {
  /// Runs a piece of a task on the loop: at the end of its turn if this is called in one, which spares a
  /// trip through Dispatch for each, or in a turn of its own.
  public func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    if DispatchQueue.getSpecific(key: mark) != nil, bound.value.jobs.isTurning {
      bound.value.jobs.append(job)
    } else {
      enqueueLater(job)
    }
  }

  func enqueueLater(_ job: UnownedJob) {
    if inbox.append(job) { queue.async { self.runInbox() } }
  }

  /// What comes meanwhile waits until what else is on the queue has had its turn.
  private func runInbox() {
    for job in inbox.takeAll() { turn { job.runSynchronously(on: asUnownedTaskExecutor()) } }
  }
}
