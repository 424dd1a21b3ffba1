import AppStore
import Foundation
import Synchronization
import Testing

@testable import AppStoreSimulator

struct RetryTests {
  private static let away = SendOutcome(result: .socketIssue)

  @Test func `the store retries a notification 1, 12, 24, 48 and 72 hours after the previous attempt`() {
    var queue = RetryQueue(timeScale: .calendar)
    var now = Climb.start
    var waits: [Double] = []
    queue.failed("a", at: now, outcome: Self.away)
    while let due = queue.nextDue {
      #expect(queue.takeDue(at: due - 0.001) == [])
      #expect(queue.takeDue(at: due) == ["a"])
      #expect(queue.takeDue(at: due) == [])
      waits.append(due.timeIntervalSince(now) / 3600)
      now = due
      queue.failed("a", at: now, outcome: .answered(503))
    }
    #expect(waits == [1, 12, 24, 48, 72])
  }

  @Test func `the retry schedule is as much shorter as the store's month`() {
    var queue = RetryQueue(timeScale: TimeScale(monthSeconds: 720))
    queue.failed("a", at: Climb.start, outcome: Self.away)
    #expect(queue.nextDue == Climb.start + 1)
  }

  @Test func `the store does not retry a notification after a delivery or a 400`() {
    var queue = RetryQueue(timeScale: .calendar)
    queue.failed("a", at: Climb.start, outcome: .answered(400))
    #expect(queue.nextDue == nil)
    for (uuid, status) in [("b", 401), ("c", 404), ("d", 500), ("e", 302)] {
      queue.failed(uuid, at: Climb.start, outcome: .answered(status))
      #expect(queue.due(uuid) == Climb.start + 3600)
    }
    queue.delivered("b")
    #expect(queue.takeDue(at: .day(1)) == ["c", "d", "e"])
  }

  @Test func `the retry queue returns the longest overdue notification first`() {
    var queue = RetryQueue(timeScale: .calendar)
    queue.putOff("late", until: .day(2))
    queue.putOff("early", until: .day(1))
    queue.putOff("never", until: .day(9))
    #expect(queue.takeDue(at: .day(3)) == ["early", "late"])
    #expect(queue.nextDue == .day(9))
  }

  // MARK: The schedule in the store

  /// A sender with a configurable response.
  private final class Server: NotificationSender {
    private let state = Mutex((status: 503, payloads: [String]()))
    var payloads: [String] { state.withLock { $0.payloads } }
    func answer(_ status: Int) { state.withLock { $0.status = status } }

    func send(_ signedPayload: String, to url: String) async -> SendOutcome {
      state.withLock { state in
        state.payloads.append(signedPayload)
        return .answered(state.status)
      }
    }
  }

  private static func store(
    _ sender: any NotificationSender, retries: Bool = true
  ) throws -> (SimulatedAppStore, VirtualClock) {
    let clock = VirtualClock(startingAt: Climb.start, rate: 0)
    let store = try SimulatedAppStore(
      apps: [Climb.app], webhook: "http://127.0.0.1/", clock: clock, retries: retries, sender: sender)
    return (store, clock)
  }

  private static func hours(_ notification: SignedNotification?) -> [Double] {
    (notification?.attempts ?? []).map { $0.attemptDate.timeIntervalSince(Climb.start) / 3600 }
  }

  @Test func `the store sends a notification six times as the clock advances, then gives it up`() async throws
  {
    let server = Server()
    let (store, clock) = try Self.store(server)
    let uuid = try store.test(bundleID: Climb.bundleID).uuid
    await store.deliver(uuid)
    #expect(store.nextAttempt(of: uuid) == Climb.start + 3600)
    #expect(await store.deliverDue() == [])
    for _ in 0..<200 {
      try clock.advance(by: 3600)
      await store.deliverDue()
    }
    #expect(Self.hours(store.notification(uuid)) == [0, 1, 13, 37, 85, 157])
    #expect(Set(server.payloads).count == 1)
    #expect(store.nextAttempt(of: uuid) == nil)
  }

  @Test func `the store does not retry after a delivery, in the sandbox, or with retries off`()
    async throws
  {
    let server = Server()
    let (store, clock) = try Self.store(server)
    let real = try store.test(bundleID: Climb.bundleID).uuid
    let sandboxed = try store.test(bundleID: Climb.bundleID, in: .sandbox).uuid
    for uuid in [real, sandboxed] { await store.deliver(uuid) }
    server.answer(206)
    try clock.advance(by: 7200)
    #expect(await store.deliverDue() == [real])
    try clock.advance(by: 30 * 86_400)
    #expect(await store.deliverDue() == [])
    #expect(Self.hours(store.notification(real)) == [0, 2])
    #expect(Self.hours(store.notification(sandboxed)) == [0])

    let (other, otherClock) = try Self.store(Server(), retries: false)
    let uuid = try other.test(bundleID: Climb.bundleID).uuid
    await other.deliver(uuid)
    try otherClock.advance(by: 86_400)
    #expect(await other.deliverDue() == [])
  }

  @Test(.timeLimit(.minutes(10)))
  func `keepDelivering sends due notifications as soon as the clock is set`() async throws {
    let (sent, arrivals) = AsyncStream.makeStream(of: Void.self)
    struct Announcing: NotificationSender {
      let server: Server
      let arrivals: AsyncStream<Void>.Continuation
      func send(_ signedPayload: String, to url: String) async -> SendOutcome {
        arrivals.yield()
        return await server.send(signedPayload, to: url)
      }
    }
    let (store, clock) = try Self.store(Announcing(server: Server(), arrivals: arrivals))
    let uuid = try store.test(bundleID: Climb.bundleID).uuid
    let delivering = Task { await store.keepDelivering() }
    await store.deliver(uuid)
    try clock.advance(by: 3600)
    // At this rate an hour takes no time, so the other retries follow at once.
    try clock.run(at: 1e9)
    var count = 0
    for await _ in sent {
      count += 1
      if count == 6 { break }
    }
    delivering.cancel()
    await delivering.value
  }
}
