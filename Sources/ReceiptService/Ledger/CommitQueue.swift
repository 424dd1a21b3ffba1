import DequeModule

/// The entries that wait for a commit, in the order of their arrival, and the number of workers that commit.
///
/// Most of a transaction's cost, here and in the database, does not depend on the number of its entries. So while a
/// commit is under way, new entries wait for the next one (group commit). Another worker starts when enough entries wait
/// to justify a transaction of their own, or when the first has waited for ``timeout``, probably because a commit under way
/// waits for a lock. A lone entry waits for no other.
struct CommitQueue<Element> {
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
  private var workers = 0
  private var isWatched = false

  init(timeout: Duration = .milliseconds(20)) {
    self.timeout = timeout
  }

  var count: Int { waiting.count }

  mutating func add(_ element: Element, at now: ContinuousClock.Instant) -> Admission {
    guard waiting.count < Self.maximumWaiting else { return .refused }
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
