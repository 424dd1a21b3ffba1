import Foundation
import HTTPTypes
import Testing

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
      (["role": #""anon""#], .noUser), (["sub": #""nobody""#], .noUser), (["exp": nil], .malformed),
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

  @Test func `a request without a token gets no error parameter`() async throws {
    try await withHarness { harness in
      let answer = try await harness.profile(of: UUID(), token: nil)
      #expect(answer.status == 401)
      #expect(answer.headers[.wwwAuthenticate] == "Bearer")
    }
  }
}
