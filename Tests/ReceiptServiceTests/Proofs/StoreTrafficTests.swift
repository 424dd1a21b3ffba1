import AppStore
import AppStoreSimulator
import Foundation
import HTTP
import HTTPTypes
import Synchronization
import TestDatabase
import Testing

@testable import ReceiptService

/// The requests that the App Store receives.
@Suite struct StoreTrafficTests {
  @Test func `a burst of 1,000 validations of one transaction id makes one App Store request`() async throws {
    try await withStoreHarness { harness in
      let start = ContinuousClock.now
      let answers = try await harness.validate(Array(repeating: "77", count: 1_000))
      #expect(answers.allSatisfy { $0.status == 200 })
      // Responses are cached for 3 s; a slow machine needs one more request for each 3 s.
      let turns = 1 + Int((ContinuousClock.now - start) / .seconds(3))
      #expect((1...turns).contains(harness.front.asks.count))
      #expect(harness.front.asks.allSatisfy { $0.transactionID == "77" })
    }
  }

  @Test
  func `1,000 concurrent ids stay within Apple's rate limit, and refused requests get Retry-After`()
    async throws
  {
    try await withStoreHarness { harness in
      let answers = try await harness.validate((0..<1_000).map { "\(1_000 + $0)" })
      let answered = answers.filter { $0.status == 200 }
      let refused = answers.filter { $0.status != 200 }
      // All ids are unknown and get 30 of 50 requests a second: 30 at once, and 30 for each second of waiting within
      // the 5 s of a request, where the machine is not too busy for a second round.
      #expect(answered.count >= 30)
      #expect(!refused.isEmpty)
      #expect(harness.front.asks.count >= answered.count)
      for answer in refused {
        #expect(answer.status == 503)
        #expect(answer.code == "store_unavailable")
        let wait = answer.headers[.retryAfter].flatMap { Int($0) } ?? 0
        #expect((1...60).contains(wait))
      }
      for (_, asks) in Dictionary(grouping: harness.front.asks, by: \.endpoint) {
        let instants = asks.map(\.instant).sorted()
        for place in instants.indices.dropFirst(50) {
          #expect(instants[place] - instants[place - 50] >= .seconds(1))
        }
      }
    }
  }

  /// The sandbox has one subscription, and production none.
  private static func sell(_ original: String, latest: String, _ front: FakeAppStoreServer) {
    let authority = front.authority
    front.set { ask in
      var info = FakeAppStoreServer.info(latest, in: .sandbox)
      info.originalTransactionId = original
      guard [original, latest].contains(ask.transactionID), ask.endpoint.hasPrefix("/sandbox"),
        let jws = try? authority.signer.sign(info)
      else { return .storeError(4_040_010) }
      let item = #"{"originalTransactionId":"\#(original)","signedTransactionInfo":"\#(jws)"}"#
      let answer =
        ask.endpoint.contains("subscriptions") ? #"{"data":[{"lastTransactions":[\#(item)]}]}"# : item
      return Response(status: .ok, body: Array(answer.utf8))
    }
  }

  /// Waits until the sandbox has received this many requests.
  private static func sandboxIsAsked(_ count: Int, _ front: FakeAppStoreServer) async throws {
    let deadline = ContinuousClock.now + .seconds(60)
    while front.asks.count(where: { $0.endpoint.hasPrefix("/sandbox") }) < count {
      try #require(ContinuousClock.now < deadline)
      await Task.yield()
    }
  }

  private static let unknownIDs = (0..<60).map { "\(90_000 + $0)" }

  @Test func `a flood of unknown ids leaves sandbox capacity to a known purchase`() async throws {
    try await withStoreHarness { harness in
      Self.sell("501", latest: "502", harness.front)
      #expect(try await harness.validate("501").status == 200)
      async let flood = harness.validate(Self.unknownIDs)
      try await Self.sandboxIsAsked(4, harness.front)
      // The first lookup of this id, so no cached response exists.
      #expect(try await harness.validate("502").status == 200)
      _ = try await flood
    }
  }

  @Test
  func `a flood of unknown ids from one address leaves sandbox capacity to a tester at another address`()
    async throws
  {
    let environment = ["RATE_LIMIT": "1000", "TRUSTED_PROXIES": "127.0.0.0/8"]
    try await withStoreHarness(environment: environment) { harness in
      Self.sell("501", latest: "501", harness.front)
      async let flood = harness.validate(Self.unknownIDs, from: "203.0.113.1")
      try await Self.sandboxIsAsked(3, harness.front)
      let answer = try await harness.validate("501", from: "203.0.113.2")
      #expect(answer.status == 200, "\(answer.code ?? "") \(answer.string("detail") ?? "")")
      let refused = try await flood.filter { $0.status == 429 }
      #expect(refused.count >= 40)
      #expect(refused.allSatisfy { $0.headers[.retryAfter].flatMap { Int($0) } ?? 0 >= 1 })
    }
  }

  @Test func `an unavailable App Store opens the circuit breaker, and requests resume when it is back`()
    async throws
  {
    try await withStoreHarness { harness in
      harness.proxy.set(.cutAtAnswer)
      var answers: [Answer] = []
      for id in 0..<30 { answers.append(try await harness.validate("\(id)")) }
      #expect(answers.allSatisfy { $0.status == 503 && $0.code == "store_unavailable" })
      // Five failures open the circuit; a probe may have gone since, if this machine was slow.
      let asked = harness.front.asks.count
      #expect((5...8).contains(asked))
      #expect(answers.last?.headers[.retryAfter].flatMap { Int($0) } ?? 0 >= 1)

      harness.proxy.set(.pass)
      let deadline = ContinuousClock.now + .seconds(120)
      var recovered = false
      while !recovered, ContinuousClock.now < deadline {
        recovered = try await harness.validate("99").status == 200
      }
      #expect(recovered)
      let again = try await harness.validate("100")
      #expect(again.status == 200)
    }
  }

  @Test func `App Store error 5000001 is retried, and 4040010 is not`() async throws {
    try await withStoreHarness { harness in
      let failures = Mutex(2)
      harness.front.set { _ in
        failures.withLock { failures in
          guard failures > 0 else { return nil }
          failures -= 1
          return .storeError(5_000_001)
        }
      }
      let answer1 = try await harness.validate("1")
      #expect(answer1.status == 200)
      #expect(harness.front.asks.count == 3)

      harness.front.set { _ in .storeError(4_040_010) }
      let unknown = try await harness.validate("2")
      #expect(unknown.code == "transaction_not_found")
      // Statuses and transaction, in production and in the sandbox.
      let asked = harness.front.asks.count
      #expect(asked == 3 + 4)
      // Unknown ids are cached too.
      let answer2 = try await harness.validate("2")
      #expect(answer2.status == 404)
      #expect(harness.front.asks.count == asked)
    }
  }

  @Test func `after 429 an App Store endpoint gets no request until the instant in Retry-After`() async throws
  {
    try await withStoreHarness { harness in
      harness.front.set { _ in .storeError(4_290_000, retryAfter: Date() + 600) }
      for id in 1...20 {
        let answer = try await harness.validate("\(id)")
        #expect(answer.code == "store_unavailable")
        let wait = answer.headers[.retryAfter].flatMap { Int($0) } ?? 0
        #expect((500...601).contains(wait))
      }
      #expect(harness.front.asks.count == 1)
    }
  }

  @Test
  func
    `a purchase that is not a subscription is found by its transaction if its customer has no subscription`()
    async throws
  {
    try await withStoreHarness { harness in
      let authority = harness.front.authority
      for statuses in [
        Response.storeError(4_040_010), Response(status: .ok, body: Array(#"{"data":[]}"#.utf8)),
      ] {
        let id = "\(statuses.status.code)"
        harness.front.set { ask in
          guard ask.endpoint == "/inApps/v1/transactions/" else {
            return ask.endpoint.contains("subscriptions") ? statuses : nil
          }
          var info = FakeAppStoreServer.info(ask.transactionID)
          info.productId = TestApps.lifetime
          info.type = .nonConsumable
          info.expiresDate = nil
          guard let jws = try? authority.signer.sign(info) else { return nil }
          return Response(status: .ok, body: Array(#"{"signedTransactionInfo":"\#(jws)"}"#.utf8))
        }
        let answer = try await harness.validate(id)
        #expect(answer.status == 200)
        #expect(answer.string("subscription.productID") == TestApps.lifetime)
        #expect(answer.isNull("subscription.expiryDate"))
      }
    }
  }

  @Test func `the id of an earlier period returns the current one, with two requests`() async throws {
    try await withStoreHarness { harness in
      let authority = harness.front.authority
      let sign: @Sendable (String, TimeInterval) -> String? = { id, age in
        var info = FakeAppStoreServer.info("500")
        info.transactionId = id
        info.purchaseDate -= age
        info.expiresDate = info.expiresDate.map { $0 - age }
        return try? authority.signer.sign(info)
      }
      harness.front.set { ask in
        guard let old = sign("501", 30 * 86_400), let new = sign("502", 0) else { return nil }
        return Response(
          status: .ok,
          body: Array(
            (ask.endpoint.contains("subscriptions")
              ? #"{"data":[{"lastTransactions":[{"originalTransactionId":"500","signedTransactionInfo":"\#(new)"}]}]}"#
              : #"{"signedTransactionInfo":"\#(old)"}"#).utf8))
      }
      let answer = try await harness.validate("501")
      #expect(answer.string("subscription.transactionID") == "502")
      #expect(answer.string("subscription.status") == "active")
      #expect(harness.front.asks.count == 2)
      // The latest and the original transaction need one request.
      for id in ["502", "500"] {
        let before = harness.front.asks.count
        let answer3 = try await harness.validate(id)
        #expect(answer3.string("subscription.transactionID") == "502")
        #expect(harness.front.asks.count == before + 1)
      }
    }
  }

  @Test func `logs name the App Store's failure and contain neither tokens nor signed data`()
    async throws
  {
    try await withStoreHarness { harness in
      harness.front.set { ask in
        ask.transactionID == "1"
          ? Response(status: .ok, body: Array(#"{"data":7}"#.utf8)) : .storeError(5_000_000)
      }
      let answer4 = try await harness.validate("1")
      #expect(answer4.status == 503)
      harness.front.set { _ in nil }
      let answer5 = try await harness.validate("2")
      #expect(answer5.status == 200)
      #expect(harness.logs.all.contains { $0.contains("not the JSON of StatusResponse") })
      #expect(!harness.logs.all.contains { $0.contains("eyJ") || $0.contains("Bearer") })
    }
  }
}
