import Platform
import Testing

@testable import Sockets

@Suite struct DeadlineWheelTests {
  private static let tick = DeadlineWheel.tickLength

  private static func instant(_ tenthsOfTicks: UInt64) -> MonotonicInstant {
    MonotonicInstant(nanoseconds: tenthsOfTicks * tick / 10)
  }

  @Test func `a deadline is not due before its instant, and is due within a tick after it`() {
    for deadline in UInt64(1)...60 {
      var wheel = DeadlineWheel(now: Self.instant(0))
      wheel.schedule(7, at: Self.instant(deadline))
      for now in 0..<deadline {
        #expect(wheel.advance(to: Self.instant(now)).isEmpty, "\(deadline) at \(now)")
      }
      #expect(wheel.advance(to: Self.instant(deadline + 10)) == [7])
      #expect(wheel.count == 0)
    }
  }

  @Test func `a deadline more than one turn of the wheel ahead is due in its own turn`() {
    var wheel = DeadlineWheel(now: Self.instant(0))
    wheel.schedule(0, at: MonotonicInstant(nanoseconds: 3000 * Self.tick))
    wheel.schedule(1, at: MonotonicInstant(nanoseconds: 3000 % 1024 * Self.tick))
    #expect(wheel.advance(to: MonotonicInstant(nanoseconds: 2000 * Self.tick)) == [1])
    #expect(wheel.advance(to: MonotonicInstant(nanoseconds: 2999 * Self.tick)).isEmpty)
    #expect(wheel.advance(to: MonotonicInstant(nanoseconds: 3000 * Self.tick)) == [0])
  }

  @Test func `rescheduling an item changes the wheel only if the deadline is earlier`() {
    var wheel = DeadlineWheel(now: Self.instant(0))
    let changes = [100, 200, 50].map { wheel.schedule(0, at: Self.instant($0)) }
    #expect(changes == [true, false, true])
    #expect(wheel.count == 1)
    #expect(wheel.advance(to: Self.instant(50)) == [0])
    #expect(wheel.advance(to: Self.instant(300)).isEmpty)
  }

  @Test func `a cancelled deadline does not become due`() {
    var wheel = DeadlineWheel(now: Self.instant(0))
    for item in 0..<5 { wheel.schedule(item, at: Self.instant(100)) }
    wheel.cancel(0)
    wheel.cancel(3)
    wheel.cancel(3)
    #expect(wheel.count == 3)
    #expect(Set(wheel.advance(to: Self.instant(100))) == [1, 2, 4])
  }

  @Test func `the wheel's next due instant is the tick of the earliest deadline`() {
    var wheel = DeadlineWheel(now: Self.instant(0))
    #expect(wheel.nextDue == nil)
    wheel.schedule(0, at: Self.instant(75))
    wheel.schedule(1, at: Self.instant(31))
    #expect(wheel.nextDue == Self.instant(40))
    _ = wheel.advance(to: Self.instant(40))
    #expect(wheel.nextDue == Self.instant(80))
  }

  @Test func `random deadlines become due as in a sorted list`() {
    var random = SystemRandomNumberGenerator()
    var wheel = DeadlineWheel(now: Self.instant(0))
    var model: [Int: UInt64] = [:]
    var now: UInt64 = 0
    for _ in 0..<5000 {
      let item = Int.random(in: 0..<50, using: &random)
      switch Int.random(in: 0..<4, using: &random) {
      case 0, 1:
        let deadline = now + UInt64.random(in: 1...20_000, using: &random)
        wheel.schedule(item, at: Self.instant(deadline))
        let tick = max((deadline + 9) / 10, now / 10 + 1)
        model[item] = min(model[item] ?? .max, tick)
      case 2:
        wheel.cancel(item)
        model[item] = nil
      default:
        now += UInt64.random(in: 0...3000, using: &random)
        let due = Set(wheel.advance(to: Self.instant(now)))
        let expected = Set(model.filter { $0.value <= now / 10 }.keys)
        #expect(due == expected)
        for item in expected { model[item] = nil }
      }
      #expect(wheel.count == model.count)
    }
  }
}
