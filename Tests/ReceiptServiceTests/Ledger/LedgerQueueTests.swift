import Testing

@testable import ReceiptService

@Suite struct LedgerQueueTests {
  private let start = ContinuousClock.now
  private var soon: ContinuousClock.Instant { start + .milliseconds(5) }
  private var late: ContinuousClock.Instant { start + .milliseconds(20) }

  @Test func `beyond 4,096 who wait the next one is refused, until some have gone`() {
    var queue = LedgerQueue<Int>()
    var refused = 0
    for number in 0..<5_000 {
      if case .refused = queue.add(number, at: start) { refused += 1 }
    }
    #expect(queue.count == 4_096)
    #expect(refused == 5_000 - 4_096)
    #expect(queue.next(at: start)?.count == 64)
    if case .refused = queue.add(5_000, at: start) { Issue.record("there is room again") }
  }

  @Test func `four commits are under way at most, of 64 at most, in the order of their coming`() {
    var queue = LedgerQueue<Int>()
    var lanes = 0
    for number in 0..<300 {
      if case .startsLane = queue.add(number, at: start) { lanes += 1 }
    }
    #expect(lanes == 4)
    var batches: [[Int]] = []
    while let batch = queue.next(at: start) { batches.append(batch) }
    #expect(batches.map(\.count) == [64, 64, 64, 64, 44])
    #expect(batches.flatMap { $0 } == Array(0..<300))
  }

  @Test func `a lone entry waits for nobody, and starts a lane again when the last one has ended`() {
    var queue = LedgerQueue<Int>()
    for number in 0..<3 {
      guard case .startsLane = queue.add(number, at: start) else {
        Issue.record("nobody would commit it")
        return
      }
      #expect(queue.next(at: start) == [number])
      #expect(queue.next(at: start) == nil)
    }
  }

  @Test func `those who come while a commit is under way wait for the next, and twelve do not`() {
    var queue = LedgerQueue<Int>()
    _ = queue.add(0, at: start)
    #expect(queue.next(at: start) == [0])
    for number in 1...11 {
      if case .startsLane = queue.add(number, at: soon) { Issue.record("\(number) is not worth a lane") }
    }
    guard case .startsLane = queue.add(12, at: soon) else {
      Issue.record("twelve are worth a lane")
      return
    }
    #expect(queue.next(at: soon) == Array(1...12))
  }

  @Test func `of two lanes the one that finds few leaves them to the other, and the last one takes them`() {
    var queue = LedgerQueue<Int>()
    _ = queue.add(0, at: start)
    #expect(queue.next(at: start) == [0])
    for number in 1...12 { _ = queue.add(number, at: start) }
    #expect(queue.next(at: start)?.count == 12)
    _ = queue.add(13, at: soon)
    #expect(queue.next(at: soon) == nil, "the other lane is about to end")
    #expect(queue.next(at: soon) == [13])
    #expect(queue.next(at: soon) == nil)
  }

  @Test func `one who waits for a commit that is held up gets a lane of its own`() {
    var queue = LedgerQueue<Int>()
    _ = queue.add(0, at: start)
    #expect(queue.next(at: start) == [0])
    guard case .startsWatch = queue.add(1, at: start) else {
      Issue.record("nobody would look after it")
      return
    }
    if case .startsWatch = queue.add(2, at: start) { Issue.record("one watch is enough") }
    guard case .goesOn = queue.overdue(at: soon), case .startsLane = queue.overdue(at: late) else {
      Issue.record("it should be patient, and then not")
      return
    }
    #expect(queue.next(at: late) == [1, 2])
    guard case .ends = queue.overdue(at: late), case .startsWatch = queue.add(3, at: late) else {
      Issue.record("the watch ends when nobody waits, and is started anew for the next one")
      return
    }
  }

  @Test
  func
    `not more than four commits are held up at once, and whoever waits is committed by the first that ends`()
  {
    var queue = LedgerQueue<Int>()
    var lanes = 0
    for number in 0..<4 {
      // Each is overdue when it comes, and its commit never ends.
      _ = queue.add(number, at: start)
      if number > 0, case .startsLane = queue.overdue(at: late) { lanes += 1 }
      #expect(queue.next(at: late) == [number])
    }
    _ = queue.add(4, at: start)
    guard case .goesOn = queue.overdue(at: late) else {
      Issue.record("four are enough")
      return
    }
    #expect(lanes == 3)
    #expect(queue.next(at: late) == [4])
  }

  // MARK: Rounds of event loops

  private final class Round {}
  private let rounds = [Round(), Round()]
  private var one: ObjectIdentifier { ObjectIdentifier(rounds[0]) }
  private var other: ObjectIdentifier { ObjectIdentifier(rounds[1]) }

  @Test func `those who come in a round wait for its end, and twelve do not`() {
    var queue = LedgerQueue<Int>()
    for number in 1...11 {
      guard case .waits = queue.add(number, at: start, in: one) else {
        Issue.record("the round's end is soon enough")
        return
      }
    }
    var early = queue
    guard case .startsLane = early.add(12, at: start, in: one) else {
      Issue.record("twelve are worth a lane")
      return
    }
    #expect(early.first(at: start)?.count == 12)
    guard case .goesOn = early.roundEnds(one, at: start) else {
      Issue.record("nobody waits any more")
      return
    }
    guard case .startsLane = queue.roundEnds(one, at: start) else {
      Issue.record("nobody would commit them")
      return
    }
    #expect(queue.first(at: start) == Array(1...11))
    #expect(queue.next(at: start) == nil)
  }

  @Test func `who comes in no round does not wait for that of others`() {
    var queue = LedgerQueue<Int>()
    _ = queue.add(1, at: start, in: one)
    guard case .startsLane = queue.add(2, at: start) else {
      Issue.record("it waits for nobody")
      return
    }
    #expect(queue.first(at: start) == [1, 2])
  }

  @Test func `a lane leaves few to the rounds in which they come, and takes them where one of them is over`()
  {
    var queue = LedgerQueue<Int>()
    _ = queue.add(0, at: start)
    #expect(queue.first(at: start) == [0])
    _ = queue.add(1, at: start, in: one)
    var over = queue
    #expect(queue.next(at: start) == nil)
    guard case .startsLane = queue.roundEnds(one, at: start) else {
      Issue.record("nobody would commit it")
      return
    }
    #expect(queue.first(at: start) == [1])

    guard case .goesOn = over.roundEnds(one, at: start) else {
      Issue.record("a commit is under way, and a watch")
      return
    }
    // Another round is under way, and so is the next of the first one's loop; neither is what the first waits for.
    _ = over.add(2, at: start, in: other)
    _ = over.add(3, at: start, in: one)
    #expect(over.next(at: start) == [1, 2, 3])
    #expect(over.next(at: start) == nil)
  }

  @Test func `a round's end that finds a commit under way has somebody look after those who wait`() {
    var queue = LedgerQueue<Int>()
    // Nobody watches them, since the rounds' ends are near.
    for round in [one, other] {
      guard case .waits = queue.add(1, at: start, in: round) else {
        Issue.record("the round's end is soon enough")
        return
      }
    }
    guard case .startsLane = queue.roundEnds(one, at: start),
      case .startsWatch = queue.roundEnds(other, at: start)
    else {
      Issue.record("the lane that was started may be held up before it takes anybody")
      return
    }
  }

  @Test func `a round in which somebody is refused ends like any other`() {
    var queue = LedgerQueue<Int>()
    for number in 0..<4_096 { _ = queue.add(number, at: start) }
    guard case .refused = queue.add(4_096, at: start, in: one),
      case .goesOn = queue.roundEnds(one, at: start)
    else {
      Issue.record("there are four lanes and a watch for those who wait")
      return
    }
    var taken = 0
    while let batch = queue.next(at: start) { taken += batch.count }
    #expect(taken == 4_096)
  }

  /// Lanes that end, and lanes that are held up for ever but one; rounds that overlap; a watch where one was asked for.
  @Test(arguments: 0..<200 as Range<UInt64>)
  func `nobody is forgotten, in whatever order rounds and commits begin and end`(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    var queue = LedgerQueue<Int>()
    var (now, sent) = (start, 0)
    var (fresh, running, watches) = (0, 0, 0)
    var open: Set<Int> = []
    func id(_ round: Int) -> ObjectIdentifier { ObjectIdentifier(rounds[round]) }
    var taken: [Int] = []
    func follow(_ admission: LedgerQueue<Int>.Admission) {
      switch admission {
      case .startsLane: fresh += 1
      case .startsWatch: watches += 1
      case .waits: break
      case .refused: Issue.record("there is room")
      }
    }
    func end(_ round: Int) {
      open.remove(round)
      switch queue.roundEnds(id(round), at: now) {
      case .startsLane: fresh += 1
      case .startsWatch: watches += 1
      case .goesOn: break
      }
    }
    func took(_ batch: [Int]?) {
      if let batch { taken += batch }
      running += batch == nil ? 0 : 1
    }
    func look() {
      now += queue.patience
      switch queue.overdue(at: now) {
      case .ends: watches -= 1
      case .startsLane: fresh += 1
      case .goesOn: break
      }
    }
    for _ in 0..<300 {
      switch Int.random(in: 0..<8, using: &random) {
      case 0...3:
        let round = [nil, 0, 1].randomElement(using: &random)!
        if let round { open.insert(round) }
        follow(queue.add(sent, at: now, in: round.map(id)))
        sent += 1
      case 4 where !open.isEmpty: end(open.randomElement(using: &random)!)
      case 5 where fresh > 0:
        fresh -= 1
        took(queue.first(at: now))
      case 6 where running > 0:
        running -= 1
        took(queue.next(at: now))
      case 7 where watches > 0: look()
      default: now += .milliseconds(1)
      }
    }
    #expect(watches <= 1)
    // All that is under way ends, but three commits that are held up for ever.
    for round in open.sorted() { end(round) }
    let held = min(running, LedgerQueue<Int>.lanes - 1)
    while fresh > 0 || running > held || watches > 0 {
      if fresh > 0 {
        fresh -= 1
        took(queue.first(at: now))
      } else if running > held {
        running -= 1
        took(queue.next(at: now))
      } else {
        look()
      }
    }
    #expect(taken == Array(0..<sent), "each once, in the order of their coming")
    #expect(queue.count == 0)
  }
}
