import AppStoreSimulator
import Configuration
import Crypto
import Foundation
import HTTPTypes
import Subscriptions
import Testing

@testable import Customers
@testable import ReceiptService
@testable import Support

/// Tokens of a real server, verified with the code of `docs/client.md`.
@Suite struct EntitlementTokenTests {
  @Test
  func
    `the token of a customer with access ends with offlineGraceUntil, and lives for five minutes at least`()
    async throws
  {
    try await withHarness { harness in
      let app = try #require(harness.service.support.catalog[TestApps.climbing])
      let now = harness.clock.now
      var said = app.entitlements(of: CustomerRecords(subscriptions: []), for: nil, at: now)
      func exp() -> TimeInterval {
        TimeInterval(EntitlementClaims(said, of: app, for: .user(UUID()), at: now).exp)
          - now.timeIntervalSince1970
      }
      #expect(exp() == 7 * 86_400)
      for (end, lifetime) in [(40.0, 300.0), (1_000, 1_000), (400 * 86_400, 400 * 86_400)] {
        said.offlineGraceUntil = now + end
        #expect(exp() == lifetime)
      }
    }
  }

  @Test func `a client with a token knows its entitlements offline until the grace ends`()
    async throws
  {
    try await withHarness { harness in
      let (user, _) = try await harness.customer(buys: TestApps.annual)
      let answer = try await harness.premium(user)
      var held = try await harness.installation(of: user)
      let said = try held.receive(answer)
      #expect(said.isAccessGranted)
      #expect(said.tier == "premium")
      #expect(said.status == "active")
      #expect(said.features == ClimbingFeatures(insights: true, history: nil))
      #expect(Date(timeIntervalSince1970: said.iat) == answer.date("serverTime"))
      #expect(said.validUntil == answer.date("entitlements.validUntil")?.timeIntervalSince1970)
      let end = try #require(answer.date("entitlements.offlineGraceUntil"))
      #expect(end == harness.clock.now + 7 * 86_400)
      #expect(said.exp == end.timeIntervalSince1970)

      // A round trip through the keychain.
      held = try JSONDecoder().decode(Held.self, from: JSONEncoder().encode(held))
      harness.clock.advance(days: 7)
      harness.clock.advance(seconds: -1)
      #expect(held.entitlement(at: harness.clock.now) != nil)
      harness.clock.advance(seconds: 1)
      #expect(held.entitlement(at: harness.clock.now) == nil)
    }
  }

  @Test
  func `a device clock set back extends no token, and a clock set ahead is corrected by the next response`()
    async throws
  {
    try await withHarness { harness in
      let (user, token) = try await harness.premiumUser()
      var held = try await harness.installation(of: user)
      _ = held.receive(token)
      let start = harness.clock.now
      #expect(held.entitlement(at: start - 400 * 86_400) != nil)
      #expect(held.entitlement(at: start + 8 * 86_400) == nil)
      held = try JSONDecoder().decode(Held.self, from: JSONEncoder().encode(held))
      #expect(held.entitlement(at: start) == nil)

      harness.clock.advance(seconds: 60)
      try held.receive(try await harness.premium(user))
      #expect(held.entitlement(at: harness.clock.now) != nil)
      // An older token is not accepted again.
      #expect(held.receive(token) == nil)
    }
  }

  @Test func `an entitlement token is invalid for another customer or app, and after any change`()
    async throws
  {
    try await withHarness { harness in
      let (user, token) = try await harness.premiumUser()
      var held = try await harness.installation(of: user)
      #expect(held.receive(token) != nil)
      var stranger = try await harness.installation(of: UUID())
      #expect(stranger.receive(token) == nil)
      var elsewhere = try await harness.installation(of: user, app: TestApps.family)
      #expect(elsewhere.receive(token) == nil)

      let parts = token.split(separator: ".").map(String.init)
      let segments = parts.compactMap { Data(base64URL: $0) }
      let (header, claims) = (
        String(decoding: segments[0], as: UTF8.self), String(decoding: segments[1], as: UTF8.self)
      )
      let signature = segments[2]
      let keySet = try await harness.keySet()
      let kid = try #require(keySet.kids.first)
      let x = try #require(Self.x(keySet))
      let longer = claims.replacing("\"exp\":1", with: "\"exp\":2")
      #expect(longer != claims)
      func hmac(_ input: Data) -> Data {
        Data(HMAC<SHA256>.authenticationCode(for: input, using: SymmetricKey(data: x)))
      }
      let forgeries = [
        "the payload of another": rawToken(header: header, claims: longer) { _ in signature },
        "alg none": rawToken(header: #"{"alg":"none","kid":"\#(kid)"}"#, claims: claims) { _ in Data() },
        "alg none, signed": rawToken(header: #"{"alg":"none","kid":"\#(kid)"}"#, claims: claims) { _ in
          signature
        },
        "the public key as a secret": rawToken(
          header: #"{"alg":"HS256","kid":"\#(kid)"}"#, claims: claims, sign: hmac),
        "the public key as a secret, called EdDSA": rawToken(header: header, claims: claims, sign: hmac),
        "an unknown key": rawToken(
          header: #"{"alg":"EdDSA","kid":"\#(EntitlementKey(.init()).kid)"}"#, claims: claims
        ) { _ in signature },
        "no key": rawToken(header: #"{"alg":"EdDSA"}"#, claims: claims) { _ in signature },
        "another key under this name": rawToken(header: header, claims: claims) {
          (try? Self.foreignKey.signature(for: $0)) ?? Data()
        },
      ]
      for (name, forgery) in forgeries {
        #expect(held.receive(forgery) == nil, "\(name)")
      }
      for length in 0..<token.utf8.count {
        #expect(held.receive(String(token.prefix(length))) == nil, "\(length)")
      }
      #expect(held.receive(token + ".") == nil)
      #expect(held.receive("." + token) == nil)
      #expect(held.receive(token) != nil)
    }
  }

  private static let foreignKey = Curve25519.Signing.PrivateKey()

  /// The first public key.
  private static func x(_ keySet: Answer) -> Data? {
    ((keySet["keys"] as? [[String: Any]])?.first?["x"] as? String).flatMap { Data(base64URL: $0) }
  }

  @Test func `a refund ends offline access at the next response`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer(buys: TestApps.annual)
      var held = try await harness.installation(of: user)
      try held.receive(try await harness.premium(user))
      harness.clock.advance(seconds: 10)
      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      let answer = try await harness.premium(user)
      let said = try held.receive(answer)
      #expect(said.isAccessGranted == false)
      #expect(said.tier == nil)
      #expect(said.status == "cancelled")
      #expect(said.features == ClimbingFeatures(insights: false, history: 30))
      // Denied access is cached as long as granted access, although the response has no offline grace.
      #expect(answer.isNull("entitlements.offlineGraceUntil"))
      #expect(said.exp == said.iat + 7 * 86_400)
      #expect(held.entitlement(at: harness.clock.now)?.isAccessGranted == false)
    }
  }

  @Test func `every response about a customer has an entitlement token, and no other response has one`()
    async throws
  {
    try await withHarness(configuration: ScreenTime.configuration()) { harness in
      func bearer(_ answer: Answer) throws -> [String] {
        let claims = try answer.tokenSegment(1)
        #expect(claims["iss"] as? String == "receiptd")
        #expect(claims["status"] as? String == answer.string("entitlements.status"))
        return [claims["aud"], claims["sub"]].compactMap { $0 as? String }
      }
      let trial = try await harness.launch("phone")
      #expect(try bearer(trial) == [ScreenTime.bundleID, "phone"])
      #expect(try bearer(try await harness.entitlements("phone")) == [ScreenTime.bundleID, "phone"])
      #expect(try bearer(try await harness.entitlements("unseen")) == [ScreenTime.bundleID, "unseen"])
      let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      let withoutToken = try await harness.validate(["signedTransaction": bought.signedTransaction])
      #expect(withoutToken.status == 200)
      #expect(withoutToken.bool("entitlements.isAccessGranted") == true)
      #expect(withoutToken.isNull("entitlements.entitlementToken"))
      let owner = try await harness.device("phone", shows: bought)
      #expect(try bearer(owner) == [ScreenTime.bundleID, "phone"])
      #expect(try owner.tokenSegment(1)["tier"] as? String == "family")
    }
    try await withHarness { harness in
      let user = UUID()
      let token = try await harness.token(for: user)
      let bought = try harness.buy()
      let withoutToken = try await harness.validate(["signedTransaction": bought.signedTransaction])
      #expect(withoutToken.bool("entitlements.isAccessGranted") == true)
      #expect(withoutToken.isNull("entitlements.entitlementToken"))
      let validated = try await harness.validate(
        ["signedTransaction": bought.signedTransaction], token: token)
      let synced = try await harness.sync([bought.signedTransaction], user: user, token: token)
      for answer in [validated, synced, try await harness.premium(user)] {
        let claims = try answer.tokenSegment(1)
        #expect(claims["sub"] as? String == user.uuidString.lowercased())
        #expect(claims["aud"] as? String == TestApps.climbing)
        #expect(claims["isAccessGranted"] as? Bool == true)
      }
      // Support sees the entitlements without a token.
      let report = try await harness.send(
        .get, "/support/v1/customer/\(user)", token: Harness.supportToken, to: harness.adminAddress)
      #expect(report.status == 200)
      #expect(!String(decoding: report.body, as: UTF8.self).contains("eyJ"))
    }
  }

  @Test func `without offlineGraceDays an entitlement token is valid for 300 seconds`() async throws {
    let configuration = TestApps.json.replacing(
      #""transferPolicy": "keep","#, with: #""transferPolicy": "keep", "offlineGraceDays": 0,"#)
    try await withHarness(configuration: configuration) { harness in
      let (user, token) = try await harness.premiumUser()
      var held = try await harness.installation(of: user)
      let said = held.receive(token)
      #expect(try #require(said).exp == harness.clock.now.timeIntervalSince1970 + 300)
    }
  }

  @Test(arguments: ["EntitlementCheck", "HeldEntitlement"])
  func `the code of the client guide is the code that these tests compile`(_ name: String) throws {
    let file = URL(filePath: #filePath).deletingLastPathComponent()
      .appending(path: "\(name).swift").standardizedFileURL
    let source = try String(contentsOf: file, encoding: .utf8)
    let document = URL(filePath: Harness.migrations).appending(path: "../docs/client.md")
      .standardizedFileURL
    let text = try String(contentsOf: document, encoding: .utf8)
    #expect(text.contains("```swift\n\(source)```\n"))
  }
}
