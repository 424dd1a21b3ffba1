import Curl
import Foundation
import HTTP
import HTTPTypes
import JWTKit
import Logging
import PrometheusText
import Testing

@testable import Authentication
@testable import ReceiptService
@testable import Requests

/// An issuer whose key set cannot be fetched for a while.
@Suite struct PublicKeysTests {
  /// Public keys of an issuer on a real socket, with a manual clock.
  struct Fixture {
    let issuer: KeyServer
    let clock: ManualClock
    let metrics: ServiceMetrics
    let log: LogLines
    let keys: PublicKeys

    /// Fetches the keys for the first time.
    func start() async throws {
      let isKnown = try await hasKey()
      #expect(isKnown)
    }

    /// Whether the key for a token is available.
    func hasKey(_ kid: String = "key-1") async throws -> Bool { try await keys.key(named: kid) != nil }

    func scrape() throws -> Scrape { try Scrape(String(decoding: metrics.registry.render(), as: UTF8.self)) }
  }

  private static func withKeys(
    query: String = "", _ body: (Fixture) async throws -> Void
  ) async throws {
    let issuer = try await KeyServer()
    let client = CurlClient(configuration: CurlConfiguration(userAgent: "tests"))
    let (clock, metrics, log) = (ManualClock(), ServiceMetrics(), LogLines())
    let keys = PublicKeys(
      address: "http://\(issuer.address)/jwks.json\(query)", client: client, clock: clock.service,
      logger: Logger(label: "tests") { _ in log }, metrics: metrics.authentication, jitter: { 1 })
    do {
      try await body(
        Fixture(issuer: issuer, clock: clock, metrics: metrics, log: log, keys: keys))
    } catch {
      await client.shutDown()
      await issuer.stop()
      throw error
    }
    await client.shutDown()
    await issuer.stop()
  }

  static let failures: [KeyServer.Reply] = [
    .status(500), .status(404), .status(204), .text("nonsense"), .text(""), .text("{}"),
    .text(#"{"keys": 1}"#),
    .text(#"{"keys": [{"kty": "EC", "kid": "key-1"}]}"#), .text(#"{"keys": [{"kty": "oct", "k": "AAAA"}]}"#),
  ]

  @Test(arguments: failures)
  func `cached public keys stay in use for 24 hours, however the fetch fails`(failure: KeyServer.Reply)
    async throws
  {
    try await Self.withKeys { fixture in
      try await fixture.start()
      fixture.issuer.reply(with: failure)
      fixture.clock.advance(seconds: 601)
      #expect(try await fixture.hasKey())
      #expect(fixture.issuer.requests == 2)
      fixture.clock.advance(seconds: 86_399 - 601)
      #expect(try await fixture.hasKey())
      await fixture.keys.retryIfDue()
      fixture.clock.advance(seconds: 1)
      await #expect(throws: ServiceError.authUnavailable) { try await fixture.hasKey() }

      fixture.issuer.reply(with: .keySet)
      fixture.clock.advance(seconds: 300)
      #expect(try await fixture.hasKey())
    }
  }

  @Test func `a request with a cached public key does not wait for a failing fetch`() async throws {
    try await Self.withKeys { fixture in
      try await fixture.start()
      fixture.issuer.reply(with: .status(503))
      fixture.clock.advance(seconds: 601)
      #expect(try await fixture.hasKey())
      fixture.issuer.reply(with: .held)
      fixture.clock.advance(seconds: 60)
      #expect(try await fixture.hasKey())
      await fixture.issuer.holds()
      #expect(try await fixture.hasKey())
      #expect(fixture.issuer.isHolding)
      #expect(fixture.issuer.requests == 3)
    }
  }

  @Test func `many requests during an outage of the issuer cause few fetches, with growing delays`()
    async throws
  {
    try await Self.withKeys { fixture in
      try await fixture.start()
      fixture.issuer.reply(with: .status(503))
      fixture.clock.advance(seconds: 600)
      var fetches: [Int] = []
      for second in 0..<3_600 {
        let before = fixture.issuer.requests
        #expect(try await fixture.hasKey())
        await fixture.keys.retryIfDue()
        if fixture.issuer.requests > before { fetches.append(second) }
        fixture.clock.advance(seconds: 1)
      }
      let pauses = zip(fetches.dropFirst(), fetches).map { $0 - $1 }
      #expect(pauses.prefix(5) == [32, 64, 128, 256, 300])
      #expect(pauses.dropFirst(5).allSatisfy { $0 == 300 })
      #expect(fixture.issuer.requests == fetches.count + 1)
    }
  }

  @Test
  func `a withdrawn public key is not accepted after the next fetch, also after an outage`()
    async throws
  {
    try await Self.withKeys { fixture in
      let other = fixture.issuer.jwks.replacing("key-1", with: "key-2")
      try await fixture.start()
      fixture.issuer.reply(with: .text(other))
      fixture.clock.advance(seconds: 600)
      #expect(try await fixture.hasKey() == false)
      #expect(try await fixture.hasKey("key-2"))

      fixture.issuer.reply(with: .status(503))
      fixture.clock.advance(seconds: 601)
      #expect(try await fixture.hasKey("key-2"))
      fixture.issuer.reply(with: .keySet)
      fixture.clock.advance(seconds: 60)
      await fixture.keys.retryIfDue()
      #expect(try await fixture.hasKey("key-2") == false)
      #expect(try await fixture.hasKey())

      // An empty set: no key is valid.
      fixture.issuer.reply(with: .text(#"{"keys": []}"#))
      fixture.clock.advance(seconds: 600)
      #expect(try await fixture.hasKey() == false)
    }
  }

  @Test func `unknown key ids cause fetches at a bounded rate, also during an outage`() async throws {
    try await Self.withKeys { fixture in
      try await fixture.start()
      for number in 0..<50 { #expect(try await fixture.hasKey("made-up-\(number)") == false) }
      #expect(fixture.issuer.requests == 1)
      fixture.clock.advance(seconds: 30)
      for number in 0..<50 { #expect(try await fixture.hasKey("made-up-\(number)") == false) }
      #expect(fixture.issuer.requests == 2)

      fixture.issuer.reply(with: .status(503))
      fixture.clock.advance(seconds: 30)
      for number in 0..<50 {
        await #expect(throws: ServiceError.authUnavailable) { try await fixture.hasKey("made-up-\(number)") }
      }
      #expect(try await fixture.hasKey())
      #expect(fixture.issuer.requests == 3)
    }
  }

  @Test
  func
    `the log has one line for the start and one for the end of an issuer's outage, without secrets of its address`()
    async throws
  {
    try await Self.withKeys(query: "?apikey=hush") { fixture in
      func lines(_ words: String) -> Int { fixture.log.all.count { $0.contains(words) } }
      try await fixture.start()
      fixture.issuer.reply(with: .status(503))
      fixture.clock.advance(seconds: 601)
      for _ in 0..<20 {
        #expect(try await fixture.hasKey())
        await fixture.keys.retryIfDue()
        fixture.clock.advance(seconds: 300)
      }
      #expect(lines("public keys cannot be fetched") == 1)
      #expect(lines("status 503") == 1)
      fixture.clock.advance(days: 1)
      for _ in 0..<3 {
        await #expect(throws: ServiceError.authUnavailable) { try await fixture.hasKey() }
        fixture.clock.advance(seconds: 300)
      }
      #expect(lines("public keys are too old") == 1)
      fixture.issuer.reply(with: .keySet)
      #expect(try await fixture.hasKey())
      #expect(lines("public keys can be fetched again") == 1)
      #expect(fixture.log.all.count == 3)
      #expect(fixture.log.all.allSatisfy { $0.contains("127.0.0.1") && !$0.contains("hush") })
    }
  }

  @Test func `a change of the wall clock does not change the age of cached public keys`() async throws {
    try await Self.withKeys { fixture in
      let start = fixture.clock.now
      try await fixture.start()
      fixture.issuer.reply(with: .status(503))
      fixture.clock.setWallClock(start + 365 * 86_400)
      #expect(try await fixture.hasKey())
      #expect(fixture.issuer.requests == 1)

      fixture.clock.setWallClock(start - 365 * 86_400)
      fixture.clock.advance(seconds: 599)
      #expect(try await fixture.hasKey())
      #expect(fixture.issuer.requests == 1)
      fixture.clock.advance(seconds: 1)
      #expect(try await fixture.hasKey())
      #expect(fixture.issuer.requests == 2)
      // The delay after a failed fetch is not affected either.
      fixture.clock.setWallClock(start - 730 * 86_400)
      fixture.clock.advance(seconds: 31)
      #expect(try await fixture.hasKey())
      await fixture.keys.retryIfDue()
      #expect(fixture.issuer.requests == 2)
      fixture.clock.advance(seconds: 1)
      await fixture.keys.retryIfDue()
      #expect(fixture.issuer.requests == 3)

      fixture.clock.advance(seconds: 86_400 - 632 - 1)
      #expect(try await fixture.hasKey())
      await fixture.keys.retryIfDue()
      fixture.clock.advance(seconds: 1)
      await #expect(throws: ServiceError.authUnavailable) { try await fixture.hasKey() }
    }
  }

  @Test func `metrics show the age of public keys and failed fetches by app`() async throws {
    try await Self.withKeys { fixture in
      await fixture.keys.serve(["a", "b"])
      #expect(try fixture.scrape()["receiptd_jwks_fetched_seconds{app=\"a\"}"] == 0)
      try await fixture.start()
      let fetchedAt = fixture.clock.now.timeIntervalSince1970
      fixture.issuer.reply(with: .status(503))
      fixture.clock.advance(seconds: 601)
      #expect(try await fixture.hasKey())
      var scrape = try fixture.scrape()
      for app in ["a", "b"] {
        #expect(scrape["receiptd_jwks_fetched_seconds{app=\"\(app)\"}"] == fetchedAt)
        #expect(scrape["receiptd_jwks_failing{app=\"\(app)\"}"] == 1)
        #expect(scrape["receiptd_jwks_refreshes_total{app=\"\(app)\",outcome=\"ok\"}"] == 1)
        #expect(scrape["receiptd_jwks_refreshes_total{app=\"\(app)\",outcome=\"failed\"}"] == 1)
      }
      // An app that a reload removed does not keep an alert firing.
      await fixture.keys.serve(["b"])
      scrape = try fixture.scrape()
      #expect(scrape["receiptd_jwks_failing{app=\"a\"}"] == 0)
      #expect(scrape["receiptd_jwks_failing{app=\"b\"}"] == 1)
    }
  }
}

/// Cached keys survive a reload of the configuration.
@Suite struct ReloadedPublicKeysTests {
  @Test func `a reload keeps the cached public keys of an address during an outage of the issuer`()
    async throws
  {
    let issuer = try await KeyServer()
    func configuration(_ members: String) -> String {
      TestApps.configuration(auth: #"{ "jwks": "http://\#(issuer.address)/jwks.json"\#(members) }"#)
    }
    try await withHarness(configuration: configuration(#", "issuer": "https://auth.example""#)) { harness in
      let user = UUID()
      let claims = TestClaims(sub: user.uuidString, exp: Int(harness.clock.now.timeIntervalSince1970) + 3_600)
      let token = try await issuer.keys.sign(claims, kid: "key-1")
      #expect(try await harness.profile(of: user, token: token).status == 200)
      issuer.reply(with: .status(503))
      harness.clock.advance(seconds: 601)

      // The issuer's name changes, its keys do not.
      let file = try #require(harness.environment["RECEIPTD_CONFIG"])
      try Data(configuration(#", "audience": "authenticated""#).utf8).write(to: URL(filePath: file))
      let reloaded = try await harness.service.reloaded()
      let server = HTTPServer(
        configuration: HTTPServerConfiguration(), router: reloaded.clientRouter,
        logger: Logger(label: "tests") { _ in SwiftLogNoOpLogHandler() })
      let address = try server.start()
      let path = "/api/v1/profiles/\(user.uuidString.lowercased())/premium"
      #expect(try await harness.send(.get, path, token: token, to: address).status == 200)
      let scrape = try await harness.scrape()
      #expect(scrape["receiptd_jwks_failing{app=\"\(TestApps.climbing)\"}"] == 1)
      await server.shutdown(within: .seconds(1))
      await reloaded.retire()
    }
    await issuer.stop()
  }
}
