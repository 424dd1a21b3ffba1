import CEpoll
import Dispatch
import Glibc
import Synchronization
import Threads

/// A thread that watches the sockets of connections, and runs the tasks that prefer it.
///
/// With a dispatch source, what the server says changes threads three times before the task that waits for it goes on:
/// from the thread that polls to one of a queue, and from there to one of the tasks' own. A task that prefers this
/// thread goes on where its answer was read, in the same turn.
final class SocketThread: Sendable {
  private struct State {
    var jobs: [UnownedJob] = []
    var watchers: [UInt64: any SocketWatcher] = [:]
    var lastNumber = SocketThread.alarmNumber
    /// The thread looks for nothing but its sockets.
    var isAsleep = false
    var isStopping = false
    var hasEnded = false
  }

  /// How many sockets are told of in one turn.
  private static let batch = 32
  private static let alarmNumber: UInt64 = 0

  private let state = Mutex(State())
  private let epoll: Int32
  /// Wakes the thread: an eventfd(2).
  private let alarm: Int32

  /// Starts the thread; it goes on until ``stop()``.
  init() {
    epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
    alarm = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
    // The start of the program is when this runs.
    precondition(epoll >= 0 && alarm >= 0, "no descriptor is left for the database's sockets")
    control(EPOLL_CTL_ADD, alarm, EPOLLIN.rawValue, Self.alarmNumber)
    let isStarted = Thread.start(named: "database") { self.run() }
    precondition(isStarted, "no thread is left for the database's sockets")
  }

  deinit {
    // Not where the thread ends: whoever has just given it something may be about to ring.
    close(epoll)
    close(alarm)
  }

  /// Ends the thread once it watches nothing and has nothing to run.
  func stop() {
    state.withLock { $0.isStopping = true }
    ring()
  }

  // MARK: Sockets

  /// Tells the watcher, on this thread, whenever there is something to read, until it is removed.
  ///
  /// - Returns: its number, or nil where the system has no room for another watch.
  func add(_ watcher: any SocketWatcher, _ socket: Int32) -> UInt64? {
    let number = state.withLock { state in
      state.lastNumber += 1
      state.watchers[state.lastNumber] = watcher
      return state.lastNumber
    }
    guard control(EPOLL_CTL_ADD, socket, EPOLLIN.rawValue, number) else {
      remove(number, socket)
      return nil
    }
    return number
  }

  /// Says whether the watcher is to be told of room for writing as well.
  func change(_ number: UInt64, _ socket: Int32, alsoWrites: Bool) {
    control(EPOLL_CTL_MOD, socket, EPOLLIN.rawValue | (alsoWrites ? EPOLLOUT.rawValue : 0), number)
  }

  /// To be called before the socket is closed. The watcher may just be being told of it.
  func remove(_ number: UInt64, _ socket: Int32) {
    control(EPOLL_CTL_DEL, socket, 0, number)
    let isLast = state.withLock { state in
      state.watchers[number] = nil
      return state.isStopping && state.watchers.isEmpty
    }
    if isLast { ring() }
  }

  @discardableResult
  private func control(_ operation: Int32, _ socket: Int32, _ events: UInt32, _ number: UInt64) -> Bool {
    var event = epoll_event(events: events, data: epoll_data_t(u64: number))
    return epoll_ctl(epoll, operation, socket, &event) == 0
  }

  // MARK: The thread

  private func ring() { eventfd_write(alarm, 1) }

  private func run() {
    let events = UnsafeMutableBufferPointer<epoll_event>.allocate(capacity: Self.batch)
    defer { events.deallocate() }
    while let jobs = nextJobs() {
      for job in jobs { job.runSynchronously(on: asUnownedTaskExecutor()) }
      let count = epoll_wait(epoll, events.baseAddress, Int32(Self.batch), jobs.isEmpty ? -1 : 0)
      if jobs.isEmpty { state.withLock { $0.isAsleep = false } }
      for index in 0..<Int(max(0, count)) { deliver(events[index]) }
    }
  }

  /// - Returns: nil at the end.
  private func nextJobs() -> [UnownedJob]? {
    state.withLock { state in
      if state.jobs.isEmpty, state.isStopping, state.watchers.isEmpty {
        state.hasEnded = true
        return nil
      }
      state.isAsleep = state.jobs.isEmpty
      defer { state.jobs = [] }
      return state.jobs
    }
  }

  private func deliver(_ event: epoll_event) {
    let number = event.data.u64
    if number == Self.alarmNumber {
      var count: eventfd_t = 0
      eventfd_read(alarm, &count)
      return
    }
    // One that was removed after the event was fetched is not told.
    guard let watcher = state.withLock({ $0.watchers[number] }) else { return }
    if event.events & ~EPOLLOUT.rawValue != 0 { watcher.readable() }
    if event.events & EPOLLOUT.rawValue != 0 { watcher.writable() }
  }
}

extension SocketThread: TaskExecutor {
  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    let (isTaken, wasAsleep) = state.withLock { state in
      if state.hasEnded { return (false, false) }
      state.jobs.append(job)
      defer { state.isAsleep = false }
      return (true, state.isAsleep)
    }
    if wasAsleep { ring() }
    // A task may outlive the pool whose thread it preferred.
    if !isTaken { DispatchQueue.global().async { job.runSynchronously(on: self.asUnownedTaskExecutor()) } }
  }
}

/// Whose socket a ``SocketThread`` watches.
protocol SocketWatcher: AnyObject, Sendable {
  /// There are bytes, or the end.
  func readable()
  /// There is room for bytes.
  func writable()
}
