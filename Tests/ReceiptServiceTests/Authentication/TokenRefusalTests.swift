import Foundation
import HTTPTypes
import Testing

@testable import Authentication
@testable import ReceiptService

/// The reasons in `WWW-Authenticate` and in the metric.
@Suite struct TokenRefusalTests {
  /// A token of the tests' issuer with one changed claim; `nil` removes it.
  private static func token(of user: UUID, at now: Date, _ changes: [String: String?]) -> String {
    var claims: [String: String] = [
      "sub": "\"\(user)\"", "iss": #""https://auth.example""#, "aud": #""authenticated""#,
      "exp": "\(Int(now.timeIntervalSince1970) + 60)",
    ]
    for (name, value) in changes { claims[name] = value }
    let text = "{" + claims.map { "\"\($0)\": \($1)" }.joined(separator: ",") + "}"
    return rawToken(header: #"{"alg":"HS256"}"#, claims: text, sign: Harness.hmac)
  }

  @Test(
    arguments: [
      (["exp": "1000000000"], TokenRefusal.expired), (["iss": #""https://other.example""#], .wrongIssuer),
      (["aud": #""others""#], .wrongAudience), (["nbf": "4000000000"], .notYetValid),
      (["role": #""anon""#], .noUser), (["sub": #""nobody""#], .noUser), (["exp": nil], .badClaims),
      (["exp": #""4000000000""#], .badClaims), (["role": "1"], .badClaims),
    ] as [([String: String?], TokenRefusal)])
  func `a refused token's reason stands in the answer and in the metric`(
    changes: [String: String?], refusal: TokenRefusal
  ) async throws {
    try await withHarness { harness in
      let user = UUID()
      let token = Self.token(of: user, at: harness.clock.now, changes)
      let answer = try await harness.profile(of: user, token: token)
      #expect(answer.status == 401)
      #expect(
        answer.headers[.wwwAuthenticate]
          == "Bearer error=\"invalid_token\", error_description=\"\(refusal.sentence)\"")
      let scrape = try await harness.scrape()
      #expect(scrape["receiptd_token_refusals_total{reason=\"\(refusal.rawValue)\"}"] == 1)
    }
  }

  @Test func `the issuer whose signature is right says why a token is refused, whatever other issuers say`()
    async throws
  {
    let other = TestApps.json.replacing("com.example.climbing", with: "com.example.other").replacing(
      "TEST_JWT_SECRET", with: "OTHER_JWT_SECRET")
    let app = try #require(other.firstRange(of: "{ \"bundleID\""))
    let end = try #require(other.firstRange(of: "{ \"bundleID\": \"com.example.family\""))
    let configuration = TestApps.json.replacing(
      "{ \"apps\": [",
      with: "{ \"apps\": ["
        + other[app.lowerBound..<end.lowerBound].replacing("1500000001", with: "1500000003"))
    let secret = ["OTHER_JWT_SECRET": "another secret of at least 32 bytes, for tests"]
    try await withHarness(configuration: configuration, environment: secret) { harness in
      let user = UUID()
      for exp in [nil, #""4000000000""#] as [String?] {
        let token = Self.token(of: user, at: harness.clock.now, ["exp": exp])
        let answer = try await harness.sync([], user: user, token: token)
        #expect(answer.status == 401)
        #expect(answer.string("detail") == TokenRefusal.badClaims.sentence)
      }
    }
  }

  @Test func `a token with the right signature names the claim that is not accepted, a forged one does not`()
    async throws
  {
    let verifier = await TokenVerifier(
      requirements: TokenRequirements(issuer: "https://auth.example", audience: "authenticated"),
      secrets: [Harness.secret], publicKeys: nil)
    let (user, now) = (UUID(), Date(timeIntervalSince1970: 1_800_000_000))
    func refused(_ changes: [String: String?]) async -> RefusedToken? {
      await #expect(throws: RefusedToken.self) {
        _ = try await verifier.user(of: Self.token(of: user, at: now, changes), at: now)
      }
    }
    let other = #""https://other.example""#
    #expect(await refused(["iss": other])?.logFields == ["tokenIssuer": "https://other.example"])
    #expect(await refused(["aud": #"["a", "b"]"#])?.logFields == ["tokenAudience": "a, b"])
    let long = String(repeating: "x", count: 1_000)
    #expect(await refused(["iss": "\"\(long)\""])?.logFields["tokenIssuer"]?.count == 200)
    #expect(await refused(["iss": nil])?.logFields == [:])
    #expect(await refused(["exp": "1", "iss": #""https://auth.example""#])?.logFields == [:])
    let forger = await TokenVerifier(
      requirements: TokenRequirements(issuer: "https://auth.example"), secrets: ["another secret"],
      publicKeys: nil)
    let forged = await #expect(throws: RefusedToken.self) {
      _ = try await forger.user(of: Self.token(of: user, at: now, ["iss": other]), at: now)
    }
    #expect(forged == RefusedToken(.badSignature))
  }

  @Test func `a request without a token gets no error parameter`() async throws {
    try await withHarness { harness in
      let answer = try await harness.profile(of: UUID(), token: nil)
      #expect(answer.status == 401)
      #expect(answer.headers[.wwwAuthenticate] == "Bearer")
    }
  }
}
