import Testing

@testable import Customers

@Suite(.timeLimit(.minutes(10))) struct TurnsTests {
  private struct Failure: Error {}

  @Test func `a task that waits for too long for a key fails, and the key stays usable`() async throws {
    let turns = Turns<String>(maximumWaiting: 8, patience: .milliseconds(50))
    try await turns.take("phone")
    await #expect(throws: TurnTimeout.self) { try await turns.take("phone") }
    #expect(turns.waitingCount == 0)
    try await turns.take("tablet")
    turns.end("phone")
    try await turns.take("phone")
  }

  @Test func `as many tasks run at a time as may, and one more waits for the first that ends`() async throws {
    let turns = Turns<String>(atOnce: 2, maximumWaiting: 1, patience: .seconds(60))
    for _ in 0..<2 { try await turns.take("phone") }
    let third = Task { try await turns.take("phone") }
    while turns.waitingCount == 0 { await Task.yield() }
    await #expect(throws: TooManyWaiting.self) { try await turns.take("phone") }
    turns.end("phone")
    try await third.value
  }

  @Test func `a failure that the waiting tasks would meet too ends their wait`() async throws {
    let turns = Turns<String>(maximumWaiting: 8, patience: .seconds(60))
    try await turns.take("phone")
    let waiting = (0..<3).map { _ in Task { try await turns.take("phone") } }
    while turns.waitingCount < 3 { await Task.yield() }
    turns.end("phone", Failure())
    for task in waiting { await #expect(throws: Failure.self) { try await task.value } }
    try await turns.take("phone")
  }
}
