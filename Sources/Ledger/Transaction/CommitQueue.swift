import DequeModule

/// An entry that may need the same locks as all others with an equal key.
protocol LockedTogether {
  associatedtype LockKey: Hashable, Sendable
  var lockKeys: [LockKey] { get }
}

/// The entries that wait for a commit, in the order of their arrival, and the number of workers that commit.
///
/// Most of a transaction's cost, here and in the database, does not depend on the number of its entries. So while a
/// commit is under way, new entries wait for the next one (group commit). Another worker starts when enough entries
/// wait to justify a transaction of their own, or when the first has waited for ``timeout``, probably because a commit
/// under way waits for a lock. A lone entry waits for no other.
///
/// An entry that meets a held lock is set aside, with all entries that have a key in common with it, those that come
/// later too. One more worker waits for the locks of such groups, each in turn, so one customer with many requests
/// delays no other.
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

  /// After this long, waiting entries start a transaction, however few they are. It is checked once in this time, so
  /// the wait can be twice as long.
  let timeout: Duration

  private var waiting: Deque<(element: Element, since: ContinuousClock.Instant)> = []
  /// Entries that were set aside, in groups: the first one of each waits for its lock, and the others for the first
  /// one.
  private var groups: Deque<(number: Int, elements: [Element])> = []
  /// The numbers of the groups by the keys of their first entries.
  private var groupsByKey: [Element.LockKey: Int] = [:]
  private var lastGroup = 0
  private var hasSlowWorker = false
  private var workers = 0
  private var isWatched = false

  init(timeout: Duration = .milliseconds(20)) {
    self.timeout = timeout
  }

  var count: Int { waiting.count + groups.reduce(0) { $0 + $1.elements.count } }

  mutating func add(_ element: Element, at now: ContinuousClock.Instant) -> Admission {
    guard count < Self.maximumWaiting else { return .refused }
    if !groups.isEmpty, joinsGroup(element) { return .waits }
    waiting.append((element, now))
    if startsWorker(at: now) { return .startsWorker }
    defer { isWatched = true }
    return isWatched ? .waits : .startsWatch
  }

  /// The batch that a worker commits next; `nil` ends the worker. The only worker left takes any number of entries;
  /// others end while few entries wait, and none of them for long.
  mutating func next(at now: ContinuousClock.Instant) -> [Element]? {
    guard !waiting.isEmpty, workers == 1 || justifyWorker(at: now) else {
      workers -= 1
      return nil
    }
    let count = min(waiting.count, Self.entriesPerTransaction)
    defer { waiting.removeFirst(count) }
    return waiting.prefix(count).map(\.element)
  }

  /// Sets entries of a batch aside that met a held lock, and with them those that wait and have a key in common.
  /// - Returns: whether the caller starts the worker of ``nextGroup()``.
  mutating func setAside(_ elements: [Element]) -> Bool {
    for element in elements where !joinsGroup(element) {
      lastGroup += 1
      groups.append((lastGroup, [element]))
      for key in element.lockKeys { groupsByKey[key] = lastGroup }
    }
    guard !groups.isEmpty else { return false }
    var others: Deque<(element: Element, since: ContinuousClock.Instant)> = []
    for entry in waiting where !joinsGroup(entry.element) { others.append(entry) }
    waiting = others
    defer { hasSlowWorker = true }
    return !hasSlowWorker
  }

  private mutating func joinsGroup(_ element: Element) -> Bool {
    guard let number = element.lockKeys.compactMap({ groupsByKey[$0] }).first,
      let place = groups.firstIndex(where: { $0.number == number })
    else { return false }
    groups[place].elements.append(element)
    return true
  }

  /// The first entry of the next group, and the number of groups that wait; `nil` ends the worker.
  mutating func nextGroup() -> (first: Element, groups: Int)? {
    guard let first = groups.first?.elements.first else {
      hasSlowWorker = false
      return nil
    }
    return (first, groups.count)
  }

  /// Ends the group of ``nextGroup()``. If the first entry got its lock, the others wait for the next commit.
  /// - Returns: the entries that fail; and whether the caller starts a worker.
  mutating func endGroup(
    isGranted: Bool, at now: ContinuousClock.Instant
  ) -> (refused: [Element], startsWorker: Bool) {
    guard let (number, elements) = groups.popFirst() else { return ([], false) }
    groupsByKey = groupsByKey.filter { $0.value != number }
    guard isGranted else { return (elements, false) }
    waiting.prepend(contentsOf: elements.dropFirst().map { ($0, now) })
    return ([], !waiting.isEmpty && startsWorker(at: now))
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
