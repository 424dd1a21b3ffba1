import AppStore
import Curl
import Foundation
import HTTP
import HTTPTypes
import Testing

@testable import AppStoreSimulator

/// The faults of the App Store Server API over real sockets.
struct ServerFaultTests {
  private struct Fixture {
    let store: SimulatedAppStore
    let base: String
    let client: CurlClient
    let token: String
    let id: String

    func get() async throws -> CurlResponse {
      try await client.send(
        CurlRequest(
          url: base + "/inApps/v1/transactions/\(id)",
          headers: [.authorization: "Bearer \(token)"]))
    }
  }

  /// A valid bearer token.
  private static func token(_ key: ConnectKey) throws -> String {
    let expires = Int(Date().timeIntervalSince1970) + 1200
    let header = #"{"alg":"ES256","kid":"\#(key.keyID)","typ":"JWT"}"#
    let claims =
      #"{"iss":"\#(key.issuerID)","exp":\#(expires),"aud":"appstoreconnect-v1","bid":"\#(Climb.bundleID)"}"#
    return try PayloadSigner(key: key.privateKey, certificates: [])
      .sign(json: Array(claims.utf8), header: Array(header.utf8))
  }

  private static func withFixture(_ body: (Fixture) async throws -> Void) async throws {
    let store = try SimulatedAppStore(apps: [Climb.app], clock: VirtualClock { Climb.start })
    let server = try await SimulatorServer(store: store)
    let base = "http://\(try server.start())"
    let client = CurlClient()
    let fixture = Fixture(
      store: store, base: base, client: client, token: try Self.token(store.identity.connectKey),
      id: try store.buy(PurchaseRequest(bundleID: Climb.bundleID, productID: Climb.coins)).transactionID)
    let result: Result<Void, any Error>
    do {
      result = .success(try await body(fixture))
    } catch {
      result = .failure(error)
    }
    await server.shutdown()
    await client.shutDown()
    try result.get()
  }

  @Test func `Retry-After of a rate limit is a UNIX time in milliseconds`() async throws {
    try await Self.withFixture { fixture in
      fixture.store.add(.rateLimit(retryAfter: 5).next(1))
      let limited = try await fixture.get()
      #expect(limited.status == 429)
      #expect(limited.headers[.retryAfter] == "\(Int64((Climb.start + 5).timeIntervalSince1970 * 1000))")
      let body = try JSONDecoder().decode(JSON.self, from: Data(limited.body))
      #expect(body["errorCode"]?.number == 4_290_000)
      let status = try await fixture.get().status
      #expect(status == 200)
    }
  }

  @Test func `401 has no JSON`() async throws {
    try await Self.withFixture { fixture in
      fixture.store.add(.unauthorized.next(1))
      let refused = try await fixture.get()
      #expect(refused.status == 401)
      #expect(refused.headers[.contentType]?.hasPrefix("text/plain") == true)
      #expect(throws: (any Error).self) { try JSONDecoder().decode(JSON.self, from: Data(refused.body)) }
    }
  }

  @Test func `a connection is closed without a response`() async throws {
    try await Self.withFixture { fixture in
      fixture.store.add(.close.next(1))
      await #expect(throws: CurlError.self) { try await fixture.get() }
      let after = try await fixture.get().status
      #expect(after == 200)
    }
  }

  @Test func `a slow response is the right one`() async throws {
    try await Self.withFixture { fixture in
      fixture.store.add(.slow(0.05).next(1))
      let start = ContinuousClock.now
      let status = try await fixture.get().status
      #expect(status == 200)
      #expect(start.duration(to: .now) >= .milliseconds(50))
    }
  }

  @Test func `a fault applies to its endpoint and number of requests`() {
    var faults = [ServerFault.error(.generalInternal).at(.history).next(2), .unauthorized.at(.extend)]
    #expect(faults.take(for: .statuses, in: .production) == nil)
    #expect(faults.take(for: .extend, in: .production)?.fault == .unauthorized)
    #expect(faults.take(for: .history, in: .production)?.fault == .error)
    #expect(faults.take(for: .history, in: .production)?.fault == .error)
    #expect(faults.take(for: .history, in: .production) == nil)
    #expect(faults.take(for: .extend, in: .production)?.fault == .unauthorized)
  }

  @Test func `a fault of one environment does not apply to the other`() {
    var faults = [ServerFault.unauthorized.in(.production)]
    #expect(faults.take(for: .statuses, in: .sandbox) == nil)
    #expect(faults.take(for: .statuses, in: .production)?.fault == .unauthorized)
  }
}
