import DequeModule

/// An entry that needs the same lock as all others with an equal key.
protocol LockedTogether {
  associatedtype LockKey: Hashable, Sendable
  var lockKey: LockKey { get }
}

/// The entries that wait for a commit, in the order of their arrival, and the number of workers that commit.
///
/// Most of a transaction's cost, here and in the database, does not depend on the number of its entries. So while a
/// commit is under way, new entries wait for the next one (group commit). Another worker starts when enough entries wait
/// to justify a transaction of their own, or when the first has waited for ``timeout``, probably because a commit under way
/// waits for a lock. A lone entry waits for no other.
///
/// Entries with the same ``LockedTogether/lockKey`` need a common lock. While one worker waits for it (``hold(_:_:)``), all
/// others of that key wait with it, in no batch: one customer with many requests delays no other.
struct CommitQueue<Element: LockedTogether> {
  /// The result of adding an entry.
  enum Admission {
    /// The entry waits for the next commit.
    case waits
    /// The entry waits, and the caller calls ``overdue(at:)`` every ``CommitQueue/timeout``.
    case startsWatch
    /// The caller starts a worker.
    case startsWorker
    /// Too many entries wait already.
    case refused
  }

  /// The result of a check for entries that wait too long.
  enum Watch {
    /// No entry waits; the watch is over.
    case ends
    /// Check again after ``CommitQueue/timeout``.
    case continues
    /// The same, and the caller starts a worker.
    case startsWorker
  }

  /// The number of transactions that may be under way.
  static var maximumWorkers: Int { 4 }
  /// This many entries start a transaction beside the one that is under way.
  static var entriesPerWorker: Int { 12 }
  static var entriesPerTransaction: Int { 64 }
  /// Beyond this, entries are refused.
  static var maximumWaiting: Int { 4_096 }

  /// After this long, waiting entries start a transaction, however few they are. It is checked once in this time, so the
  /// wait can be twice as long.
  let timeout: Duration

  private var waiting: Deque<(element: Element, since: ContinuousClock.Instant)> = []
  /// The entries that wait with a worker for a lock, by key.
  private var held: [Element.LockKey: [Element]] = [:]
  private var workers = 0
  private var isWatched = false

  init(timeout: Duration = .milliseconds(20)) {
    self.timeout = timeout
  }

  var count: Int { waiting.count + held.values.reduce(0) { $0 + $1.count } }

  mutating func add(_ element: Element, at now: ContinuousClock.Instant) -> Admission {
    guard count < Self.maximumWaiting else { return .refused }
    if !held.isEmpty, held[element.lockKey] != nil {
      held[element.lockKey]?.append(element)
      return .waits
    }
    waiting.append((element, now))
    if startsWorker(at: now) { return .startsWorker }
    defer { isWatched = true }
    return isWatched ? .waits : .startsWatch
  }

  /// The batch that a worker commits next; `nil` ends the worker. The only worker left takes any number of entries; others
  /// end while few entries wait, and none of them for long.
  mutating func next(at now: ContinuousClock.Instant) -> [Element]? {
    guard !waiting.isEmpty, workers == 1 || justifyWorker(at: now) else {
      workers -= 1
      return nil
    }
    let count = min(waiting.count, Self.entriesPerTransaction)
    defer { waiting.removeFirst(count) }
    return waiting.prefix(count).map(\.element)
  }

  /// Keeps entries of this key out of batches, those that wait and those that come, until ``release(_:)``.
  /// - Returns: whether the caller is the one that waits for the lock. If not, another worker does, and answers `elements` too.
  mutating func hold(_ key: Element.LockKey, _ elements: [Element]) -> Bool {
    let isFirst = held[key] == nil
    var together = waiting.map(\.element).filter { $0.lockKey == key }
    if !isFirst { together.insert(contentsOf: elements, at: 0) }
    if !together.isEmpty { waiting.removeAll { $0.element.lockKey == key } }
    held[key, default: []] += together
    return isFirst
  }

  /// Ends the hold.
  /// - Returns: the entries that waited with the caller.
  mutating func release(_ key: Element.LockKey) -> [Element] {
    held.removeValue(forKey: key) ?? []
  }

  /// Checks for entries that have waited too long.
  mutating func overdue(at now: ContinuousClock.Instant) -> Watch {
    guard !waiting.isEmpty else {
      isWatched = false
      return .ends
    }
    return startsWorker(at: now) ? .startsWorker : .continues
  }

  private mutating func startsWorker(at now: ContinuousClock.Instant) -> Bool {
    guard workers == 0 || (workers < Self.maximumWorkers && justifyWorker(at: now)) else { return false }
    workers += 1
    return true
  }

  /// Whether the waiting entries justify a transaction of their own.
  private func justifyWorker(at now: ContinuousClock.Instant) -> Bool {
    guard let first = waiting.first else { return false }
    return waiting.count >= Self.entriesPerWorker || now - first.since >= timeout
  }
}
