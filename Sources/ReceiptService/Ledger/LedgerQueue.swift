import DequeModule

/// Who waits for a commit, in the order of their coming, and how many commits are under way.
///
/// Much of what a transaction costs, here and in the database, is for the transaction and not for what is in it. So
/// while one is under way, those who come wait for the next: until there are enough of them to be worth one of their
/// own, or until the first of them has waited so long that the one under way must be held up by somebody's lock. And
/// while none is, those who come in an event loop's round wait for its end, with whoever else comes in it: as long as
/// it lasts the loop has other work, after which it answers them, and a round with nothing else is at its end at once.
struct LedgerQueue<Element> {
  /// What becomes of one who comes.
  enum Admission {
    /// It is committed with the next ones.
    case waits
    /// The same, and somebody has to look at ``overdue(at:)`` after ``LedgerQueue/patience``.
    case startsWatch
    /// It is committed with the next ones, and a lane has to be started for it.
    case startsLane
    /// Too many wait already.
    case refused
  }

  /// What the end of an event loop's round leads to.
  enum RoundEnd {
    /// Nobody waits, or somebody looks after them.
    case goesOn
    /// A lane has to be started for those who wait.
    case startsLane
    /// Somebody has to look at ``overdue(at:)`` after ``LedgerQueue/patience``.
    case startsWatch
  }

  /// What a look at those who wait finds.
  enum Watch {
    /// Nobody waits; the watch is over.
    case ends
    /// Look again after ``LedgerQueue/patience``.
    case goesOn
    /// The same, and a lane has to be started for those who have waited too long.
    case startsLane
  }

  /// How many transactions may be under way.
  static var lanes: Int { 4 }
  /// As many as this are worth a transaction beside the one that is under way.
  static var entriesWorthALane: Int { 12 }
  static var entriesPerTransaction: Int { 64 }
  /// Beyond this, entries are refused rather than kept waiting.
  static var maximumWaiting: Int { 4_096 }

  /// One who waits.
  private struct Waiting {
    var element: Element
    var since: ContinuousClock.Instant
    /// The event loop's round in which it has come; `nil` after its end.
    var round: ObjectIdentifier?
  }

  /// After this long, whoever waits is worth a transaction, however few they are.
  let patience: Duration

  private var waiting: Deque<Waiting> = []
  private var busyLanes = 0
  private var isWatched = false

  init(patience: Duration = .milliseconds(20)) {
    self.patience = patience
  }

  var count: Int { waiting.count }

  /// - Parameter round: the event loop's round in which it comes; ``roundEnds(_:at:)`` will be called at its end.
  mutating func add(
    _ element: Element, at now: ContinuousClock.Instant, in round: ObjectIdentifier? = nil
  ) -> Admission {
    guard waiting.count < Self.maximumWaiting else { return .refused }
    waiting.append(Waiting(element: element, since: now, round: round))
    if busyLanes == 0 && round != nil && !isWorthALane(at: now) { return .waits }
    if startsLane(at: now) { return .startsLane }
    return startsWatch() ? .startsWatch : .waits
  }

  /// An event loop's round has ended, in which somebody has come.
  mutating func roundEnds(_ round: ObjectIdentifier, at now: ContinuousClock.Instant) -> RoundEnd {
    for index in waiting.indices where waiting[index].round == round { waiting[index].round = nil }
    guard !waiting.isEmpty else { return .goesOn }
    if startsLane(at: now) { return .startsLane }
    return startsWatch() ? .startsWatch : .goesOn
  }

  /// What a lane commits first; `nil` ends the lane.
  mutating func first(at now: ContinuousClock.Instant) -> [Element]? {
    take(where: busyLanes == 1 || isWorthALane(at: now))
  }

  /// What a lane commits next; `nil` ends the lane. Few who have all come in rounds that are under way are left to these.
  mutating func next(at now: ContinuousClock.Instant) -> [Element]? {
    take(where: isWorthALane(at: now) || busyLanes == 1 && waiting.contains { $0.round == nil })
  }

  private mutating func take(where isWorthIt: Bool) -> [Element]? {
    guard !waiting.isEmpty, isWorthIt else {
      busyLanes -= 1
      return nil
    }
    let count = min(waiting.count, Self.entriesPerTransaction)
    defer { waiting.removeFirst(count) }
    return waiting.prefix(count).map(\.element)
  }

  /// Looks after those for whom nobody came.
  mutating func overdue(at now: ContinuousClock.Instant) -> Watch {
    guard !waiting.isEmpty else {
      isWatched = false
      return .ends
    }
    return startsLane(at: now) ? .startsLane : .goesOn
  }

  private mutating func startsWatch() -> Bool {
    defer { isWatched = true }
    return !isWatched
  }

  private mutating func startsLane(at now: ContinuousClock.Instant) -> Bool {
    guard busyLanes == 0 || (busyLanes < Self.lanes && isWorthALane(at: now)) else { return false }
    busyLanes += 1
    return true
  }

  private func isWorthALane(at now: ContinuousClock.Instant) -> Bool {
    guard let first = waiting.first else { return false }
    return waiting.count >= Self.entriesWorthALane || now - first.since >= patience
  }
}
