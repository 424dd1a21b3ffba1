import Foundation
import HTTP
import HTTPTypes
import Testing

@testable import ReceiptService

/// The longest body of each route.
@Suite struct BodyLimitTests {
  /// In bytes, without a token. `docs/limits.md` has the same table.
  private static let limits = [
    "POST /api/v1/subscriptions/validate": 262_144, "POST /api/v1/subscriptions/webhook": 262_144,
    "PUT /api/v1/profiles/{userID}/premium": 2_097_152, "POST /api/v1/trials": 65_536,
    "POST /api/v1/devices/{deviceID}/children": 16_384, "PUT /api/v1/devices/{deviceID}/parent": 16_384,
    "POST /api/v1/devices/{deviceID}/pairing-codes": 1_024, "POST /api/v1/events": 8_192,
    "POST /api/v1/consent": 16_384,
  ]

  @Test func `each route accepts a body of the documented length and answers 413 to one byte more`()
    async throws
  {
    try await withHarness { harness in
      let routes = harness.service.clientRouter.routes.filter { [.post, .put].contains($0.method) }
      #expect(routes.count == Self.limits.count)
      for route in routes {
        let limit = try #require(Self.limits["\(route.method.rawValue) \(route.pattern)"])
        let path = route.pattern.replacing("{userID}", with: "x").replacing("{deviceID}", with: "x")
        let long = try await harness.send(route.method, path, json: String(repeating: " ", count: limit + 1))
        #expect(long.status == 413, "\(path)")
        #expect(long.code == "payload_too_large", "\(path)")
        let most = try await harness.send(route.method, path, json: String(repeating: " ", count: limit))
        // A pairing code needs no body.
        let accepted = route.pattern.hasSuffix("/pairing-codes") ? [201] : [400, 401, 403]
        #expect(accepted.contains(most.status), "\(path): \(most.status)")
      }
    }
  }

  @Test func `a user can send at most 200 transactions in one request`() async throws {
    try await withHarness { harness in
      let user = UUID()
      let token = try await harness.token(for: user)
      let most = try await harness.sync(Array(repeating: "x", count: 200), user: user, token: token)
      // The transactions are invalid, but the number is accepted.
      #expect(most.code == "invalid_signature")
      let more = try await harness.sync(Array(repeating: "x", count: 201), user: user, token: token)
      #expect(more.status == 400)
      #expect(more.string("detail") == "At most 200 transactions at once.")
    }
  }

  @Test func `a JSON body of 33 levels is refused`() async throws {
    try await withHarness { harness in
      for (levels, code) in [(32, "invalid_request"), (33, "invalid_json")] {
        let nested = String(repeating: "[", count: levels - 1) + String(repeating: "]", count: levels - 1)
        let answer = try await harness.send(
          .post, "/api/v1/subscriptions/webhook", json: #"{"signedPayload": \#(nested)}"#)
        #expect(answer.status == 400)
        #expect(answer.code == code, "\(levels)")
      }
    }
  }
}
