import DequeModule

/// Who waits for a commit, in the order of their coming, and how many commits are under way.
struct LedgerQueue<Element> {
  /// What becomes of one who comes.
  enum Admission {
    /// It is committed with the next ones.
    case waits
    /// The same, and a lane has to be started for it.
    case startsLane
    /// Too many wait already.
    case refused
  }

  /// How many transactions may be under way: one is prepared while another's commit waits for the disk, and
  /// one that waits for a lock does not hold up the rest.
  static var lanes: Int { 4 }
  static var entriesPerTransaction: Int { 64 }
  /// Beyond this, entries are refused rather than kept waiting.
  static var maximumWaiting: Int { 4_096 }

  private var waiting: Deque<Element> = []
  private var busyLanes = 0

  var count: Int { waiting.count }

  mutating func add(_ element: Element) -> Admission {
    guard waiting.count < Self.maximumWaiting else { return .refused }
    waiting.append(element)
    guard busyLanes < Self.lanes else { return .waits }
    busyLanes += 1
    return .startsLane
  }

  /// What a lane commits next; `nil` ends the lane.
  mutating func next() -> [Element]? {
    guard !waiting.isEmpty else {
      busyLanes -= 1
      return nil
    }
    let count = min(waiting.count, Self.entriesPerTransaction)
    defer { waiting.removeFirst(count) }
    return Array(waiting.prefix(count))
  }
}
