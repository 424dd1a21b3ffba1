public import Dispatch
import Foundation
import Synchronization

#if !canImport(Darwin)
import CEpoll
#endif

/// The events for which a ``SocketQueue`` watches a descriptor, or that it found.
public struct Readiness: OptionSet, Sendable, Hashable {
  /// One bit for each event.
  public let rawValue: UInt8

  /// A set of events from its bits.
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// There are bytes, a connection to accept, an end of file or an error.
  public static let reading = Readiness(rawValue: 1)
  /// There is room for bytes, or an error.
  public static let writing = Readiness(rawValue: 2)
}

#if canImport(Darwin)
/// A serial Dispatch queue that watches descriptors, with Dispatch sources for each, and runs tasks.
///
/// Tasks run where the events that they wait for are delivered, so an `await` of such an event changes no thread. Any
/// thread may call the methods.
public final class SocketQueue: TaskExecutor {
  /// A descriptor that is watched.
  public struct Watch: Sendable {
    fileprivate let number: UInt64
  }

  private struct Entry {
    var reader: any DispatchSourceRead
    var writer: any DispatchSourceWrite
    var interest: Readiness = []
  }

  private struct State {
    var entries: [UInt64: Entry] = [:]
    var last: UInt64 = 0
  }

  /// The queue, for timers.
  public let queue: DispatchQueue
  private let state = Mutex(State())

  /// A queue without descriptors.
  public init(label: String) { queue = DispatchQueue(label: label) }

  /// Adds `work` to the end of the queue.
  public func execute(_ work: @escaping @Sendable () -> Void) { queue.async(execute: work) }

  /// Adds part of a task to the end of the queue.
  public func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
  }

  /// Adds a descriptor, for no event yet. `onReady` is retained until ``remove(_:then:)``.
  public func add(_ descriptor: Int32, onReady: @escaping @Sendable (Readiness) -> Void) -> Watch {
    state.withLock { state in
      state.last += 1
      let reader = DispatchSource.makeReadSource(fileDescriptor: descriptor, queue: queue)
      let writer = DispatchSource.makeWriteSource(fileDescriptor: descriptor, queue: queue)
      reader.setEventHandler { onReady(.reading) }
      writer.setEventHandler { onReady(.writing) }
      state.entries[state.last] = Entry(reader: reader, writer: writer)
      return Watch(number: state.last)
    }
  }

  /// Changes the events for which the descriptor is watched. An event that is not handled is delivered again.
  ///
  /// - Returns: 0.
  public func wait(for interest: Readiness, _ watch: Watch) -> Int32 {
    state.withLock { state in
      guard var entry = state.entries[watch.number] else { return 0 }
      Self.set(entry.reader, .reading, from: entry.interest, to: interest)
      Self.set(entry.writer, .writing, from: entry.interest, to: interest)
      entry.interest = interest
      state.entries[watch.number] = entry
      return 0
    }
  }

  /// Removes a descriptor, and then runs `action` on the queue.
  ///
  /// - Parameter isClosed: whether a library has closed the descriptor already, so that its number may be another's.
  public func remove(
    _ watch: Watch, isClosed: Bool = false, then action: @escaping @Sendable () -> Void
  ) {
    let entry = state.withLock { $0.entries.removeValue(forKey: watch.number) }
    guard let entry else { return queue.async(execute: action) }
    // Both sources must be cancelled before the descriptor is closed. A suspended source is told of its cancellation
    // only after it was resumed.
    let group = DispatchGroup()
    for (source, event) in [(entry.reader, Readiness.reading), (entry.writer, .writing)]
      as [(any DispatchSourceProtocol, Readiness)]
    {
      group.enter()
      source.setCancelHandler { group.leave() }
      source.cancel()
      if !entry.interest.contains(event) { source.resume() }
    }
    group.notify(queue: queue, execute: action)
  }

  private static func set(
    _ source: any DispatchSourceProtocol, _ event: Readiness, from old: Readiness, to new: Readiness
  ) {
    if new.contains(event), !old.contains(event) { source.resume() }
    if old.contains(event), !new.contains(event) { source.suspend() }
  }
}
#else
/// A serial Dispatch queue that watches descriptors and runs tasks.
///
/// Tasks run where the events that they wait for are delivered, so an `await` of such an event changes no thread. Any
/// thread may call the methods.
///
/// On Linux, one Dispatch read source watches an epoll instance that has all descriptors. A Dispatch source for each
/// socket would let a client end the process: when a connection is reset, libdispatch releases its record of the
/// descriptor on the source's queue, while its manager thread may use the record
/// (`_dispatch_event_merge_hangup` in libdispatch's `event_epoll.c`). An epoll descriptor never hangs up.
///
/// Each time that the source fires, Dispatch's manager thread wakes, wakes the queue's thread, and is woken to arm the
/// source again. So the queue serves in **turns**: in one block of the queue it delivers events and runs what was
/// added, until for ``patience`` nothing comes. Then the source waits.
public final class SocketQueue: TaskExecutor {
  /// A descriptor that is watched.
  public struct Watch: Sendable {
    fileprivate let slot: Int
    fileprivate let generation: UInt32
  }

  private struct Entry {
    var descriptor: Int32
    var interest: Readiness = []
    var onReady: (@Sendable (Readiness) -> Void)?
    /// Counts the descriptors that had this slot. An event that was fetched before its descriptor was removed carries
    /// an older number.
    var generation: UInt32 = 0
  }

  private struct Descriptors {
    var entries: [Entry] = []
    var freeSlots: [Int] = []
    var source: (any DispatchSourceRead)?
  }

  private enum Work: Sendable {
    case closure(@Sendable () -> Void)
    case job(UnownedJob)
  }

  /// What was added and has not begun, and who will run it.
  private struct Inbox {
    enum Turn {
      /// None has begun, so what is added first adds one to the queue.
      case none
      /// One is under way or will begin, and looks here before it waits or ends.
      case coming
      /// It waits for events; the alarm wakes it.
      case waiting
    }

    var work: [Work] = []
    var turn = Turn.none
  }

  /// The alarm's events. No watch has this slot.
  private static let alarmToken = UInt64.max
  /// The number of events that are delivered before added work has its turn.
  private static let batch = 64
  /// How long a turn waits for another event, in milliseconds. Timers of the queue fire late by up to as much.
  private static let patience: Int32 = 2
  /// When a turn ends although more could be done, so that timers of the queue fire.
  private static let longestTurn = Duration.milliseconds(20)

  /// The queue, for timers. Work that is added to it, not to the `SocketQueue`, waits for the end of a turn.
  public let queue: DispatchQueue
  private let epoll: Int32
  /// An eventfd(2) that wakes a turn that waits. It is watched for its edges and never read.
  private let alarm: Int32
  private let descriptors = Mutex(Descriptors())
  private let inbox = Mutex(Inbox())

  /// A queue without descriptors.
  public init(label: String) {
    queue = DispatchQueue(label: label)
    let (epoll, alarm) = (epoll_create1(Int32(EPOLL_CLOEXEC)), eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK)))
    // This runs when the program starts.
    precondition(epoll >= 0 && alarm >= 0, "no descriptor is left for an event loop")
    (self.epoll, self.alarm) = (epoll, alarm)
    var event = epoll_event(
      events: EPOLLIN.rawValue | EPOLLET.rawValue, data: epoll_data_t(u64: Self.alarmToken))
    precondition(
      epoll_ctl(epoll, EPOLL_CTL_ADD, alarm, &event) == 0, "the system cannot watch another descriptor")
    descriptors.withLock { descriptors in
      let source = DispatchSource.makeReadSource(fileDescriptor: epoll, queue: queue)
      source.setEventHandler { [weak self] in self?.takeTurn() }
      source.setCancelHandler {
        close(epoll)
        close(alarm)
      }
      source.activate()
      descriptors.source = source
    }
  }

  deinit {
    descriptors.withLock { $0.source?.cancel() }
  }

  /// Adds `work` to the end of the queue.
  public func execute(_ work: @escaping @Sendable () -> Void) { add(.closure(work)) }

  /// Adds part of a task to the end of the queue.
  public func enqueue(_ job: consuming ExecutorJob) { add(.job(UnownedJob(job))) }

  private func add(_ work: Work) {
    let turn = inbox.withLock { inbox in
      inbox.work.append(work)
      defer { inbox.turn = .coming }
      return inbox.turn
    }
    switch turn {
    case .coming: break
    case .waiting: eventfd_write(alarm, 1)
    case .none: queue.async { self.takeTurn() }
    }
  }

  /// Adds a descriptor, for no event yet. `onReady` is retained until ``remove(_:then:)``.
  public func add(_ descriptor: Int32, onReady: @escaping @Sendable (Readiness) -> Void) -> Watch {
    descriptors.withLock { descriptors in
      if let slot = descriptors.freeSlots.popLast() {
        descriptors.entries[slot].descriptor = descriptor
        descriptors.entries[slot].onReady = onReady
        return Watch(slot: slot, generation: descriptors.entries[slot].generation)
      }
      descriptors.entries.append(Entry(descriptor: descriptor, onReady: onReady))
      return Watch(slot: descriptors.entries.count - 1, generation: 0)
    }
  }

  /// Changes the events for which the descriptor is watched. An event that is not handled is delivered again.
  ///
  /// - Returns: 0, or the `errno` of a system without memory or room for another watch.
  public func wait(for interest: Readiness, _ watch: Watch) -> Int32 {
    descriptors.withLock { descriptors in
      guard descriptors.entries[watch.slot].generation == watch.generation else { return 0 }
      let current = descriptors.entries[watch.slot].interest
      guard interest != current else { return 0 }
      // A descriptor that waits for nothing is taken out: epoll reports a hang-up whether it is asked to or not.
      let operation = interest.isEmpty ? EPOLL_CTL_DEL : current.isEmpty ? EPOLL_CTL_ADD : EPOLL_CTL_MOD
      guard control(operation, watch, descriptors.entries[watch.slot].descriptor, interest) == 0 else {
        return errno
      }
      descriptors.entries[watch.slot].interest = interest
      return 0
    }
  }

  /// Removes a descriptor, and then runs `action` on the queue.
  ///
  /// - Parameter isClosed: whether a library has closed the descriptor already, so that its number may be another's.
  public func remove(
    _ watch: Watch, isClosed: Bool = false, then action: @escaping @Sendable () -> Void
  ) {
    let onReady = descriptors.withLock { descriptors -> (@Sendable (Readiness) -> Void)? in
      guard descriptors.entries[watch.slot].generation == watch.generation else { return nil }
      if !isClosed, !descriptors.entries[watch.slot].interest.isEmpty {
        _ = control(EPOLL_CTL_DEL, watch, descriptors.entries[watch.slot].descriptor, [])
      }
      defer { descriptors.entries[watch.slot].onReady = nil }
      descriptors.entries[watch.slot].interest = []
      descriptors.entries[watch.slot].generation &+= 1
      descriptors.freeSlots.append(watch.slot)
      return descriptors.entries[watch.slot].onReady
    }
    // The closure may hold the last reference to its connection, which must not end under the lock.
    execute { withExtendedLifetime(onReady) { action() } }
  }

  private func control(_ operation: Int32, _ watch: Watch, _ descriptor: Int32, _ interest: Readiness)
    -> Int32
  {
    var events: UInt32 = 0
    if interest.contains(.reading) { events |= EPOLLIN.rawValue }
    if interest.contains(.writing) { events |= EPOLLOUT.rawValue }
    let token = UInt64(watch.generation) << 32 | UInt64(watch.slot)
    var event = epoll_event(events: events, data: epoll_data_t(u64: token))
    return epoll_ctl(epoll, operation, descriptor, &event)
  }

  // MARK: Turns, on the queue

  private func takeTurn() {
    let end = MonotonicInstant.now.advanced(by: Self.longestTurn)
    var work: [Work] = []
    repeat {
      inbox.withLock { swap(&work, &$0.work) }
      for work in work { run(work) }
      // A closure may hold the last reference to an object, which must not outlive it by the wait.
      work.removeAll(keepingCapacity: true)
      let isQuiet = inbox.withLock { inbox in
        inbox.turn = inbox.work.isEmpty ? .waiting : .coming
        return inbox.turn == .waiting
      }
      if !deliverEvents(waiting: isQuiet ? Self.patience : 0), isQuiet { break }
    } while MonotonicInstant.now < end
    let hasMore = inbox.withLock { inbox in
      inbox.turn = inbox.work.isEmpty ? .none : .coming
      return inbox.turn == .coming
    }
    if hasMore { queue.async { self.takeTurn() } }
  }

  private func run(_ work: Work) {
    switch work {
    case .closure(let closure): closure()
    case .job(let job): job.runSynchronously(on: asUnownedTaskExecutor())
    }
  }

  /// Delivers the events that have come.
  ///
  /// - Parameter patience: how long it waits for one, in milliseconds.
  /// - Returns: whether one came.
  private func deliverEvents(waiting patience: Int32) -> Bool {
    withUnsafeTemporaryAllocation(of: epoll_event.self, capacity: Self.batch) { events in
      let count = epoll_wait(epoll, events.baseAddress, Int32(Self.batch), patience)
      if patience > 0 { inbox.withLock { $0.turn = .coming } }
      // The next round fetches the events that did not fit.
      for event in events[..<max(0, Int(count))] where event.data.u64 != Self.alarmToken { deliver(event) }
      return count > 0
    }
  }

  private func deliver(_ event: epoll_event) {
    let slot = Int(truncatingIfNeeded: event.data.u64 & 0xFFFF_FFFF)
    let generation = UInt32(truncatingIfNeeded: event.data.u64 >> 32)
    let (onReady, interest) = descriptors.withLock { descriptors in
      // The descriptor may have been removed after the kernel reported this event; the generation tells.
      descriptors.entries[slot].generation == generation
        ? (descriptors.entries[slot].onReady, descriptors.entries[slot].interest) : (nil, [])
    }
    var found: Readiness = []
    if event.events & EPOLLIN.rawValue != 0 { found.insert(.reading) }
    if event.events & EPOLLOUT.rawValue != 0 { found.insert(.writing) }
    // After an error or a hang-up, recv and send return it.
    if event.events & (EPOLLERR.rawValue | EPOLLHUP.rawValue) != 0 { found = interest }
    found.formIntersection(interest)
    if !found.isEmpty { onReady?(found) }
  }
}
#endif
