import Testing

@testable import AppStore

struct RateLimitTests {
  private let start = ContinuousClock.now

  private func at(_ milliseconds: Int) -> ContinuousClock.Instant { start + .milliseconds(milliseconds) }

  /// A limit in a class, so that an expectation can call mutating methods.
  private final class Limited {
    private var limit: RateLimit

    init(count: Int, window: Duration, maximumWaiting: Int) {
      limit = RateLimit(count: count, window: window, maximumWaiting: maximumWaiting)
    }

    var nextTick: ContinuousClock.Instant? { limit.nextTick }
    var waitingCount: Int { limit.waitingCount }

    func ask(
      _ id: UInt64, at now: ContinuousClock.Instant, latest: ContinuousClock.Instant
    ) -> RateLimit.Admission {
      limit.ask(id, at: now, latest: latest)
    }

    func answered(at now: ContinuousClock.Instant) { limit.answered(at: now) }
    func returned() { limit.returned() }
    func pause(until instant: ContinuousClock.Instant) { limit.pause(until: instant) }
    func leave(_ id: UInt64) -> Bool { limit.leave(id) }
    func tick(at now: ContinuousClock.Instant) -> RateLimit.Effects { limit.tick(at: now) }
  }

  /// Simulates requests at random times with random timeouts over a network with random delays.
  private struct Simulation {
    enum Event {
      case ask(id: UInt64, timeout: Int)
      case answer
      case pause(length: Int)
      case tick
    }

    var limit: RateLimit
    let start: ContinuousClock.Instant
    var random: SeededGenerator
    var events: [(at: Int, what: Event)] = []
    var latest: [UInt64: Int] = [:]
    var arrivals: [Int] = []
    var departures: [(id: UInt64, at: Int)] = []
    var pauses: [(from: Int, to: Int)] = []

    mutating func run() {
      while let next = events.indices.min(by: { events[$0].at < events[$1].at }) {
        let (time, event) = events.remove(at: next)
        let now = start + .milliseconds(time)
        switch event {
        case .ask(let id, let timeout):
          latest[id] = time + timeout
          if limit.ask(id, at: now, latest: now + .milliseconds(timeout)) == .go { depart(id, time) }
        case .answer: limit.answered(at: now)
        case .pause(let length):
          limit.pause(until: now + .milliseconds(length))
          pauses.append((time, time + length))
        case .tick: break
        }
        for id in limit.tick(at: now).admitted { depart(id, time) }
        events.removeAll { if case .tick = $0.what { true } else { false } }
        if let tick = limit.nextTick { events.append((max(milliseconds(tick), time), .tick)) }
      }
    }

    private func milliseconds(_ instant: ContinuousClock.Instant) -> Int {
      Int(((instant - start) / .milliseconds(1)).rounded(.up))
    }

    private mutating func depart(_ id: UInt64, _ time: Int) {
      departures.append((id, time))
      let arrival = time + Int.random(in: 0...400, using: &random)
      arrivals.append(arrival)
      events.append((arrival + Int.random(in: 0...300, using: &random), .answer))
    }
  }

  @Test(arguments: 0..<60 as Range<UInt64>)
  func `the App Store never receives more than the rate in any window, at any network delays`(seed: UInt64) {
    var random = SeededGenerator(state: seed)
    let count = Int.random(in: 1...10, using: &random)
    var simulation = Simulation(
      limit: RateLimit(count: count, window: .seconds(1), maximumWaiting: 40), start: start,
      random: SeededGenerator(state: seed ^ 0xFFFF))
    for id in 0..<200 as Range<UInt64> {
      simulation.events.append(
        (
          Int.random(in: 0...8_000, using: &random),
          .ask(id: id, timeout: Int.random(in: 0...4_000, using: &random))
        ))
    }
    if seed % 3 == 0 {
      simulation.events.append((Int.random(in: 0...8_000, using: &random), .pause(length: 1_500)))
    }
    simulation.run()

    let arrivals = simulation.arrivals.sorted()
    #expect(arrivals.count >= 3 * count)
    for (place, arrival) in arrivals.enumerated() where place >= count {
      #expect(arrival - arrivals[place - count] >= 1_000)
    }
    for (id, time) in simulation.departures {
      #expect(time <= simulation.latest[id] ?? -1)
      // No request is admitted in a pause; one may have been admitted in its first millisecond, before it.
      #expect(!simulation.pauses.contains { $0.from < time && time < $0.to })
    }
    #expect(Set(simulation.departures.map(\.id)).count == simulation.departures.count)
  }

  @Test func `the rate limit admits the whole rate when responses arrive at once`() {
    let limit = Limited(count: 5, window: .seconds(1), maximumWaiting: 100)
    var gone: [Int] = []
    for id in 0..<15 as Range<UInt64> where limit.ask(id, at: start, latest: at(10_000)) == .go {
      gone.append(0)
      limit.answered(at: start)
    }
    while let tick = limit.nextTick {
      for _ in limit.tick(at: tick).admitted {
        gone.append(Int((tick - start) / .milliseconds(1)))
        limit.answered(at: tick)
      }
    }
    #expect(
      gone == Array(repeating: 0, count: 5) + Array(repeating: 1000, count: 5)
        + Array(repeating: 2000, count: 5))
  }

  @Test func `the rate limit refuses a request that would wait too long at once, with the wait`() {
    let limit = Limited(count: 2, window: .seconds(1), maximumWaiting: 100)
    #expect(limit.ask(1, at: start, latest: start) == .go)
    #expect(limit.ask(2, at: start, latest: start) == .go)
    limit.answered(at: at(100))
    // One permit rests until 1.1 s; the other is in use and returns 1.05 s from now at the earliest.
    #expect(limit.ask(3, at: at(100), latest: at(1_000)) == .refused(.milliseconds(1_000)))
    #expect(limit.ask(4, at: at(100), latest: at(1_100)) == .wait)
    #expect(limit.ask(5, at: at(100), latest: at(1_100)) == .refused(.milliseconds(1_050)))
    #expect(limit.waitingCount == 1)
    #expect(limit.nextTick == at(1_100))
    #expect(limit.tick(at: at(1_100)).admitted == [4])
  }

  @Test func `the rate limit refuses a request to a full queue`() {
    let limit = Limited(count: 1, window: .seconds(1), maximumWaiting: 2)
    #expect(limit.ask(1, at: start, latest: at(9_000)) == .go)
    #expect(limit.ask(2, at: start, latest: at(9_000)) == .wait)
    #expect(limit.ask(3, at: start, latest: at(9_000)) == .wait)
    guard case .refused = limit.ask(4, at: start, latest: at(9_000)) else {
      Issue.record("not refused")
      return
    }
    #expect(limit.leave(2))
    #expect(!limit.leave(2))
    #expect(limit.ask(5, at: start, latest: at(9_000)) == .wait)
    limit.answered(at: start)
    #expect(limit.tick(at: at(1_000)).admitted == [3])
  }

  @Test func `the rate limit refuses a queued request at its deadline`() {
    let limit = Limited(count: 1, window: .seconds(1), maximumWaiting: 10)
    #expect(limit.ask(1, at: start, latest: start) == .go)
    #expect(limit.ask(2, at: start, latest: at(2_000)) == .wait)
    #expect(limit.nextTick == at(2_000))
    #expect(limit.tick(at: at(1_999)) == .init())
    #expect(limit.tick(at: at(2_000)).refused == [2])
    #expect(limit.nextTick == nil)
  }

  @Test func `a permit that is returned unused is available at once`() {
    let limit = Limited(count: 1, window: .seconds(1), maximumWaiting: 10)
    #expect(limit.ask(1, at: start, latest: start) == .go)
    limit.returned()
    #expect(limit.ask(2, at: start, latest: start) == .go)
  }

  @Test
  func `a paused rate limit refuses requests with an earlier deadline and admits the others after the pause`()
  {
    let limit = Limited(count: 1, window: .seconds(1), maximumWaiting: 10)
    #expect(limit.ask(1, at: start, latest: start) == .go)
    #expect(limit.ask(2, at: start, latest: at(2_000)) == .wait)
    #expect(limit.ask(3, at: start, latest: at(60_000)) == .wait)
    limit.answered(at: start)
    limit.pause(until: at(30_000))
    limit.pause(until: at(10_000))
    #expect(limit.tick(at: at(1)).refused == [2])
    #expect(limit.nextTick == at(30_000))
    #expect(limit.tick(at: at(29_999)) == .init())
    #expect(limit.tick(at: at(30_000)).admitted == [3])
  }

  @Test func `the sandbox's rate limit is a tenth of production's`() {
    #expect(Endpoint.subscriptionStatuses.allowance(in: .production) == (50, .seconds(1)))
    #expect(Endpoint.subscriptionStatuses.allowance(in: .sandbox) == (5, .seconds(1)))
    #expect(Endpoint.orderLookup.allowance(in: .sandbox) == (1, .seconds(1)))
    #expect(Endpoint.extensionStatus.allowance(in: .sandbox) == (1, .seconds(10)))
    for endpoint in Endpoint.allCases {
      let (count, window) = endpoint.allowance(in: .sandbox)
      #expect(Double(count) / (window / .seconds(1)) * 10 == Double(endpoint.rate))
    }
  }
}
