public import Dispatch
import Foundation
import Synchronization

#if !canImport(Darwin)
import CEpoll
#endif

/// The events for which a ``DescriptorWatcher`` watches a descriptor, or that it found.
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
/// Watches descriptors for the code of one serial Dispatch queue, with Dispatch sources for each descriptor.
///
/// Any thread may call the methods; events come on the queue.
public final class DescriptorWatcher: Sendable {
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

  private let queue: DispatchQueue
  private let state = Mutex(State())

  /// A watcher without descriptors.
  public init(queue: DispatchQueue) { self.queue = queue }

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
    // Both sources must be cancelled before the descriptor is closed. A suspended source is told of its cancellation only
    // after it was resumed.
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
/// Watches descriptors for the code of one serial Dispatch queue.
///
/// On Linux, one Dispatch read source watches an epoll instance that has all descriptors. A Dispatch source for each
/// socket would let a client end the process: when a connection is reset, libdispatch releases its record of the
/// descriptor on the source's queue, while its manager thread may use the record
/// (`_dispatch_event_merge_hangup` in libdispatch's `event_epoll.c`). An epoll descriptor never hangs up.
///
/// Any thread may call the methods; events come on the queue.
public final class DescriptorWatcher: Sendable {
  /// A descriptor that is watched.
  public struct Watch: Sendable {
    fileprivate let slot: Int
    fileprivate let generation: UInt32
  }

  private struct Entry {
    var descriptor: Int32
    var interest: Readiness = []
    var onReady: (@Sendable (Readiness) -> Void)?
    /// Counts the descriptors that had this slot. An event that was fetched before its descriptor was removed carries an
    /// older number.
    var generation: UInt32 = 0
  }

  private struct State {
    var entries: [Entry] = []
    var freeSlots: [Int] = []
    var source: (any DispatchSourceRead)?
  }

  /// The number of events that are delivered before other work of the queue has its turn.
  private static let batch = 64

  private let queue: DispatchQueue
  private let epoll: Int32
  private let state = Mutex(State())

  /// A watcher without descriptors.
  public init(queue: DispatchQueue) {
    self.queue = queue
    let epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
    // This runs when the program starts.
    precondition(epoll >= 0, "no descriptor is left for an event loop")
    self.epoll = epoll
    state.withLock { state in
      let source = DispatchSource.makeReadSource(fileDescriptor: epoll, queue: queue)
      source.setEventHandler { [weak self] in self?.deliver() }
      source.setCancelHandler { close(epoll) }
      source.activate()
      state.source = source
    }
  }

  deinit {
    state.withLock { $0.source?.cancel() }
  }

  /// Adds a descriptor, for no event yet. `onReady` is retained until ``remove(_:then:)``.
  public func add(_ descriptor: Int32, onReady: @escaping @Sendable (Readiness) -> Void) -> Watch {
    state.withLock { state in
      if let slot = state.freeSlots.popLast() {
        state.entries[slot].descriptor = descriptor
        state.entries[slot].onReady = onReady
        return Watch(slot: slot, generation: state.entries[slot].generation)
      }
      state.entries.append(Entry(descriptor: descriptor, onReady: onReady))
      return Watch(slot: state.entries.count - 1, generation: 0)
    }
  }

  /// Changes the events for which the descriptor is watched. An event that is not handled is delivered again.
  ///
  /// - Returns: 0, or the `errno` of a system without memory or room for another watch.
  public func wait(for interest: Readiness, _ watch: Watch) -> Int32 {
    state.withLock { state in
      guard state.entries[watch.slot].generation == watch.generation else { return 0 }
      let current = state.entries[watch.slot].interest
      guard interest != current else { return 0 }
      // A descriptor that waits for nothing is taken out: epoll reports a hang-up whether it is asked to or not.
      let operation = interest.isEmpty ? EPOLL_CTL_DEL : current.isEmpty ? EPOLL_CTL_ADD : EPOLL_CTL_MOD
      guard control(operation, watch, state.entries[watch.slot].descriptor, interest) == 0 else {
        return errno
      }
      state.entries[watch.slot].interest = interest
      return 0
    }
  }

  /// Removes a descriptor, and then runs `action` on the queue.
  ///
  /// - Parameter isClosed: whether a library has closed the descriptor already, so that its number may be another's.
  public func remove(
    _ watch: Watch, isClosed: Bool = false, then action: @escaping @Sendable () -> Void
  ) {
    let onReady = state.withLock { state -> (@Sendable (Readiness) -> Void)? in
      guard state.entries[watch.slot].generation == watch.generation else { return nil }
      if !isClosed, !state.entries[watch.slot].interest.isEmpty {
        _ = control(EPOLL_CTL_DEL, watch, state.entries[watch.slot].descriptor, [])
      }
      defer { state.entries[watch.slot].onReady = nil }
      state.entries[watch.slot].interest = []
      state.entries[watch.slot].generation &+= 1
      state.freeSlots.append(watch.slot)
      return state.entries[watch.slot].onReady
    }
    // The closure may hold the last reference to its connection, which must not end under the lock.
    queue.async { withExtendedLifetime(onReady) { action() } }
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

  // MARK: Events, on the queue

  private func deliver() {
    withUnsafeTemporaryAllocation(of: epoll_event.self, capacity: Self.batch) { events in
      let count = epoll_wait(epoll, events.baseAddress, Int32(Self.batch), 0)
      // The source fires again for the events that did not fit.
      for event in events[..<max(0, Int(count))] { deliver(event) }
    }
  }

  private func deliver(_ event: epoll_event) {
    let slot = Int(truncatingIfNeeded: event.data.u64 & 0xFFFF_FFFF)
    let generation = UInt32(truncatingIfNeeded: event.data.u64 >> 32)
    let (onReady, interest) = state.withLock { state in
      // The descriptor may have been removed after the kernel reported this event; the generation tells.
      state.entries[slot].generation == generation
        ? (state.entries[slot].onReady, state.entries[slot].interest) : (nil, [])
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

/// Runs tasks on a serial Dispatch queue, so that they are where the events that they wait for are delivered. Each `await`
/// of such an event saves two changes of threads.
public final class QueueExecutor: TaskExecutor {
  private let queue: DispatchQueue

  /// An executor that runs tasks on `queue`.
  public init(queue: DispatchQueue) {
    self.queue = queue
  }

  /// Adds part of a task to the end of the queue.
  public func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
  }
}
