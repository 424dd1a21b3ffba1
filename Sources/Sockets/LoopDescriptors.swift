import CEpoll
import Glibc

/// The descriptors of one event loop: an epoll instance of the loop's own, in which its thread waits.
///
/// What a connection is waited for is told to the kernel only when it changes, which in a steady stream of requests
/// is never.
final class LoopDescriptors {
  /// How many are told at once, before what else waits on the loop has its turn.
  static let batch = 64
  /// What the kernel says where the loop's alarm has rung: no slot and generation come to this.
  private static let alarmToken = UInt64.max

  private let epoll: Int32
  private let events = UnsafeMutableBufferPointer<epoll_event>.allocate(capacity: batch)
  private var entries: [Entry] = []
  private var freeSlots: [Int] = []

  private struct Entry {
    var watcher: (any ReadinessWatcher)?
    var descriptor: Int32
    var interest: Readiness = []
    /// Counts whose slot this has been. An event that was fetched before its descriptor was removed carries
    /// the number of then.
    var generation: UInt32 = 0
  }

  /// - Parameter alarm: an eventfd(2) that ends a wait whenever it rings; nobody is told of that.
  init(alarm: Int32? = nil) {
    epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
    // The start of the program is when this runs.
    precondition(epoll >= 0, "\(SocketError.last("epoll_create1"))")
    guard let alarm else { return }
    // Told once for each ring, it need not be read.
    var event = epoll_event(
      events: EPOLLIN.rawValue | EPOLLET.rawValue, data: epoll_data_t(u64: Self.alarmToken))
    precondition(epoll_ctl(epoll, EPOLL_CTL_ADD, alarm, &event) == 0, "\(SocketError.last("epoll_ctl"))")
  }

  deinit {
    close(epoll)
    events.deallocate()
  }

  // MARK: Who waits for what

  /// Keeps the watcher until it is removed, and gives it a slot, under which it waits. For now it waits for
  /// nothing.
  func add(_ watcher: any ReadinessWatcher, _ descriptor: Int32) -> Int {
    guard let slot = freeSlots.popLast() else {
      entries.append(Entry(watcher: watcher, descriptor: descriptor))
      return entries.count - 1
    }
    entries[slot].watcher = watcher
    entries[slot].descriptor = descriptor
    return slot
  }

  /// Forgets the watcher; nothing more is told to it. To be called before its descriptor is closed.
  func remove(_ slot: Int) {
    // A program that was just being started may still hold the descriptor: closing it is not enough.
    if !entries[slot].interest.isEmpty { _ = control(EPOLL_CTL_DEL, slot, []) }
    entries[slot].watcher = nil
    entries[slot].interest = []
    entries[slot].generation &+= 1
    freeSlots.append(slot)
  }

  /// Changes what the slot's descriptor is waited for.
  ///
  /// - Throws: what the kernel says against it: it has no memory, or no more watches for this user.
  func wait(for interest: Readiness, at slot: Int) throws(SocketError) {
    let current = entries[slot].interest
    guard interest != current else { return }
    // What is waited for nothing is taken out: of one that has hung up, epoll would never stop telling.
    let operation = interest.isEmpty ? EPOLL_CTL_DEL : current.isEmpty ? EPOLL_CTL_ADD : EPOLL_CTL_MOD
    guard control(operation, slot, interest) == 0 else { throw .last("epoll_ctl") }
    entries[slot].interest = interest
  }

  private func control(_ operation: Int32, _ slot: Int, _ interest: Readiness) -> Int32 {
    let token = UInt64(entries[slot].generation) << 32 | UInt64(slot)
    var event = epoll_event(events: interest.rawValue, data: epoll_data_t(u64: token))
    return epoll_ctl(epoll, operation, entries[slot].descriptor, &event)
  }

  // MARK: What is ready

  /// Waits until something is ready or the alarm rings.
  /// - Parameter milliseconds: how long at most: 0 only looks, -1 is for ever.
  /// - Returns: how many are ready.
  func wait(atMost milliseconds: Int32) -> Int {
    let count = epoll_wait(epoll, events.baseAddress, Int32(Self.batch), milliseconds)
    // Nothing but a signal may cut it short; a loop that cannot wait would turn without end.
    precondition(count >= 0 || errno == EINTR, "\(SocketError.last("epoll_wait"))")
    return max(0, Int(count))
  }

  /// Hands what was found ready to `body`, with whose it is. What is left undone is found ready again.
  func deliver(_ count: Int, _ body: (any ReadinessWatcher, Readiness) -> Void) {
    for event in events[..<count] where event.data.u64 != Self.alarmToken { deliver(event, body) }
  }

  private func deliver(_ event: epoll_event, _ body: (any ReadinessWatcher, Readiness) -> Void) {
    let entry = entries[Int(truncatingIfNeeded: event.data.u64 & 0xFFFF_FFFF)]
    // Whoever was removed, or waits for less by now, was so after this event was fetched.
    guard entry.generation == UInt32(truncatingIfNeeded: event.data.u64 >> 32), let watcher = entry.watcher
    else { return }
    let found = Readiness(rawValue: event.events)
    let told = found.isDisjoint(with: .ended) ? entry.interest.intersection(found) : entry.interest
    if !told.isEmpty { body(watcher, told) }
  }
}
