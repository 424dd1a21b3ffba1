import Foundation
import Testing

@testable import Subscriptions

@Suite struct FreeTimeTests {
  private func freePeriod(_ start: Double, _ end: Double?) -> FreeAccess.Period {
    FreeAccess.Period(startsAt: day(start), endsAt: end.map { day($0) })
  }

  @Test func `a free period is on from its first instant until its end, which is excluded`() {
    let freeAccess = FreeAccess([freePeriod(5, 8), freePeriod(10, nil)])
    #expect(!freeAccess.isOn(at: day(5) - 0.001))
    #expect(freeAccess.isOn(at: day(5)))
    #expect(!freeAccess.isOn(at: day(8)))
    #expect(freeAccess.isOn(at: day(1_000)))
    #expect(freeAccess.nextChange(after: day(0)) == day(5))
    #expect(freeAccess.nextChange(after: day(5)) == day(8))
    #expect(freeAccess.nextChange(after: day(8)) == day(10))
    #expect(freeAccess.nextChange(after: day(10)) == nil)
  }

  @Test(arguments: [
    // Before or after the free period: no change.
    (0.0, 4.0, 4.0), (8, 20, 20), (9, 12, 12),
    // The free period begins within the time, overlaps its beginning, or lies within it.
    (0, 6, 9), (6, 10, 12), (0, 20, 23),
    // The time ends when the free period begins, so it does not change.
    (0, 5, 5),
  ])
  func `a period that overlaps a free period ends later by the overlap`(
    time: (start: Double, end: Double, over: Double)
  ) {
    let freeAccess = FreeAccess([freePeriod(5, 8)])
    let end = freeAccess.end(of: (time.end - time.start) * 86_400, from: day(time.start))
    #expect(end == day(time.over))
  }

  @Test(arguments: [
    (0.0, 4.0, 4.0), (0, 6, 5), (6, 7, 0), (4, 9, 2), (8, 12, 2), (20, 30, 0), (4, 30, 3), (9, 4, 0),
  ])
  func `paidTime counts the time without free access`(time: (start: Double, end: Double, days: Double)) {
    let freeAccess = FreeAccess([freePeriod(5, 8), freePeriod(10, nil)])
    #expect(freeAccess.paidTime(from: day(time.start), until: day(time.end)) == time.days * 86_400)
  }

  @Test func `ending free access keeps its past and cuts its current period`() {
    let freeAccess = FreeAccess([freePeriod(5, 8), freePeriod(10, nil)])
    #expect(freeAccess.ending(at: day(5)) == FreeAccess.never)
    #expect(freeAccess.ending(at: day(6)) == FreeAccess([freePeriod(5, 6)]))
    #expect(freeAccess.ending(at: day(9)) == FreeAccess([freePeriod(5, 8)]))
    #expect(freeAccess.ending(at: day(12)) == FreeAccess([freePeriod(5, 8), freePeriod(10, 12)]))
  }

  @Test func `a period that meets free access without an end has no end`() {
    #expect(FreeAccess([freePeriod(5, nil)]).end(of: 10 * 86_400, from: day(0)) == nil)
    #expect(FreeAccess([freePeriod(5, nil)]).end(of: 4 * 86_400, from: day(0)) == day(4))
    #expect(FreeAccess([freePeriod(5, 6), freePeriod(8, 9)]).end(of: 10 * 86_400, from: day(0)) == day(12))
  }

  @Test func `overlapping free periods count once, in any order`() {
    let freeAccess = FreeAccess([freePeriod(7, 12), freePeriod(5, 8), freePeriod(6, 7)])
    #expect(freeAccess.end(of: 10 * 86_400, from: day(0)) == day(17))
    #expect(freeAccess.periods.map(\.startsAt) == [day(5), day(8)])
  }

  @Test func `free access pauses the app's own grace period`() throws {
    let app = sampleApp(ownGraceDays: 7)
    let facts = SubscriptionFacts([period("1000", from: 0, to: 30)])
    let honoured = try #require(facts.subscription(under: app, freeAccess: FreeAccess([freePeriod(32, 42)])))
    #expect(honoured.phase(at: day(46.9)).status == .grace)
    #expect(honoured.phase(at: day(47)).status == .expired)
    let open = try #require(facts.subscription(under: app, freeAccess: FreeAccess([freePeriod(32, nil)])))
    #expect(open.phase(at: day(500)).status == .grace)
    #expect(open.nextChange(after: day(31)) == nil)
  }
}
