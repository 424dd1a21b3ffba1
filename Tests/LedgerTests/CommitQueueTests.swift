import Platform
import Testing

@testable import Ledger

/// A number shares one lock with the numbers of the same last digit, and one with those of the same hundreds.
extension Int: LockedTogether {
  /// The last digit, and the hundreds, which begin at 1000 so that the two differ.
  public var lockKeys: [Int] { [self % 10, 1000 + self / 100] }
}

@Suite struct CommitQueueTests {
  private let start = ContinuousClock.now
  private var soon: ContinuousClock.Instant { start + .milliseconds(5) }
  private var late: ContinuousClock.Instant { start + .milliseconds(20) }

  @Test func `the commit queue refuses an entry beyond 4,096 waiting ones until a batch is taken`() {
    var queue = CommitQueue<Int>()
    var refused = 0
    for number in 0..<5_000 {
      if case .refused = queue.add(number, at: start) { refused += 1 }
    }
    #expect(queue.count == 4_096)
    #expect(refused == 5_000 - 4_096)
    #expect(queue.next(at: start)?.count == 64)
    if case .refused = queue.add(5_000, at: start) { Issue.record("there is room again") }
  }

  @Test func `at most four workers commit batches of at most 64 entries, in the order of arrival`() {
    var queue = CommitQueue<Int>()
    var workers = 0
    for number in 0..<300 {
      if case .startsWorker = queue.add(number, at: start) { workers += 1 }
    }
    #expect(workers == 4)
    var batches: [[Int]] = []
    while let batch = queue.next(at: start) { batches.append(batch) }
    #expect(batches.map(\.count) == [64, 64, 64, 64, 44])
    #expect(batches.flatMap { $0 } == Array(0..<300))
  }

  @Test func `a single entry starts a worker at once, and another one after that worker ended`() {
    var queue = CommitQueue<Int>()
    for number in 0..<3 {
      guard case .startsWorker = queue.add(number, at: start) else {
        Issue.record("no worker would commit it")
        return
      }
      #expect(queue.next(at: start) == [number])
      #expect(queue.next(at: start) == nil)
    }
  }

  @Test
  func `entries that arrive during a commit wait for the next one, and twelve entries start another worker`()
  {
    var queue = CommitQueue<Int>()
    _ = queue.add(0, at: start)
    #expect(queue.next(at: start) == [0])
    for number in 1...11 {
      if case .startsWorker = queue.add(number, at: soon) {
        Issue.record("\(number) does not justify a worker")
      }
    }
    guard case .startsWorker = queue.add(12, at: soon) else {
      Issue.record("twelve justify a worker")
      return
    }
    #expect(queue.next(at: soon) == Array(1...12))
  }

  @Test func `of two workers the one that finds few entries ends, and the other one commits them`() {
    var queue = CommitQueue<Int>()
    _ = queue.add(0, at: start)
    #expect(queue.next(at: start) == [0])
    for number in 1...12 { _ = queue.add(number, at: start) }
    #expect(queue.next(at: start)?.count == 12)
    _ = queue.add(13, at: soon)
    #expect(queue.next(at: soon) == nil, "the other worker is about to end")
    #expect(queue.next(at: soon) == [13])
    #expect(queue.next(at: soon) == nil)
  }

  @Test func `an entry that waits too long behind a slow commit gets another worker`() {
    var queue = CommitQueue<Int>()
    _ = queue.add(0, at: start)
    #expect(queue.next(at: start) == [0])
    guard case .startsWatch = queue.add(1, at: start) else {
      Issue.record("no watch would find it")
      return
    }
    if case .startsWatch = queue.add(2, at: start) { Issue.record("one watch is enough") }
    guard case .continues = queue.overdue(at: soon), case .startsWorker = queue.overdue(at: late) else {
      Issue.record("a worker should start after the timeout and not before")
      return
    }
    #expect(queue.next(at: late) == [1, 2])
    guard case .ends = queue.overdue(at: late), case .startsWatch = queue.add(3, at: late) else {
      Issue.record("the watch should end when no entry waits, and start again for the next one")
      return
    }
  }

  @Test
  func `at most four slow commits run at once, and the first one that ends commits the waiting entries`() {
    var queue = CommitQueue<Int>()
    var workers = 0
    for number in 0..<4 {
      // Each entry is overdue when it arrives, and its commit never ends.
      _ = queue.add(number, at: start)
      if number > 0, case .startsWorker = queue.overdue(at: late) { workers += 1 }
      #expect(queue.next(at: late) == [number])
    }
    _ = queue.add(4, at: start)
    guard case .continues = queue.overdue(at: late) else {
      Issue.record("four are enough")
      return
    }
    #expect(workers == 3)
    #expect(queue.next(at: late) == [4])
  }

  @Test
  func `entries that have a lock in common with one that was set aside are in no batch, and leave with it`() {
    var queue = CommitQueue<Int>()
    for number in [207, 308, 117, 309] { _ = queue.add(number, at: start) }
    #expect(queue.setAside([107]) == true)
    for number in [127, 177, 401] { _ = queue.add(number, at: start) }
    #expect(queue.setAside([137, 502]) == false, "one worker waits for locks")
    // 207 has the digit of 107, and 117 has its hundreds; 502 is a group of its own.
    #expect(queue.next(at: start) == [308, 309, 401])
    #expect(queue.count == 7)
    let first = queue.nextGroup()
    #expect(first?.first == 107)
    #expect(first?.groups == 2)
    let refused = queue.endGroup(isGranted: false, at: start).refused
    #expect(refused == [107, 207, 117, 127, 177, 137])
    let second = queue.nextGroup()
    #expect(second?.first == 502)
    #expect(second?.groups == 1)
    _ = queue.add(512, at: start)
    let granted = queue.endGroup(isGranted: true, at: start)
    #expect(granted.refused == [])
    let third = queue.nextGroup()
    #expect(third?.first == nil)
    #expect(queue.next(at: start) == [512])
    #expect(queue.count == 0)
    // Both locks are free again.
    _ = queue.add(147, at: start)
    #expect(queue.next(at: start) == [147])
  }

  @Test func `entries that were set aside count against the limit of waiting entries`() {
    var queue = CommitQueue<Int>()
    #expect(queue.setAside([1]) == true)
    let answers = (0..<5_000).map { _ in queue.add(1, at: start) }
    let refused = answers.filter { if case .refused = $0 { true } else { false } }
    #expect(refused.count == 5_000 - 4_095)
    #expect(queue.next(at: late) == nil)
  }

  /// Simulates workers that end, workers that never end (all but one), and the watch that the queue starts.
  @Test(arguments: 0..<200 as Range<UInt64>)
  func `every entry is committed once and in order, for random starts and ends of commits`(seed: UInt64) {
    var random = SplitMix64(state: seed)
    var queue = CommitQueue<Int>()
    var (now, sent) = (start, 0)
    var (ready, running, watches) = (0, 0, 0)
    var taken: [Int] = []
    func take() {
      guard let batch = queue.next(at: now) else { return }
      taken += batch
      running += 1
    }
    func check() {
      now += queue.timeout
      switch queue.overdue(at: now) {
      case .ends: watches -= 1
      case .startsWorker: ready += 1
      case .continues: break
      }
    }
    for _ in 0..<300 {
      switch Int.random(in: 0..<8, using: &random) {
      case 0...3:
        switch queue.add(sent, at: now) {
        case .startsWorker: ready += 1
        case .startsWatch: watches += 1
        case .waits: break
        case .refused: Issue.record("there is room")
        }
        sent += 1
      case 4 where ready > 0, 5 where ready > 0:
        ready -= 1
        take()
      case 6 where running > 0:
        running -= 1
        take()
      case 7 where watches > 0: check()
      default: now += .milliseconds(1)
      }
    }
    #expect(watches <= 1)
    // All running commits end, except three that never end.
    let held = min(running, CommitQueue<Int>.maximumWorkers - 1)
    while ready > 0 || running > held || watches > 0 {
      if ready > 0 {
        ready -= 1
        take()
      } else if running > held {
        running -= 1
        take()
      } else {
        check()
      }
    }
    #expect(taken == Array(0..<sent))
    #expect(queue.count == 0)
  }
}
