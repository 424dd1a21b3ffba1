import Dispatch
import Platform

/// The deadlines of one event loop's connections: a timer wheel and the timer that advances it.
///
/// The timer is set again only for a deadline before the one that it is set for. In a steady stream of requests that is
/// rare.
final class LoopDeadlines {
  private let queue: DispatchQueue
  private let timer: any DispatchSourceTimer
  private var wheel = DeadlineWheel(now: .now)
  private var connections: [Connection?] = []
  private var freeSlots: [Int] = []
  /// When the timer fires.
  private var firesAt = MonotonicInstant.distantFuture

  init(queue: DispatchQueue) {
    self.queue = queue
    timer = DispatchSource.makeTimerSource(queue: queue)
  }

  func start() {
    let bound = LoopBound(self, to: queue)
    timer.setEventHandler { bound.value.timerFired() }
    timer.schedule(deadline: .distantFuture)
    timer.resume()
  }

  /// Ends the timer, which retains this object until then.
  func stop() { timer.cancel() }

  /// Adds the connection.
  ///
  /// - Returns: the slot under which it schedules its deadlines.
  func add(_ connection: Connection) -> Int {
    if let slot = freeSlots.popLast() {
      connections[slot] = connection
      return slot
    }
    connections.append(connection)
    return connections.count - 1
  }

  func remove(_ slot: Int) {
    wheel.cancel(slot)
    connections[slot] = nil
    freeSlots.append(slot)
  }

  /// Checks the connection's deadline at `deadline` or earlier.
  func schedule(_ slot: Int, at deadline: MonotonicInstant) {
    if wheel.schedule(slot, at: deadline), deadline < firesAt { setTimer() }
  }

  /// Checks the connections whose deadlines may have passed.
  private func timerFired() {
    let now = MonotonicInstant.now
    firesAt = .distantFuture
    for slot in wheel.advance(to: now) { connections[slot]?.checkDeadline(now: now) }
    setTimer()
  }

  private func setTimer() {
    guard let next = wheel.nextDue, next < firesAt else { return }
    firesAt = next
    timer.schedule(deadline: next.dispatchTime, leeway: .milliseconds(10))
  }
}

/// A timer wheel: a ring of buckets of one tick each, for many deadlines that may be noticed late by a tick.
///
/// An item whose deadline moves to a later instant does not change the wheel. When its old tick comes, the item
/// schedules itself again. A connection that serves requests all day changes the wheel once a minute.
struct DeadlineWheel {
  /// The length of a tick in nanoseconds; a deadline is noticed late by up to one tick.
  static let tickLength: UInt64 = 50_000_000
  /// 1,024 ticks are 51 seconds; a later deadline stays in its bucket for more than one round.
  private static let bucketCount = 1024

  private var buckets = [[Int]](repeating: [], count: bucketCount)
  private var entries: [Entry] = []
  /// The last tick that was handled.
  private var current: UInt64
  private(set) var count = 0

  private struct Entry {
    /// The tick at which the item is due; nil if it is not in the wheel.
    var tick: UInt64?
    var indexInBucket = 0
  }

  /// An empty wheel whose first tick comes after `now`.
  init(now: MonotonicInstant) { current = now.nanoseconds / Self.tickLength }

  /// Schedules the item for the first tick at or after `deadline`, unless it is scheduled for an earlier one.
  ///
  /// - Returns: whether the item is now due earlier than before.
  @discardableResult
  mutating func schedule(_ item: Int, at deadline: MonotonicInstant) -> Bool {
    while entries.count <= item { entries.append(Entry()) }
    let whole = deadline.nanoseconds / Self.tickLength
    let tick = max(deadline.nanoseconds.isMultiple(of: Self.tickLength) ? whole : whole + 1, current + 1)
    if let scheduled = entries[item].tick {
      guard tick < scheduled else { return false }
      cancel(item)
    }
    let bucket = Int(tick % UInt64(Self.bucketCount))
    entries[item] = Entry(tick: tick, indexInBucket: buckets[bucket].count)
    buckets[bucket].append(item)
    count += 1
    return true
  }

  /// Removes the item.
  mutating func cancel(_ item: Int) {
    guard item < entries.count, let tick = entries[item].tick else { return }
    let bucket = Int(tick % UInt64(Self.bucketCount))
    let index = entries[item].indexInBucket
    let last = buckets[bucket].removeLast()
    if last != item {
      buckets[bucket][index] = last
      entries[last].indexInBucket = index
    }
    entries[item].tick = nil
    count -= 1
  }

  /// Advances the wheel to `now`, and removes and returns the items that are due.
  mutating func advance(to now: MonotonicInstant) -> [Int] {
    let target = now.nanoseconds / Self.tickLength
    guard target > current else { return [] }
    var due: [Int] = []
    let ticks = min(target - current, UInt64(Self.bucketCount))
    for tick in (target - ticks + 1)...target {
      for item in buckets[Int(tick % UInt64(Self.bucketCount))] {
        if let scheduled = entries[item].tick, scheduled <= target { due.append(item) }
      }
    }
    current = target
    for item in due { cancel(item) }
    return due
  }

  /// When the next item may be due; nil if the wheel is empty.
  var nextDue: MonotonicInstant? {
    guard count > 0 else { return nil }
    for tick in (current + 1)...(current + UInt64(Self.bucketCount))
    where !buckets[Int(tick % UInt64(Self.bucketCount))].isEmpty {
      return MonotonicInstant(nanoseconds: tick * Self.tickLength)
    }
    return nil
  }
}
