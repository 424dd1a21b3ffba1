import Foundation
import HTTPTypes
import JWTKit
import Synchronization
import Testing

@testable import AppStore

struct ThrottledCallTests {
  private static let key = ES256PrivateKey().pemRepresentation
  private struct Cut: Error {}

  private func api(
    _ transport: any HTTPTransport, _ clock: HandDrivenClock, timeout: Duration = .seconds(5)
  ) throws -> AppStoreServerAPI {
    AppStoreServerAPI(
      transport: transport,
      credentials: try AppStoreCredentials(privateKey: Self.key, keyID: "KEY", issuerID: "ISSUER"),
      bundleID: "com.example.app", timeout: timeout, clock: clock.storeClock)
  }

  private func error(
    _ call: () async throws(AppStoreServerError) -> some Any
  ) async -> AppStoreServerError? {
    do throws(AppStoreServerError) {
      _ = try await call()
      return nil
    } catch {
      return error
    }
  }

  /// A transport that returns these responses in turn, and then always the last one.
  private func answers(_ answers: StubTransport.Answer...) -> StubTransport {
    let next = Mutex(0)
    return StubTransport { _ in
      next.withLock { next in
        defer { next += 1 }
        return answers[min(next, answers.count - 1)]
      }
    }
  }

  private let found = StubTransport.Answer.json(#"{"signedTransactionInfo":"jws"}"#)

  // MARK: Retries

  @Test(arguments: [4_040_002, 4_040_004, 4_040_006, 5_000_001] as [Int64])
  func `an App Store call with a retryable error is retried after growing delays`(code: Int64) async throws {
    let clock = HandDrivenClock(jumps: true)
    let transport = answers(.error(code), .error(code), found)
    let answer = try await api(transport, clock).transactionInfo("1", in: .production)
    #expect(answer.signedTransactionInfo == "jws")
    #expect(transport.sent.count == 3)
    #expect(clock.elapsed == .milliseconds(750))
  }

  @Test func `retries of an App Store call end at the caller's timeout with the store's error`() async throws
  {
    let clock = HandDrivenClock(jumps: true)
    let transport = answers(.error(5_000_001))
    let api = try api(transport, clock)
    let error = await error { () async throws(AppStoreServerError) in
      try await api.transactionInfo("1", in: .production)
    }
    #expect(error?.code == .generalInternalRetryable)
    // The attempts are after 0, 0.25, 0.75, 1.75 and 3.75 s; the next one would end after the timeout.
    #expect(transport.sent.count == 5)
    #expect(clock.elapsed < .seconds(4))

    let slow = api.with(timeout: .seconds(60))
    let before = transport.sent.count
    _ = await self.error { () async throws(AppStoreServerError) in
      try await slow.transactionInfo("2", in: .production)
    }
    #expect(transport.sent.count - before > 5)
  }

  @Test(arguments: [4_040_010, 4_000_006, 4_290_000] as [Int64])
  func `an App Store call with an error that is not retryable is not retried`(code: Int64) async throws {
    let clock = HandDrivenClock(jumps: true)
    let transport = answers(.error(code), found)
    let api = try api(transport, clock)
    let error = await error { () async throws(AppStoreServerError) in
      try await api.transactionInfo("1", in: .production)
    }
    #expect(error?.code?.rawValue == code)
    #expect(transport.sent.count == 1)
    #expect(clock.elapsed == .zero)
  }

  @Test func `after 429 a call waits until the instant of Retry-After, in milliseconds`() async throws {
    let clock = HandDrivenClock(jumps: true)
    var limited = StubTransport.Answer.error(4_290_000)
    limited.fields[.retryAfter] = "\(Int64(clock.epoch.timeIntervalSince1970 * 1000) + 2_345)"
    let transport = answers(limited, found)
    _ = try await api(transport, clock).transactionInfo("1", in: .production)
    #expect(transport.sent.count == 2)
    // Milliseconds are not exact in the calendar's floating point.
    #expect(clock.elapsed >= .milliseconds(2_345) && clock.elapsed < .milliseconds(2_350))
  }

  @Test func `a Retry-After beyond the timeout pauses the endpoint until then`()
    async throws
  {
    let clock = HandDrivenClock(jumps: true)
    var limited = StubTransport.Answer.error(4_290_000)
    limited.fields[.retryAfter] = "\(Int64(clock.epoch.timeIntervalSince1970 * 1000) + 100_000)"
    let limit = limited
    let transport = StubTransport { [found] in
      $0.url.contains("/transactions/") && clock.elapsed < .seconds(100) ? limit : found
    }
    let api = try api(transport, clock)
    for id in ["1", "1", "2", "3"] {
      let error = await error { () async throws(AppStoreServerError) in
        try await api.transactionInfo(id, in: .production)
      }
      guard case .overloaded(let wait) = error else {
        Issue.record("\(String(describing: error))")
        return
      }
      #expect(wait == .seconds(100))
    }
    #expect(transport.sent.count == 1)
    _ = try await api.subscriptionStatuses(anyTransactionID: "1", in: .production)
    #expect(transport.sent.count == 2)
    clock.advance(by: .seconds(100))
    _ = try await api.transactionInfo("1", in: .production)
    #expect(transport.sent.count == 3)
  }

  // MARK: The circuit

  @Test
  func `an unreachable App Store gets no requests, then one probe after a pause, then all requests again`()
    async throws
  {
    let clock = HandDrivenClock()
    let isDown = Mutex(true)
    let transport = StubTransport { [found] _ in
      if isDown.withLock({ $0 }) { throw Cut() }
      return found
    }
    let api = try api(transport, clock)
    func ask(_ id: Int) async -> AppStoreServerError? {
      await error { () async throws(AppStoreServerError) in
        try await api.transactionInfo("\(id)", in: .production)
      }
    }
    for id in 0..<5 {
      guard case .transport = await ask(id) else {
        Issue.record("answered")
        return
      }
    }
    for id in 5..<50 {
      guard case .circuitOpen(let wait) = await ask(id) else {
        Issue.record("asked")
        return
      }
      #expect(wait == .seconds(1))
    }
    #expect(transport.sent.count == 5)
    clock.advance(by: .seconds(1))
    _ = await ask(50)
    #expect(await ask(51)?.retryAfter == .seconds(2))
    #expect(transport.sent.count == 6)
    // The sandbox is another server.
    isDown.withLock { $0 = false }
    _ = try await api.transactionInfo("1", in: .sandbox)
    clock.advance(by: .seconds(2))
    #expect(await ask(52) == nil)
    #expect(await ask(53) == nil)
    #expect(transport.sent.count == 9)
  }

  @Test(arguments: [
    (StubTransport.Answer(status: .badGateway, body: "<html>"), true), (.json("<html>"), true),
    (.error(5_000_000), true), (.error(5_000_001), true), (.error(4_040_010), false),
    (.error(4_290_000), false),
    (.error(4_010_000), false), (.unauthenticated, false), (.error(4_040_002), false),
  ])
  func `an outage opens the circuit, and a refusal does not`(
    answer: StubTransport.Answer, opens: Bool
  ) async throws {
    let clock = HandDrivenClock(jumps: true)
    let api = try api(StubTransport { _ in answer }, clock)
    for id in 0..<5 {
      _ = await error { () async throws(AppStoreServerError) in
        try await api.transactionInfo("\(id)", in: .production)
      }
    }
    let error = await error { () async throws(AppStoreServerError) in
      try await api.transactionInfo("99", in: .production)
    }
    if case .circuitOpen = error { #expect(opens) } else { #expect(!opens) }
  }

  // MARK: Coalesced requests

  @Test
  func `a thousand equal concurrent App Store calls cause one request, and later calls use its response`()
    async throws
  {
    let clock = HandDrivenClock()
    let transport = GatedTransport()
    let api = try api(transport, clock)
    let answered = try await withThrowingTaskGroup(of: String?.self) { group in
      for _ in 0..<1_000 {
        group.addTask { try await api.transactionInfo("1", in: .production).signedTransactionInfo }
      }
      try await until { transport.paths.count > 0 }
      transport.open()
      return try await group.reduce(into: 0) { count, jws in count += jws == "jws" ? 1 : 0 }
    }
    #expect(answered == 1_000)
    #expect(transport.paths.count == 1)
    clock.advance(by: .milliseconds(2_900))
    _ = try await api.transactionInfo("1", in: .production)
    #expect(transport.paths.count == 1)
    _ = try await api.with(timeout: .seconds(5), maximumAge: .zero).transactionInfo("1", in: .production)
    #expect(transport.paths.count == 2)
    clock.advance(by: .seconds(3))
    _ = try await api.transactionInfo("1", in: .production)
    #expect(transport.paths.count == 3)
  }

  @Test func `a cancelled caller does not cancel the request that another caller shares`() async throws {
    let transport = GatedTransport()
    let api = try api(transport, HandDrivenClock())
    let first = Task { try await api.transactionInfo("1", in: .production) }
    try await until { transport.paths.count == 1 }
    let second = Task { try await api.transactionInfo("1", in: .production) }
    first.cancel()
    await #expect(throws: AppStoreServerError.self) { try await first.value }
    transport.open()
    #expect(try await second.value.signedTransactionInfo == "jws")
    #expect(transport.paths.count == 1)
  }

  @Test func `a caller joins an App Store request that another caller sent slightly earlier`() async throws {
    let clock = HandDrivenClock()
    let transport = GatedTransport()
    let api = try api(transport, clock)
    let early = api.forOneRequest()
    clock.advance(by: .milliseconds(500))
    let late = api.forOneRequest()
    let first = Task { try await late.transactionInfo("1", in: .production) }
    try await until { transport.paths.count == 1 }
    let second = Task { try await early.transactionInfo("1", in: .production) }
    for _ in 0..<100 { await Task.yield() }
    transport.open()
    _ = try await (first.value, second.value)
    #expect(transport.paths.count == 1)
  }

  @Test func `a call that changes data in the App Store empties the response cache`() async throws {
    let transport = answers(found)
    let api = try api(transport, HandDrivenClock())
    _ = try await api.transactionInfo("1", in: .production)
    _ = try await api.transactionInfo("1", in: .production)
    #expect(transport.sent.count == 1)
    try await api.setAppAccountToken(
      originalTransactionID: "1", .init(appAccountToken: UUID()), in: .production)
    _ = try await api.transactionInfo("1", in: .production)
    #expect(transport.sent.count == 3)
  }

  // MARK: Timeouts

  @Test func `an App Store call with a short timeout does not join a request with a long one`() async throws {
    let clock = HandDrivenClock()
    let transport = GatedTransport()
    let api = try api(transport, clock)
    // The sandbox allows five requests a second; these five have no response yet.
    let busy = (0..<5).map { id in Task { try await api.transactionInfo("\(id)", in: .sandbox) } }
    try await until { transport.paths.count == 5 }
    let slow = api.with(timeout: .seconds(60))
    let job = Task { try await slow.transactionInfo("99", in: .sandbox) }
    try await until { clock.sleeperCount == 1 }
    let isRefused = Mutex(false)
    let client = Task {
      defer { isRefused.withLock { $0 = true } }
      return try await api.transactionInfo("99", in: .sandbox)
    }
    // It is refused at 4 s, because no response can arrive before its timeout.
    for _ in 0..<12 where !isRefused.withLock({ $0 }) {
      for _ in 0..<500 { await Task.yield() }
      clock.advance(by: .milliseconds(500))
    }
    await #expect(throws: AppStoreServerError.self) { try await client.value }
    #expect(clock.elapsed < .seconds(30))
    #expect(transport.paths.count == 5)
    transport.open()
    for task in busy { _ = try await task.value }
    try await until { clock.sleeperCount == 1 }
    clock.advance(by: .seconds(1))
    #expect(try await job.value.signedTransactionInfo == "jws")
  }

  @Test func `all App Store calls of one client request share one timeout`() async throws {
    let clock = HandDrivenClock()
    let transport = answers(found)
    let api = try api(transport, clock).forOneRequest()
    _ = try await api.transactionInfo("1", in: .production)
    clock.advance(by: .seconds(6))
    let error = await error { () async throws(AppStoreServerError) in
      try await api.transactionInfo("2", in: .production)
    }
    guard case .overloaded = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(transport.sent.count == 1)
  }

  @Test func `a call that is cancelled in the throttle's queue sends no request`() async throws {
    let clock = HandDrivenClock()
    let transport = GatedTransport()
    let api = try api(transport, clock)
    let busy = (0..<5).map { id in
      Task { try await api.transactionHistory(anyTransactionID: "\(id)", in: .sandbox) }
    }
    try await until { transport.paths.count == 5 }
    let waiting = Task { try await api.transactionHistory(anyTransactionID: "6", in: .sandbox) }
    try await until { clock.sleeperCount == 1 }
    waiting.cancel()
    await #expect(throws: AppStoreServerError.self) { try await waiting.value }
    transport.open()
    for task in busy { _ = try await task.value }
    #expect(transport.paths.count == 5)
  }

  // MARK: Ids that a client may have invented

  /// A counter that several tasks increment.
  private final class Counter: Sendable {
    private let number = Mutex(0)

    var value: Int { number.withLock { $0 } }
    func increment() { number.withLock { $0 += 1 } }
  }

  @Test func `calls about unknown ids use at most three of the sandbox's five requests a second`()
    async throws
  {
    let clock = HandDrivenClock()
    let transport = GatedTransport()
    let api = try api(transport, clock, timeout: .seconds(60))
    let unknown = api.forUnknownIDs()
    let answered = Counter()
    @Sendable func ask(_ id: Int, of api: AppStoreServerAPI) -> Task<Void, any Error> {
      Task {
        _ = try await api.transactionInfo("\(id)", in: .sandbox)
        answered.increment()
      }
    }
    let flood = (0..<20).map { ask($0, of: unknown) }
    try await until { transport.paths.count == 3 }
    for _ in 0..<500 { await Task.yield() }
    #expect(transport.paths.count == 3)
    // Two more are sent at once, although requests about unknown ids are queued.
    let known = (90..<92).map { ask($0, of: api) }
    try await until { transport.paths.count == 5 }
    transport.open()
    for task in known { try await task.value }
    // The queued requests follow at three a second.
    for turn in 1...5 {
      try await until { answered.value == 2 + 3 * turn && clock.sleeperCount > 0 }
      for _ in 0..<500 { await Task.yield() }
      #expect(transport.paths.count == 2 + 3 * turn)
      clock.advance(by: .seconds(1))
    }
    try await until { transport.paths.count == 20 }
    for task in flood { task.cancel() }
  }
}
