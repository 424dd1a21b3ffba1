import AppStore
import Curl
import Foundation
import HTTP
import HTTPTypes
import TestProcess
import TestSocket
import Testing

@testable import AppStoreSimulator

/// The faults and the journal of the App Store Server API over real sockets.
struct ServerFaultTests {
  private struct Fixture {
    let store: SimulatedAppStore
    let base: String
    let client: CurlClient
    let token: String
    let id: String

    func get(_ path: String? = nil, prefix: String = "") async throws -> CurlResponse {
      try await client.send(
        CurlRequest(
          url: base + prefix + (path ?? "/inApps/v1/transactions/\(id)"),
          headers: [.authorization: "Bearer \(token)"]))
    }

    /// The length of the whole response; all signatures and dates have one length.
    func wholeLength() async throws -> Int {
      store.clearServerFaults()
      return try await get().body.count
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
    let store = try SimulatedAppStore(apps: [Climb.app], clock: { Climb.start })
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

  @Test func `the simulator's Retry-After of a rate limit is a UNIX time in milliseconds`() async throws {
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

  @Test func `the simulator's 401 response has no JSON`() async throws {
    try await Self.withFixture { fixture in
      fixture.store.add(.unauthorized.next(1))
      let refused = try await fixture.get()
      #expect(refused.status == 401)
      #expect(refused.headers[.contentType]?.hasPrefix("text/plain") == true)
      #expect(throws: (any Error).self) { try JSONDecoder().decode(JSON.self, from: Data(refused.body)) }
    }
  }

  @Test func `the faults close and cut end a connection without a whole response`() async throws {
    try await Self.withFixture { fixture in
      for fault in [ServerFault.close, .cut] {
        fixture.store.add(fault.next(1))
        await #expect(throws: CurlError.self) { try await fixture.get() }
        let after = try await fixture.get().status
        #expect(after == 200)
      }
      #expect(fixture.store.serverRequests.map(\.status) == [nil, 200, nil, 200])
      #expect(fixture.store.serverRequests.map(\.fault) == [.close, nil, .cut, nil])
    }
  }

  @Test func `the fault cut sends the first half of the correct response`() async throws {
    try await Self.withFixture { fixture in
      fixture.store.add(.cut)
      let port = try #require(URLComponents(string: fixture.base)?.port)
      let bytes = try await onOwnThread {
        let socket = try TestSocket(
          connectingTo: SocketAddress(host: "127.0.0.1", port: UInt16(port)))
        try socket.send(
          "GET /inApps/v1/transactions/\(fixture.id) HTTP/1.1\r\nHost: a\r\n"
            + "Authorization: Bearer \(fixture.token)\r\n\r\n")
        return try socket.receiveAll()
      }
      let text = String(decoding: bytes, as: UTF8.self)
      let parts = text.components(separatedBy: "\r\n\r\n")
      #expect(parts.count == 2)
      #expect(parts[0].hasPrefix("HTTP/1.1 200 OK\r\nContent-Length: "))
      #expect(parts[1].hasPrefix("{\"signedTransactionInfo\":\"ey"))
      let length = try await fixture.wholeLength()
      #expect(parts[1].utf8.count == length / 2)
    }
  }

  @Test func `a request with the fault slow succeeds`() async throws {
    try await Self.withFixture { fixture in
      fixture.store.add(.slow(0.05).next(1))
      let status = try await fixture.get().status
      #expect(status == 200)
      #expect(fixture.store.serverRequests.last?.fault == .slow)
    }
  }

  @Test func `a server fault applies only to its endpoint, environment and number of requests`() {
    var faults = ServerFaults(seed: 1)
    faults.add(.error(.generalInternal).at(.history).next(2))
    var sandboxed = ServerFault.unauthorized
    sandboxed.environment = .sandbox
    faults.add(sandboxed)
    #expect(faults.take(for: .statuses, in: .production) == nil)
    #expect(faults.take(for: .statuses, in: .sandbox)?.fault == .unauthorized)
    #expect(faults.take(for: .history, in: .sandbox)?.fault == .error)
    #expect(faults.take(for: .history, in: .production)?.fault == .error)
    #expect(faults.take(for: .history, in: .production) == nil)
    #expect(faults.take(for: .history, in: .sandbox)?.fault == .unauthorized)
    faults.clear()
    #expect(faults.take(for: .history, in: .sandbox) == nil)
  }

  @Test func `a random server fault applies to the same requests for the same seed`() {
    func befallen(seed: UInt64) -> [Bool] {
      var faults = ServerFaults(seed: seed)
      var fault = ServerFault.close
      fault.probability = 0.5
      faults.add(fault)
      return (0..<100).map { _ in faults.take(for: .history, in: .production) != nil }
    }
    #expect(befallen(seed: 1) == befallen(seed: 1))
    #expect(befallen(seed: 1) != befallen(seed: 2))
    #expect((30...70).contains(befallen(seed: 1).count { $0 }))
  }

  @Test func `the request journal records app, endpoint, environment and time`() async throws {
    try await Self.withFixture { fixture in
      let before = Date().millisecondsSince1970 ?? 0
      _ = try await fixture.get()
      _ = try await fixture.get("/inApps/v2/history/\(fixture.id)?sort=DESCENDING", prefix: "/sandbox")
      _ = try await fixture.client.send(CurlRequest(url: fixture.base + "/inApps/v1/lookup/x"))
      let requests = fixture.store.serverRequests
      #expect(requests.map(\.endpoint) == [.transactionInfo, .history, .orderLookup])
      #expect(requests.map(\.environment) == [.production, .sandbox, .production])
      #expect(requests.map(\.bundleID) == [Climb.bundleID, Climb.bundleID, nil])
      #expect(requests.map(\.status) == [200, 404, 401])
      #expect(requests.map(\.method) == ["GET", "GET", "GET"])
      #expect(requests[1].path == "/inApps/v2/history/\(fixture.id)?sort=DESCENDING")
      #expect(requests.allSatisfy { (before...before + 60_000).contains($0.at) })
      fixture.store.clearServerRequests()
      #expect(fixture.store.serverRequests.isEmpty)
    }
  }

  @Test func `the request journal keeps the latest requests and ignores responses to dropped ones`() {
    var journal = ServerJournal(capacity: 4)
    func request(_ at: Int64) -> ServerRequest {
      ServerRequest(
        at: at, method: "GET", path: "", endpoint: .history, environment: .production, bundleID: nil,
        fault: nil, status: nil)
    }
    let numbers = (0..<5).map { journal.note(request($0)) }
    #expect(journal.requests.map(\.at) == [2, 3, 4])
    journal.answered(numbers[0], status: 200)
    journal.answered(numbers[3], status: 429)
    #expect(journal.requests.map(\.status) == [nil, 429, nil])
    journal.clear()
    journal.answered(numbers[4], status: 200)
    #expect(journal.requests.isEmpty)
    let next = journal.note(request(9))
    journal.answered(next, status: 200)
    #expect(journal.requests.map(\.status) == [200])
  }
}
