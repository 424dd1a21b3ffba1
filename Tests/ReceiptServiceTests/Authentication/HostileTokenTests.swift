import Crypto
import Foundation
import Testing

@testable import Authentication
@testable import ReceiptService

/// Tokens with hostile headers or claims. An attacker needs no account to send them.
@Suite struct HostileTokenTests {
  private static let values = [
    "1e300", "-1e300", "9223372036854775808", "1.5", "-1", "0", "null", "true", "[]", "{}", #""""#, #"[""]"#,
    "[[[[]]]]", #"{"a": 1e999}"#, #""\u0000""#, "1e400", "99999999999999999999999999", #"["a", 1]"#,
  ]

  @Test(arguments: ["alg", "kid", "typ", "cty", "crit", "x5c", "x5u", "jku", "jwk", "b64", "zip", "other"])
  func `an access token with any hostile header value is refused and does not crash the process`(name: String)
    async throws
  {
    try await withHarness { harness in
      let user = UUID()
      for value in Self.values {
        let header =
          name == "alg" ? #"{"alg": \#(value)}"# : #"{"alg": "HS256", "\#(name)": \#(value)}"#
        let token = rawToken(header: header, claims: "{}") { _ in Data([0, 0, 0]) }
        let answer = try await harness.profile(of: user, token: token)
        #expect(answer.status == 401, "\(name): \(value)")
      }
    }
  }

  @Test(arguments: ["sub", "iss", "aud", "exp", "nbf", "role", "iat", "other"])
  func `any claim value in a correctly signed access token is refused or harmless`(name: String) async throws
  {
    try await withHarness { harness in
      let user = UUID()
      let exp = Int(harness.clock.now.timeIntervalSince1970) + 60
      for value in Self.values {
        var claims = [
          "sub": "\"\(user)\"", "iss": #""https://auth.example""#, "aud": #""authenticated""#,
          "exp": "\(exp)",
        ]
        claims[name] = value
        let text = "{" + claims.map { "\"\($0)\": \($1)" }.joined(separator: ",") + "}"
        let token = rawToken(header: #"{"alg":"HS256"}"#, claims: text, sign: Harness.hmac)
        let status = try await harness.profile(of: user, token: token).status
        #expect(status == 401 || (status == 200 && ["nbf", "role", "iat", "other", "exp"].contains(name)))
      }
    }
  }

  @Test func `an access token with several audiences is accepted only if the required one is among them`()
    async throws
  {
    try await withHarness { harness in
      let user = UUID()
      let exp = Int(harness.clock.now.timeIntervalSince1970) + 60
      for (audience, status) in [(#"["other", "authenticated"]"#, 200), (#"["other"]"#, 401)] {
        let text =
          #"{"sub": "\#(user)", "iss": "https://auth.example", "aud": \#(audience), "exp": \#(exp).5}"#
        let token = rawToken(header: #"{"alg":"HS256","typ":"JWT"}"#, claims: text, sign: Harness.hmac)
        let answer = try await harness.profile(of: user, token: token)
        #expect(answer.status == status)
      }
    }
  }

  @Test func `an app with public keys and an empty HMAC secret accepts no HMAC token`() async throws {
    let auth = #"{ "secretEnv": "UNSET_SECRET", "jwks": "http://127.0.0.1:1/none" }"#
    try await withHarness(configuration: TestApps.configuration(auth: auth)) { harness in
      let user = UUID()
      for secret in ["", "\0"] {
        let exp = Int(harness.clock.now.timeIntervalSince1970) + 60
        let token = rawToken(header: #"{"alg":"HS256"}"#, claims: #"{"sub":"\#(user)","exp":\#(exp)}"#) {
          Data(HMAC<SHA256>.authenticationCode(for: $0, using: SymmetricKey(data: Data(secret.utf8))))
        }
        let answer = try await harness.profile(of: user, token: token)
        #expect(answer.status == 401)
      }
    }
  }

  @Test func `a short HMAC secret verifies only tokens signed with it`() async throws {
    let verifier = await TokenVerifier(requirements: TokenRequirements(), secrets: ["short"], publicKeys: nil)
    let user = UUID()
    #expect(try await verifier.user(of: token(of: user, signedWith: "short"), at: Date()) == user)
    await #expect(throws: RefusedToken(.badSignature)) {
      try await verifier.user(of: token(of: user, signedWith: "shorter"), at: Date())
    }
  }

  @Test func `with two HMAC secrets, tokens signed with either are accepted and all others refused`()
    async throws
  {
    let verifier = await TokenVerifier(
      requirements: TokenRequirements(), secrets: ["former secret", "new secret"], publicKeys: nil)
    let user = UUID()
    for secret in ["former secret", "new secret"] {
      #expect(try await verifier.user(of: token(of: user, signedWith: secret), at: Date()) == user)
    }
    await #expect(throws: RefusedToken(.badSignature)) {
      try await verifier.user(of: token(of: user, signedWith: "another secret"), at: Date())
    }
    // An expired token of the second secret is reported as expired, not as badly signed.
    await #expect(throws: RefusedToken(.expired)) {
      try await verifier.user(
        of: token(of: user, signedWith: "new secret"), at: Date(timeIntervalSince1970: 4_000_000_001))
    }
  }

  private func token(of user: UUID, signedWith secret: String) -> String {
    rawToken(header: #"{"alg":"HS256"}"#, claims: #"{"sub":"\#(user)","exp":4000000000}"#) {
      Data(HMAC<SHA256>.authenticationCode(for: $0, using: SymmetricKey(data: Data(secret.utf8))))
    }
  }
}
