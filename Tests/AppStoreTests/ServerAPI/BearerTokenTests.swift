import Foundation
import JWTKit
import Synchronization
import Testing

@testable import AppStore

struct BearerTokenTests {
  private struct Claims: JWTPayload {
    let iss: String
    let iat: Int64
    let exp: Int64
    let aud: String
    let bid: String
    func verify(using algorithm: some JWTAlgorithm) {}
  }

  private let key = ES256PrivateKey()

  private func api(_ transport: StubTransport, _ clock: @escaping @Sendable () -> Date) throws
    -> AppStoreServerAPI
  {
    var storeClock = StoreClock.system
    storeClock.date = clock
    return AppStoreServerAPI(
      transport: transport,
      credentials: try AppStoreCredentials(
        privateKey: key.pemRepresentation, keyID: "KEY", issuerID: "ISSUER"),
      bundleID: "com.example.app", clock: storeClock)
  }

  @Test func `an App Store bearer token has the header and claims that Apple requires`() async throws {
    let transport = StubTransport { _ in .json("{}") }
    _ = try await api(transport) { Date(timeIntervalSince1970: 1_750_000_000.75) }
      .transactionHistory(anyTransactionID: "1", in: .production)
    let token = try #require(transport.sent.first?.token)
    let claims = try await JWTKeyCollection().add(ecdsa: key.publicKey).verify(token, as: Claims.self)
    #expect(claims.iss == "ISSUER")
    #expect(claims.iat == 1_750_000_000)
    #expect(claims.exp == 1_750_000_000 + 20 * 60)
    #expect(claims.aud == "appstoreconnect-v1")
    #expect(claims.bid == "com.example.app")
    let header =
      try JSONSerialization.jsonObject(
        with: Data(try #require(Base64.decode(String(token.prefix { $0 != "." }), .url)))) as? NSDictionary
    #expect(header == ["alg": "ES256", "kid": "KEY", "typ": "JWT"])
    // As in Apple's examples, times are integers.
    let body = try #require(Base64.decode(String(token.split(separator: ".")[1]), .url))
    #expect(
      String(decoding: body, as: UTF8.self).contains(#""iat":1750000000,"#)
        || String(decoding: body, as: UTF8.self).contains(#""iat":1750000000}"#))
  }

  @Test func `an App Store bearer token is reused for four fifths of its lifetime`() async throws {
    let start = Date(timeIntervalSince1970: 1_750_000_000)
    let now = SharedDate(start)
    let transport = StubTransport { _ in .json("{}") }
    let api = try api(transport, now.read)
    // Seconds since the start, and whether a new token is due.
    let times: [(TimeInterval, Bool)] = [
      (0, true), (1, false), (959, false), (960, true), (1919, false), (1920, true),
    ]
    var last: String?
    for (seconds, isNew) in times {
      now.set(start + seconds)
      _ = try await api.transactionHistory(anyTransactionID: "1", in: .production)
      let token = transport.sent.last?.token
      #expect((token != last) == isNew, "after \(seconds) s")
      last = token
    }
    // A clock that was set back must not extend a token's use.
    now.set(start)
    _ = try await api.transactionHistory(anyTransactionID: "1", in: .production)
    #expect(transport.sent.last?.token != last)
  }

  @Test func `concurrent App Store calls share one bearer token`() async throws {
    let transport = StubTransport { _ in .json("{}") }
    let api = try api(transport) { Date(timeIntervalSince1970: 1_750_000_000) }
    try await withThrowingTaskGroup { group in
      for _ in 0..<50 {
        group.addTask { _ = try await api.transactionHistory(anyTransactionID: "1", in: .production) }
      }
      try await group.waitForAll()
    }
    #expect(transport.sent.count == 50)
    #expect(Set(transport.sent.map(\.token)).count == 1)
  }

  @Test func `an App Store key that is not a P-256 private key is refused`() {
    for pem in ["", "text", ES384PrivateKey().pemRepresentation, key.publicKey.pemRepresentation] {
      #expect(throws: AppStoreCredentials.Failure.notAPrivateKey) {
        try AppStoreCredentials(privateKey: pem, keyID: "KEY", issuerID: "ISSUER")
      }
    }
    for (keyID, issuerID) in [("", "ISSUER"), ("KEY", "")] {
      #expect(throws: AppStoreCredentials.Failure.emptyIdentifier) {
        try AppStoreCredentials(privateKey: key.pemRepresentation, keyID: keyID, issuerID: issuerID)
      }
    }
  }
}

/// A date that a test sets.
final class SharedDate: Sendable {
  private let date: Mutex<Date>
  init(_ date: Date) { self.date = Mutex(date) }
  func set(_ date: Date) { self.date.withLock { $0 = date } }
  var read: @Sendable () -> Date { { self.date.withLock { $0 } } }
}
