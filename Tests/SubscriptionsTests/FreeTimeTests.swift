import FoundationEssentials
import Testing

@testable import Subscriptions

@Suite struct FreeTimeTests {
  private func spell(_ start: Double, _ end: Double?) -> FreeTime.Spell {
    FreeTime.Spell(startsAt: day(start), endsAt: end.map { day($0) })
  }

  @Test func `free time is on from its first instant to its end, which it does not own`() {
    let freeTime = FreeTime([spell(5, 8), spell(10, nil)])
    #expect(!freeTime.isOn(at: day(5) - 0.001))
    #expect(freeTime.isOn(at: day(5)))
    #expect(!freeTime.isOn(at: day(8)))
    #expect(freeTime.isOn(at: day(1_000)))
    #expect(freeTime.nextChange(after: day(0)) == day(5))
    #expect(freeTime.nextChange(after: day(5)) == day(8))
    #expect(freeTime.nextChange(after: day(8)) == day(10))
    #expect(freeTime.nextChange(after: day(10)) == nil)
  }

  @Test(arguments: [
    // Before it, and after it: as if it had not been.
    (0.0, 4.0, 4.0), (8, 20, 20), (9, 12, 12),
    // It begins in the middle, it is there at the beginning, it lies wholly within.
    (0, 6, 9), (6, 10, 12), (0, 20, 23),
    // The end of the time is the beginning of free time: it was over by then.
    (0, 5, 5),
  ])
  func `a time that meets free time is longer by as much as they share`(
    time: (start: Double, end: Double, over: Double)
  ) {
    let freeTime = FreeTime([spell(5, 8)])
    let end = freeTime.end(of: (time.end - time.start) * 86_400, from: day(time.start))
    #expect(end == day(time.over))
  }

  @Test(arguments: [
    (0.0, 4.0, 4.0), (0, 6, 5), (6, 7, 0), (4, 9, 2), (8, 12, 2), (20, 30, 0), (4, 30, 3), (9, 4, 0),
  ])
  func `paid is what free time leaves`(time: (start: Double, end: Double, days: Double)) {
    let freeTime = FreeTime([spell(5, 8), spell(10, nil)])
    #expect(freeTime.paidTime(from: day(time.start), until: day(time.end)) == time.days * 86_400)
  }

  @Test func `free time that ends now is what it was until now`() {
    let freeTime = FreeTime([spell(5, 8), spell(10, nil)])
    #expect(freeTime.ending(at: day(5)) == FreeTime.never)
    #expect(freeTime.ending(at: day(6)) == FreeTime([spell(5, 6)]))
    #expect(freeTime.ending(at: day(9)) == FreeTime([spell(5, 8)]))
    #expect(freeTime.ending(at: day(12)) == FreeTime([spell(5, 8), spell(10, 12)]))
  }

  @Test func `nobody knows the end of a time in the middle of which free time is on`() {
    #expect(FreeTime([spell(5, nil)]).end(of: 10 * 86_400, from: day(0)) == nil)
    #expect(FreeTime([spell(5, nil)]).end(of: 4 * 86_400, from: day(0)) == day(4))
    #expect(FreeTime([spell(5, 6), spell(8, 9)]).end(of: 10 * 86_400, from: day(0)) == day(12))
  }

  @Test func `spells that overlap count once, in whatever order they come`() {
    let freeTime = FreeTime([spell(7, 12), spell(5, 8), spell(6, 7)])
    #expect(freeTime.end(of: 10 * 86_400, from: day(0)) == day(17))
    #expect(freeTime.spells.map(\.startsAt) == [day(5), day(8)])
  }

  @Test func `the app's own grace stands still while free time is on`() throws {
    let app = sampleApp(ownGraceDays: 7)
    let facts = SubscriptionFacts([period("1000", from: 0, to: 30)])
    let honoured = try #require(facts.subscription(under: app, freeTime: FreeTime([spell(32, 42)])))
    #expect(honoured.phase(at: day(46.9)).status == .grace)
    #expect(honoured.phase(at: day(47)).status == .expired)
    let open = try #require(facts.subscription(under: app, freeTime: FreeTime([spell(32, nil)])))
    #expect(open.phase(at: day(500)).status == .grace)
    #expect(open.nextChange(after: day(31)) == nil)
  }
}
