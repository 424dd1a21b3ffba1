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
}
