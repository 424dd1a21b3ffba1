import Testing

@testable import AppStore

struct CircuitTests {
  private let start = ContinuousClock.now

  private func fail(_ circuit: inout Circuit, times: Int, at now: ContinuousClock.Instant, jitter: Double = 1)
    throws
  {
    for _ in 0..<times { circuit.failed(try pass(&circuit, at: now), at: now, jitter: jitter) }
  }

  private func pass(_ circuit: inout Circuit, at now: ContinuousClock.Instant) throws -> Circuit.Pass {
    let pass = circuit.ask(at: now)
    return try #require(pass)
  }

  @Test func `it opens at the fifth failure in a row, and lets one through after a pause`() throws {
    var circuit = Circuit()
    try fail(&circuit, times: 4, at: start)
    #expect(circuit.wait(at: start) == nil)
    try fail(&circuit, times: 1, at: start)
    #expect(circuit.wait(at: start) == .seconds(1))
    let early = circuit.ask(at: start + .milliseconds(999))
    #expect(early == nil)
    let probe = try pass(&circuit, at: start + .seconds(1))
    #expect(probe.isProbe)
    let second = circuit.ask(at: start + .seconds(100))
    #expect(second == nil)
    circuit.answered()
    let next = try pass(&circuit, at: start + .seconds(100))
    #expect(!next.isProbe)
  }

  @Test func `an answer between failures begins the count anew`() throws {
    var circuit = Circuit()
    for _ in 0..<10 {
      try fail(&circuit, times: 4, at: start)
      circuit.answered()
    }
    #expect(circuit.wait(at: start) == nil)
  }

  @Test
  func `each probe that fails makes the pause longer, up to a minute, and an answer makes it short again`()
    throws
  {
    var circuit = Circuit()
    try fail(&circuit, times: 5, at: start)
    var now = start
    var pauses: [Duration] = []
    for _ in 0..<8 {
      let wait = try #require(circuit.wait(at: now))
      pauses.append(wait)
      now += wait
      try fail(&circuit, times: 1, at: now)
    }
    #expect(pauses == [1, 2, 4, 8, 16, 32, 60, 60].map { .seconds($0) })
    circuit.answered()
    try fail(&circuit, times: 5, at: now, jitter: 0)
    #expect(circuit.wait(at: now) == .milliseconds(500))
  }

  @Test func `failures of requests from before it opened do not count after it`() throws {
    var circuit = Circuit()
    let slow = try pass(&circuit, at: start)
    try fail(&circuit, times: 5, at: start)
    let probe = try pass(&circuit, at: start + .seconds(1))
    circuit.failed(slow, at: start + .seconds(1), jitter: 1)
    circuit.answered()
    #expect(circuit.wait(at: start + .seconds(1)) == nil)
    circuit.failed(probe, at: start + .seconds(2), jitter: 1)
    try fail(&circuit, times: 4, at: start + .seconds(2))
    #expect(circuit.wait(at: start + .seconds(2)) == nil)
  }

  @Test func `a probe whose asker went away leaves its turn to the next`() throws {
    var circuit = Circuit()
    try fail(&circuit, times: 5, at: start)
    let later = start + .seconds(1)
    circuit.abandoned(try pass(&circuit, at: later), at: later)
    let next = try pass(&circuit, at: later)
    #expect(next.isProbe)
  }
}
