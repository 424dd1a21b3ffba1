import AppStore
import AppStoreSimulator
import Crypto
import Foundation
import HTTP
import HTTPTypes
import JWTKit
import Logging
import Postgres
import Testing

@testable import Ledger
@testable import ReceiptService

@Suite struct ProfileTests {
  @Test func `a purchase that one device syncs is in the response to another device and on the profile`()
    async throws
  {
    try await withHarness { harness in
      let user = UUID()
      let token = try await harness.token(for: user)
      let bought = try harness.buy(TestApps.annual)
      let up = try await harness.sync([bought.signedTransaction], user: user, token: token)
      let down = try await harness.profile(of: user, token: token)
      for answer in [up, down] {
        #expect(answer.status == 200)
        #expect(answer.bool("isPremium") == true)
        #expect(answer.date("premiumExpiresAt") == bought.transaction.expiresDate)
        #expect(answer.string("premiumProductID") == TestApps.annual)
        #expect(answer.string("premiumOriginalTransactionID") == bought.originalTransactionID)
        #expect(answer.bool("isInGracePeriod") == false)
        #expect(answer.bool("willRenew") == true)
        #expect(answer.string("entitlements.tier") == "premium")
      }
      let row = try await harness.profileRow(of: user)
      #expect(row?.product == TestApps.annual)
      #expect(row?.expiresAt == bought.transaction.expiresDate)
      #expect(row?.originalTransactionID == bought.originalTransactionID)
      let preferences = try await harness.pool.query(
        "SELECT is_premium, bookmark_limit FROM user_preferences WHERE user_id = \(user)")[0]
      #expect(try preferences.decode("is_premium", as: Bool.self))
      #expect(try preferences.decode("bookmark_limit", as: Int.self) == 999)
    }
  }

  @Test func `a trigger on the app's own table runs with bitmap scans enabled`() async throws {
    try await withHarness { harness in
      for statement: Postgres.Query in [
        "CREATE TABLE seen (setting text)",
        """
        CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS
          'BEGIN INSERT INTO seen VALUES (current_setting(''enable_bitmapscan'')); RETURN NEW; END'
        """,
        "CREATE TRIGGER sees BEFORE INSERT OR UPDATE ON profiles FOR EACH ROW EXECUTE FUNCTION see()",
      ] { _ = try await harness.pool.query(statement) }
      try await harness.arrives(try harness.buy(token: UUID()))
      let seen = try await harness.pool.query("SELECT setting FROM seen")
      #expect(try seen.map { try $0.decode("setting", as: String.self) } == ["on"])
    }
  }

  @Test func `an unknown user gets the free features`() async throws {
    try await withHarness { harness in
      let user = UUID()
      let answer = try await harness.profile(of: user, token: harness.token(for: user))
      #expect(answer.status == 200)
      #expect(answer.bool("isPremium") == false)
      #expect(answer.isNull("premiumExpiresAt"))
      #expect(answer.isNull("premiumProductID"))
      #expect(answer.bool("entitlements.features.insights") == false)
      #expect(try await harness.count("profiles") == 0)
    }
  }

  @Test func `a sync with an empty list changes nothing`() async throws {
    try await withHarness { harness in
      let user = UUID()
      let token = try await harness.token(for: user)
      _ = try await harness.sync([try harness.buy().signedTransaction], user: user, token: token)
      let before = try await harness.profileRow(of: user)
      let answer = try await harness.sync([], user: user, token: token)
      #expect(answer.status == 200)
      #expect(answer.bool("isPremium") == true)
      #expect(try await harness.profileRow(of: user) == before)
    }
  }

  @Test func `a lifetime purchase has no expiry, and after a refund the user is free`() async throws {
    try await withHarness { harness in
      let user = UUID()
      let token = try await harness.token(for: user)
      let info = try harness.transaction {
        $0.productId = TestApps.lifetime
        $0.type = .nonConsumable
        $0.expiresDate = nil
      }
      let bought = try await harness.sync([harness.sign(info)], user: user, token: token)
      #expect(bought.bool("isPremium") == true)
      #expect(bought.isNull("premiumExpiresAt"))
      #expect(bought.string("premiumProductID") == TestApps.lifetime)

      var refunded = info
      refunded.revocationDate = harness.clock.now
      refunded.signedDate = info.signedDate + 1
      let answer = try await harness.sync([harness.sign(refunded)], user: user, token: token)
      #expect(answer.bool("isPremium") == false)
      #expect(answer.isNull("premiumProductID"))
      let preferences = try await harness.pool.query(
        "SELECT is_premium, bookmark_limit FROM user_preferences WHERE user_id = \(user)")[0]
      #expect(try preferences.decode("is_premium", as: Bool.self) == false)
      #expect(try preferences.decode("bookmark_limit", as: Int.self) == 2)
    }
  }

  @Test func `a sync with one invalid transaction stores nothing and names its index`() async throws {
    try await withHarness { harness in
      let user = UUID()
      let good = try harness.buy().signedTransaction
      let bad = try SigningAuthority().signer.sign(try harness.transaction())
      let answer = try await harness.sync([good, bad], user: user, token: harness.token(for: user))
      #expect(answer.status == 422)
      #expect(answer.code == "invalid_signature")
      #expect(answer.string("detail")?.hasPrefix("signedTransactions[1]") == true)
      #expect(try await harness.count("transactions") == 0)
    }
  }

  @Test func `one user's premium is never visible to another`() async throws {
    try await withHarness { harness in
      let (anna, boris) = (UUID(), UUID())
      let jws = try harness.buy().signedTransaction
      let annas = try await harness.token(for: anna)
      let boriss = try await harness.token(for: boris)
      _ = try await harness.sync([jws], user: anna, token: annas)
      let claimed = try await harness.sync([jws], user: boris, token: boriss)
      #expect(claimed.status == 409)
      #expect(claimed.code == "belongs_to_another_customer")
      #expect(try await harness.profile(of: boris, token: boriss).bool("isPremium") == false)
      #expect(try await harness.profile(of: anna, token: annas).bool("isPremium") == true)
    }
  }

  @Test func `two concurrent claims of one purchase end with one owner`() async throws {
    try await withHarness { harness in
      let users = [UUID(), UUID()]
      for _ in 0..<10 {
        let jws = try harness.buy().signedTransaction
        let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
          for user in users {
            group.addTask {
              try await harness.sync([jws], user: user, token: harness.token(for: user)).status
            }
          }
          return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(statuses.sorted() == [200, 409])
      }
    }
  }

  // MARK: Tokens

  @Test func `another user's profile is forbidden; a missing or bad token is unauthenticated`() async throws {
    try await withHarness { harness in
      let user = UUID()
      let now = harness.clock.now.timeIntervalSince1970
      let forbidden = try await harness.profile(of: UUID(), token: harness.token(for: user))
      #expect(forbidden.status == 403)
      #expect(forbidden.code == "forbidden")

      let valid = try await harness.token(for: user)
      var flipped = Array(valid)
      flipped[flipped.count - 10] = flipped[flipped.count - 10] == "A" ? "B" : "A"
      let bad: [String?] = [
        nil, "", "nonsense", "a.b.c", String(flipped), valid + "." + valid,
        try await harness.token(for: user, secret: "another secret of at least 32 bytes, for tests"),
        try await harness.token(for: user) { $0.exp = Int(now) },
        try await harness.token(for: user) { $0.exp = Int(now) - 1 },
        try await harness.token(for: user) { $0.exp = nil },
        try await harness.token(for: user) { $0.iss = "https://elsewhere.example" },
        try await harness.token(for: user) { $0.aud = "anybody" },
        try await harness.token(for: user) { $0.role = "anon" },
        try await harness.token(for: user) { $0.role = "service_role" },
        try await harness.token(for: user) { $0.sub = nil },
        try await harness.token(for: user) { $0.sub = "not-a-uuid" },
        try await harness.token(for: user) { $0.sub = "+\(user.uuidString.dropFirst())" },
        rawToken(
          header: #"{"alg":"none","typ":"JWT"}"#,
          claims:
            #"{"sub":"\#(user)","iss":"https://auth.example","aud":"authenticated","exp":\#(Int(now) + 60)}"#
        ) { _ in Data() },
      ]
      for token in bad {
        for answer in [
          try await harness.profile(of: user, token: token),
          try await harness.sync([], user: user, token: token),
        ] {
          #expect(answer.status == 401)
          #expect(answer.code == "unauthenticated")
          let challenge = try #require(answer.headers[.wwwAuthenticate])
          #expect(
            token == nil ? challenge == "Bearer" : challenge.hasPrefix(#"Bearer error="invalid_token""#))
        }
      }
      #expect(try await harness.profile(of: user, token: valid).status == 200)
    }
  }

  @Test func `public keys verify tokens of their private keys, and are not accepted as HMAC secrets`()
    async throws
  {
    let issuer = try await KeyServer()
    let auth = """
      { "jwks": "http://\(issuer.address)/jwks.json", "issuer": "https://auth.example", "audience": "authenticated" }
      """
    try await withHarness(configuration: TestApps.configuration(auth: auth)) { harness in
      let user = UUID()
      let claims = TestClaims(
        sub: user.uuidString, exp: Int(harness.clock.now.timeIntervalSince1970) + 60)
      let signed = try await issuer.keys.sign(claims, kid: "key-1")
      #expect(try await harness.profile(of: user, token: signed).status == 200)
      #expect(issuer.requests == 1)

      // Public values, used as HMAC secrets.
      let text =
        #"{"sub":"\#(user)","iss":"https://auth.example","aud":"authenticated","exp":\#(claims.exp ?? 0)}"#
      for secret in [issuer.key.publicKey.pemRepresentation, issuer.jwks] {
        let forged = rawToken(header: #"{"alg":"HS256","typ":"JWT","kid":"key-1"}"#, claims: text) { input in
          Data(HMAC<SHA256>.authenticationCode(for: input, using: SymmetricKey(data: Data(secret.utf8))))
        }
        #expect(try await harness.profile(of: user, token: forged).status == 401)
      }

      let stranger = await JWTKeyCollection().add(ecdsa: ES256PrivateKey(), kid: "key-1")
      #expect(try await harness.profile(of: user, token: stranger.sign(claims, kid: "key-1")).status == 401)

      // Invented key ids do not flood the issuer.
      for number in 0..<20 {
        let unknown = await JWTKeyCollection().add(
          ecdsa: ES256PrivateKey(), kid: JWKIdentifier(string: "\(number)"))
        let token = try await unknown.sign(claims, kid: JWKIdentifier(string: "\(number)"))
        #expect(try await harness.profile(of: user, token: token).status == 401)
      }
      #expect(issuer.requests <= 2)
    }
    await issuer.stop()
  }

  @Test
  func `public keys are fetched again after ten minutes, and cached ones are accepted for a day of outage`()
    async throws
  {
    let issuer = try await KeyServer()
    let auth = """
      { "jwks": "http://\(issuer.address)/jwks.json", "issuer": "https://auth.example", "audience": "authenticated" }
      """
    try await withHarness(configuration: TestApps.configuration(auth: auth)) { harness in
      let user = UUID()
      let claims = TestClaims(
        sub: user.uuidString, exp: Int(harness.clock.now.timeIntervalSince1970) + 7 * 86_400)
      let token = try await issuer.keys.sign(claims, kid: "key-1")
      #expect(try await harness.profile(of: user, token: token).status == 200)
      harness.clock.advance(seconds: 599)
      #expect(try await harness.profile(of: user, token: token).status == 200)
      #expect(issuer.requests == 1)
      harness.clock.advance(seconds: 2)
      #expect(try await harness.profile(of: user, token: token).status == 200)
      #expect(issuer.requests == 2)

      await issuer.stop()
      harness.clock.advance(seconds: 601)
      #expect(try await harness.profile(of: user, token: token).status == 200)
      harness.clock.advance(seconds: 86_400 - 602)
      #expect(try await harness.profile(of: user, token: token).status == 200)
      harness.clock.advance(seconds: 1)
      let answer = try await harness.profile(of: user, token: token)
      #expect(answer.status == 503)
      #expect(answer.code == "auth_unavailable")
    }
  }
}
