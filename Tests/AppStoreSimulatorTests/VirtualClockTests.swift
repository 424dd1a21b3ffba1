import Foundation
import Synchronization
import Testing

@testable import AppStoreSimulator

struct VirtualClockTests {
  /// A real time that the test sets.
  final class Real: Sendable {
    private let date = Mutex(Date.day(0))
    var now: Date { date.withLock { $0 } }
    func pass(_ seconds: Double) { date.withLock { $0 += seconds } }
  }

  @Test func `a virtual clock runs at its rate and stops at rate 0`() throws {
    let real = Real()
    let clock = VirtualClock(startingAt: .day(100), rate: 2) { real.now }
    real.pass(30)
    #expect(clock.now == .day(100) + 60)
    try clock.run(at: 3600)
    real.pass(1)
    #expect(clock.now == .day(100) + 3660)
    try clock.run(at: 0)
    real.pass(1000)
    #expect(clock.now == .day(100) + 3660)
    #expect(clock.rate == 0)
    #expect(throws: VirtualClock.Refusal.notARate(-1)) { try clock.run(at: -1) }
    #expect(throws: VirtualClock.Refusal.self) { try clock.run(at: .infinity) }
  }

  @Test func `a virtual clock can be set forward and never back`() throws {
    let real = Real()
    let clock = VirtualClock(startingAt: .day(0), rate: 1) { real.now }
    try clock.advance(by: 86_400)
    try clock.set(to: .day(7))
    real.pass(1)
    #expect(clock.now == .day(7) + 1)
    #expect(throws: VirtualClock.Refusal.goesBack(from: .day(7) + 1)) { try clock.set(to: .day(7)) }
    #expect(throws: VirtualClock.Refusal.goesBack(from: .day(7) + 1)) { try clock.advance(by: -1) }
    try clock.advance(by: 0)
    // The virtual clock does not go back if the real time does.
    real.pass(-3600)
    #expect(clock.now == .day(7) + 1)
    real.pass(1)
    #expect(clock.now == .day(7) + 2)
  }

  @Test func `a virtual clock gives the real seconds until a time and reports changes`() throws {
    let real = Real()
    let clock = VirtualClock(startingAt: .day(0), rate: 60) { real.now }
    let touched = Mutex(0)
    clock.onChange { touched.withLock { $0 += 1 } }
    #expect(clock.realSeconds(until: .day(0) + 3600) == 60)
    #expect(clock.realSeconds(until: .day(-1)) == 0)
    try clock.run(at: 0)
    #expect(clock.realSeconds(until: .day(1)) == nil)
    try clock.advance(by: 1)
    #expect(touched.withLock { $0 } == 2)
  }

  private static let durations: [(String, Double)] = [
    ("P1D", 86_400), ("PT12H", 43_200), ("P1DT12H30M", 131_400), ("PT90S", 90), ("P2W", 1_209_600),
    ("P1M", 2_678_400), ("P1Y", 31_536_000), ("P1Y1M1W1DT1H1M1S", 34_909_261),
  ]

  @Test(arguments: durations)
  func `a duration is parsed in ISO 8601`(text: String, seconds: Double) throws {
    let duration = try #require(StoreDuration(text))
    #expect(TimeScale.calendar.date(Climb.start, adding: duration) == Climb.start + seconds)
  }

  @Test func `a shorter month shortens durations in proportion`() throws {
    let scale = TimeScale(monthSeconds: 720)
    for (text, seconds) in [("P1D", 24.0), ("PT1H", 1), ("PT30M", 0.5), ("P1M", 720), ("P1YT1H", 8641)] {
      let duration = try #require(StoreDuration(text))
      #expect(scale.date(Climb.start, adding: duration) == Climb.start + seconds, "\(text)")
    }
  }

  @Test(arguments: [
    "", "P", "PT", "1D", "P1", "P1DT", "P-1D", "P+1D", "P1D1Y", "P1H", "PT1D", "PT1H1H", "P1.5D", "P1D ",
    "P99999999D", "p1d", "P1D\n",
  ])
  func `a text that is not an ISO 8601 duration is refused`(text: String) {
    #expect(StoreDuration(text) == nil)
  }
}
