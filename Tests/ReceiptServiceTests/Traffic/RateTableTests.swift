import Testing

@testable import ReceiptService

/// How much of a rate each key has left. Time is a number in the test's hand.
@Suite struct RateTableTests {
  private static let second: UInt64 = 1_000_000_000
  /// Ten a second, three at once.
  private static let rate = TrafficRate(oneEach: .milliseconds(100), burst: 3)

  @Test func `a burst passes, then one each interval`() {
    var table = RateTable(rate: Self.rate, capacity: 64)
    let start = 5 * Self.second
    for _ in 0..<3 { #expect(table.take(1, at: start) == nil) }
    #expect(table.take(1, at: start) == 100_000_000)
    #expect(table.take(1, at: start + 60_000_000) == 40_000_000)
    #expect(table.take(1, at: start + 100_000_000) == nil)
    #expect(table.take(1, at: start + 100_000_000) == 100_000_000)
    // Another one is not touched by it.
    #expect(table.take(2, at: start + 100_000_000) == nil)
    // After a rest all of the burst is back, and no more.
    for _ in 0..<3 { #expect(table.take(1, at: start + 60 * Self.second) == nil) }
    #expect(table.take(1, at: start + 60 * Self.second) != nil)
  }

  @Test func `a refusal costs nothing, and waiting as long as it says is enough`() throws {
    var table = RateTable(rate: Self.rate, capacity: 64)
    for _ in 0..<3 { #expect(table.take(1, at: Self.second) == nil) }
    for _ in 0..<1_000 { #expect(table.take(1, at: Self.second) != nil) }
    let wait = try #require(table.wait(1, at: Self.second))
    #expect(table.take(1, at: Self.second + wait - 1) == 1)
    #expect(table.take(1, at: Self.second + wait) == nil)
  }

  @Test func `looking takes nothing`() {
    var table = RateTable(rate: Self.rate, capacity: 64)
    for _ in 0..<100 { #expect(table.wait(1, at: Self.second) == nil) }
    for _ in 0..<3 { #expect(table.take(1, at: Self.second) == nil) }
    #expect(table.wait(1, at: Self.second) == 100_000_000)
  }

  @Test func `nobody ever gets more than the burst and the rate, however he spreads it`() {
    var generator = SeededGenerator(seed: 11)
    for _ in 0..<50 {
      var table = RateTable(rate: Self.rate, capacity: 64)
      var now = Self.second
      var taken: [UInt64] = []
      for _ in 0..<400 {
        now += UInt64.random(in: 0...80_000_000, using: &generator)
        if table.take(9, at: now) == nil { taken.append(now) }
      }
      for (index, first) in taken.enumerated() {
        for (offset, last) in taken[index...].enumerated() {
          #expect(UInt64(offset + 1) <= 3 + (last - first) / 100_000_000)
        }
      }
      // And whoever asks all the time gets all of it.
      #expect(UInt64(taken.count) + 1 >= (now - taken[0]) / 100_000_000)
    }
  }

  @Test func `a model with a place for everybody says the same while there is room`() {
    var generator = SeededGenerator(seed: 5)
    var table = RateTable(rate: Self.rate, capacity: 65_536)
    var model: [UInt64: UInt64] = [:]
    var now: UInt64 = 1
    let keys = (0..<500).map { _ in UInt64.random(in: .min ... .max, using: &generator) }
    for _ in 0..<20_000 {
      now += UInt64.random(in: 0...2_000_000, using: &generator)
      let key = keys[Int.random(in: 0..<keys.count, using: &generator)]
      let fullAt = max(now, model[key] ?? 0)
      let isAllowed = fullAt - now <= 200_000_000
      if isAllowed { model[key] = fullAt + 100_000_000 }
      #expect((table.take(key, at: now) == nil) == isAllowed)
    }
  }

  @Test func `a crowd does not wash away the bucket of one who has used it up`() {
    var generator = SeededGenerator(seed: 3)
    var table = RateTable(rate: Self.rate, capacity: 1_024)
    for _ in 0..<3 { _ = table.take(77, at: Self.second) }
    // A hundred times as many as there are places, each of whom asks once.
    for _ in 0..<102_400 {
      _ = table.take(UInt64.random(in: .min ... .max, using: &generator), at: Self.second)
    }
    #expect(table.take(77, at: Self.second) == 100_000_000)
  }

  @Test func `a full table still lets a newcomer in`() {
    var generator = SeededGenerator(seed: 4)
    var table = RateTable(rate: Self.rate, capacity: 64)
    for _ in 0..<640 {
      let key = UInt64.random(in: .min ... .max, using: &generator)
      for _ in 0..<3 { _ = table.take(key, at: Self.second) }
    }
    #expect(table.take(12_345, at: Self.second) == nil)
  }

  @Test func `tables that are shared count each subject once`() async {
    let table = SharedRateTable(rate: TrafficRate(oneEach: .seconds(1), burst: 50), capacity: 1_024)
    let admitted = await withTaskGroup(of: Int.self) { group in
      for _ in 0..<8 {
        group.addTask { (0..<100).count { _ in table.take("one", at: Self.second) == nil } }
      }
      return await group.reduce(0, +)
    }
    #expect(admitted == 50)
    #expect(table.wait("one", at: Self.second) == .seconds(1))
    #expect(table.wait("another", at: Self.second) == nil)
  }
}
