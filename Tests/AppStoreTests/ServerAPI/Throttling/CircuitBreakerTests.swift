import Testing

@testable import AppStore

struct CircuitBreakerTests {
  private let start = ContinuousClock.now

  private func fail(
    _ circuit: inout CircuitBreaker, times: Int, at now: ContinuousClock.Instant, jitter: Double = 1
  )
    throws
  {
    for _ in 0..<times { circuit.failed(try pass(&circuit, at: now), at: now, jitter: jitter) }
  }

  private func pass(_ circuit: inout CircuitBreaker, at now: ContinuousClock.Instant) throws
    -> CircuitBreaker.Pass
  {
    let pass = circuit.ask(at: now)
    return try #require(pass)
  }

  @Test func `the circuit breaker opens at the fifth failure in a row and sends one probe after a pause`()
    throws
  {
    var circuit = CircuitBreaker()
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

  @Test func `a response resets the circuit breaker's count of failures`() throws {
    var circuit = CircuitBreaker()
    for _ in 0..<10 {
      try fail(&circuit, times: 4, at: start)
      circuit.answered()
    }
    #expect(circuit.wait(at: start) == nil)
  }

  @Test
  func `each failed probe doubles the circuit breaker's pause up to a minute, and a response resets it`()
    throws
  {
    var circuit = CircuitBreaker()
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

  @Test func `the circuit breaker ignores the failure of a request from before it opened`() throws {
    var circuit = CircuitBreaker()
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

  @Test func `the request after an abandoned probe is the next probe`() throws {
    var circuit = CircuitBreaker()
    try fail(&circuit, times: 5, at: start)
    let later = start + .seconds(1)
    circuit.abandoned(try pass(&circuit, at: later), at: later)
    let next = try pass(&circuit, at: later)
    #expect(next.isProbe)
  }
}
