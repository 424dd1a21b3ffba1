import Testing

@testable import ReceiptService

@Suite struct LedgerQueueTests {
  @Test func `beyond 4,096 who wait the next one is refused, until some have gone`() {
    var queue = LedgerQueue<Int>()
    var refused = 0
    for number in 0..<5_000 {
      if case .refused = queue.add(number) { refused += 1 }
    }
    #expect(queue.count == 4_096)
    #expect(refused == 5_000 - 4_096)
    #expect(queue.next()?.count == 64)
    if case .refused = queue.add(5_000) { Issue.record("there is room again") }
  }

  @Test func `four commits are under way at most, of 64 at most, in the order of their coming`() {
    var queue = LedgerQueue<Int>()
    var lanes = 0
    for number in 0..<300 {
      if case .startsLane = queue.add(number) { lanes += 1 }
    }
    #expect(lanes == 4)
    var batches: [[Int]] = []
    while let batch = queue.next() { batches.append(batch) }
    #expect(batches.map(\.count) == [64, 64, 64, 64, 44])
    #expect(batches.flatMap { $0 } == Array(0..<300))
    // The lane that found nothing has ended, so the next one who comes starts it anew.
    guard case .startsLane = queue.add(300) else {
      Issue.record("nobody would commit it")
      return
    }
  }
}
