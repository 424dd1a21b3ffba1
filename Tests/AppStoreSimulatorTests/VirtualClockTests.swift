import Foundation
import Synchronization
import Testing

@testable import AppStoreSimulator

struct VirtualClockTests {
  /// A real time that the test sets.
  private final class Real: Sendable {
    private let date = Mutex(Date.day(0))
    var now: Date { date.withLock { $0 } }
    func pass(_ seconds: Double) { date.withLock { $0 += seconds } }
  }

  @Test func `runs with the real time from its start`() {
    let real = Real()
    let clock = VirtualClock(startingAt: .day(100)) { real.now }
    real.pass(30)
    #expect(clock.now == .day(100) + 30)
  }

  @Test func `is set forward and never back`() throws {
    let real = Real()
    let clock = VirtualClock(startingAt: .day(0)) { real.now }
    try clock.advance(by: 86_400)
    try clock.set(to: .day(7))
    real.pass(1)
    #expect(clock.now == .day(7) + 1)
    #expect(throws: VirtualClock.GoesBack(now: .day(7) + 1)) { try clock.set(to: .day(7)) }
    #expect(throws: VirtualClock.GoesBack(now: .day(7) + 1)) { try clock.advance(by: -1) }
    try clock.advance(by: 0)
    #expect(clock.now == .day(7) + 1)
  }
}
