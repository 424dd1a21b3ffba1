/// Deadlines of many things, kept coarsely and cheaply: a ring of buckets, each a tick long.
///
/// An item that puts its deadline off need not tell the wheel: it is asked when its old bucket comes due
/// and goes back in then. So a connection that serves requests all day touches the wheel once a minute.
struct DeadlineWheel {
  /// The length of a tick in nanoseconds: how late a deadline may be noticed.
  static let tickLength: UInt64 = 50_000_000
  /// About 51 seconds; what lies further ahead goes round more than once.
  private static let bucketCount = 1024

  private var buckets = [[Int]](repeating: [], count: bucketCount)
  private var entries: [Entry] = []
  /// The last tick that was looked at.
  private var current: UInt64
  private(set) var count = 0

  private struct Entry {
    /// When the item is due, or nil if it is not in the wheel.
    var tick: UInt64?
    var indexInBucket = 0
  }

  /// An empty wheel that starts to turn at `now`.
  init(now: MonotonicInstant) { current = now.nanoseconds / Self.tickLength }

  /// Makes sure that the item comes due at the first tick at or after `deadline`, or earlier.
  ///
  /// - Returns: whether the wheel has to be looked at earlier because of it.
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

  /// Takes the item out.
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

  /// Turns the wheel to `now` and takes out what has come due.
  mutating func advance(to now: MonotonicInstant) -> [Int] {
    let target = now.nanoseconds / Self.tickLength
    guard target > current else { return [] }
    var due: [Int] = []
    let turns = min(target - current, UInt64(Self.bucketCount))
    for tick in (target - turns + 1)...target {
      for item in buckets[Int(tick % UInt64(Self.bucketCount))] {
        if let scheduled = entries[item].tick, scheduled <= target { due.append(item) }
      }
    }
    current = target
    for item in due { cancel(item) }
    return due
  }

  /// When the wheel has to be looked at next, or nil if it is empty.
  var nextDue: MonotonicInstant? {
    guard count > 0 else { return nil }
    for tick in (current + 1)...(current + UInt64(Self.bucketCount))
    where !buckets[Int(tick % UInt64(Self.bucketCount))].isEmpty {
      return MonotonicInstant(nanoseconds: tick * Self.tickLength)
    }
    return nil
  }
}
