import AppStore
import Foundation
import Synchronization
import Testing

@testable import AppStoreSimulator

struct RetryTests {
  /// The hours until the attempt after these ones, each of them an hour after the one before; nil if there is none.
  private static func wait(
    after outcomes: [SendOutcome], in environment: Environment = .production, scale: TimeScale = .calendar
  ) throws -> Double? {
    var store = Climb.store(environment)
    var notification = try SignedNotification(
      store.test(bundleID: Climb.bundleID, at: Climb.start), by: SigningAuthority().signer)
    for (hour, outcome) in outcomes.enumerated() {
      notification.attempts.append(
        SendAttempt(attemptDate: Climb.start + Double(hour) * 3600, outcome: outcome))
    }
    let latest = notification.attempts.last?.attemptDate ?? Climb.start
    return notification.retryDate(in: scale).map { $0.timeIntervalSince(latest) / 3600 }
  }

  private static let away = SendOutcome(result: .socketIssue)

  @Test func `five retries follow 1, 12, 24, 48 and 72 hours after the previous attempt`() throws {
    let waits = try (1...6).map { try Self.wait(after: Array(repeating: Self.away, count: $0)) }
    #expect(waits == [1, 12, 24, 48, 72, nil])
  }

  @Test func `a shortened month shortens hours`() throws {
    #expect(try Self.wait(after: [Self.away], scale: TimeScale(monthSeconds: 720)) == 1.0 / 3600)
  }

  @Test func `a 400 and a delivery are final, and the sandbox never retries`() throws {
    #expect(try Self.wait(after: [.answered(400)]) == nil)
    #expect(try Self.wait(after: [.answered(200)]) == nil)
    #expect(try Self.wait(after: [.answered(200), Self.away]) == nil)
    #expect(try Self.wait(after: [Self.away], in: .sandbox) == nil)
    for status in [401, 404, 500, 302] { #expect(try Self.wait(after: [.answered(status)]) == 1) }
  }

  @Test func `the longest overdue notification is first`() throws {
    var store = Climb.store()
    var log = NotificationLog()
    let signer = try SigningAuthority().signer
    let sent = try (0..<3).map { _ in
      try SignedNotification(store.test(bundleID: Climb.bundleID, at: Climb.start), by: signer)
    }
    for (notification, day) in zip(sent, [2.0, 1, 9]) {
      log.append(notification)
      log.update(notification.uuid) { $0.nextAttempt = .day(day) }
    }
    #expect(log.takeDue(at: .day(3)) == [sent[1].uuid, sent[0].uuid])
    #expect(log.takeDue(at: .day(3)) == [])
    #expect(log[sent[2].uuid]?.nextAttempt == .day(9))
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
    let clock = VirtualClock { Climb.start }
    let store = try SimulatedAppStore(
      apps: [Climb.app], webhook: "http://127.0.0.1/", clock: clock, retries: retries, sender: sender)
    return (store, clock)
  }

  private static func hours(_ notification: SignedNotification?) -> [Double] {
    (notification?.attempts ?? []).map { $0.attemptDate.timeIntervalSince(Climb.start) / 3600 }
  }

  @Test func `a notification is sent six times as the clock advances, then given up`() async throws {
    let server = Server()
    let (store, clock) = try Self.store(server)
    let uuid = try store.test(bundleID: Climb.bundleID).uuid
    await store.deliver(uuid)
    #expect(store.notification(uuid)?.nextAttempt == Climb.start + 3600)
    #expect(await store.deliverDue() == [])
    for _ in 0..<200 {
      try clock.advance(by: 3600)
      await store.deliverDue()
    }
    #expect(Self.hours(store.notification(uuid)) == [0, 1, 13, 37, 85, 157])
    #expect(Set(server.payloads).count == 1)
    #expect(store.notification(uuid)?.nextAttempt == nil)
  }

  @Test func `there is no retry after a delivery, in the sandbox, or with retries off`()
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
  func `keepDelivering sends due notifications after the clock is set`() async throws {
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
    var count = 0
    for await _ in sent {
      count += 1
      if count == 6 { break }
      try clock.advance(by: 72 * 3600)
    }
    delivering.cancel()
    await delivering.value
  }
}
