import Dispatch
import Threads

/// A thread that owns connections: all that happens to them happens here, one thing at a time.
///
/// As a task executor it also runs tasks, so that a handler's code can be where its connection is.
public final class EventLoop: Sendable {
  /// Which of its group's loops this is, from 0.
  public let index: Int
  let identity = LoopIdentity()
  private let bound: LoopBound<LoopResources>
  private let inbox = LoopInbox()

  /// A loop with a thread of its own, which ends with the last that refers to the loop.
  public init(index: Int = 0) {
    self.index = index
    bound = LoopBound(LoopResources(alarm: inbox.alarm), to: identity)
    // The thread must not be what keeps the loop.
    let isStarted = Thread.start(named: "event-loop-\(index)") { [identity, bound, inbox, weak self] in
      identity.adopt()
      defer { identity.abandon() }
      Self.run(bound.value, inbox) { self }
    }
    // The start of the program is when this runs.
    precondition(isStarted, "no thread is left for an event loop")
  }

  deinit { inbox.end() }

  /// Runs `work` on the loop, after what is running and waiting there.
  public func execute(_ work: @escaping @Sendable () -> Void) {
    inbox.append(.work(work), for: self)
  }

  /// Runs `work` on the loop after a while.
  public func execute(after delay: Duration, _ work: @escaping @Sendable () -> Void) {
    let deadline = MonotonicInstant.now.advanced(by: delay)
    Self.later.asyncAfter(deadline: DispatchTime(uptimeNanoseconds: deadline.nanoseconds)) {
      self.execute(work)
    }
  }

  /// Where loops are reminded. Not a global queue, whose threads tasks may keep busy.
  private static let later = DispatchQueue(label: "event-loops-later")

  /// Stops the program unless the loop is running the caller.
  @inline(__always)
  public func preconditionOnLoop() {
    precondition(identity.isCurrent, "This is done on the loop only.")
  }

  /// What the loop's connections share.
  var resources: LoopResources { bound.value }

  // MARK: The thread

  /// - Parameter loop: the loop, as long as there is one.
  private static func run(_ resources: LoopResources, _ inbox: LoopInbox, _ loop: () -> EventLoop?) {
    resources.round.adopt()
    defer { resources.round.abandon() }
    var items: [LoopInbox.Item] = []
    while true {
      let count: Int
      switch inbox.take(&items) {
      case .items(let loop):
        for item in items { loop.run(item, resources.jobs) }
        items.removeAll(keepingCapacity: true)
        count = resources.descriptors.wait(atMost: 0)
      case .nothing:
        count = resources.descriptors.wait(atMost: resources.deadlines.patience)
        inbox.isAwake()
      case .end: return
      }
      if count > 0 { loop()?.deliver(count, resources) }
      if resources.deadlines.areDue { loop()?.turnDeadlines(resources) }
      resources.round.end()
    }
  }

  private func run(_ item: LoopInbox.Item, _ jobs: LoopJobs) {
    turn(jobs) {
      switch item {
      case .work(let work): work()
      case .job(let job): job.runSynchronously(on: asUnownedTaskExecutor())
      }
    }
  }

  /// Each event has a turn of its own, so that an answer that needs a task does not wait for all the others.
  private func deliver(_ count: Int, _ resources: LoopResources) {
    resources.descriptors.deliver(count) { watcher, readiness in
      turn(resources.jobs) { watcher.ready(for: readiness) }
    }
  }

  private func turnDeadlines(_ resources: LoopResources) {
    turn(resources.jobs) { resources.deadlines.turn(to: .now) }
  }

  /// One turn of the loop: whatever it does is done in one, so that the tasks that it sets off run in the
  /// same turn.
  @inline(__always)
  private func turn(_ jobs: LoopJobs, _ work: () -> Void) {
    jobs.isTurning = true
    work()
    jobs.runWaiting(on: self)
    jobs.isTurning = false
  }
}

extension EventLoop: TaskExecutor {
  /// Runs a piece of a task on the loop: at the end of its turn if this is called in one, or in a turn of its own.
  public func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    if identity.isCurrent, bound.value.jobs.isTurning {
      bound.value.jobs.append(job)
    } else {
      enqueueLater(job)
    }
  }

  func enqueueLater(_ job: UnownedJob) { inbox.append(.job(job), for: self) }
}
