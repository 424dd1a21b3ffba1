import AppStore
import AppStoreSimulator
import Foundation
import HTTP
import HTTPTypes
import JSON
import Testing

@testable import ReceiptService

/// The order of members in responses that are written by hand: alphabetical and without duplicates, like encoded ones.
@Suite struct ResponseMemberOrderTests {
  private func check(_ body: [UInt8], _ members: Set<String>) throws {
    let value = try JSONCoding.decode(JSONValue.self, from: body)
    #expect(
      String(decoding: body, as: UTF8.self) == String(decoding: try JSONCoding.encode(value), as: UTF8.self))
    guard case .object(let object) = value else {
      Issue.record("no object: \(value)")
      return
    }
    #expect(Set(object.keys) == members)
  }

  private static let profile: Set = [
    "isPremium", "premiumExpiresAt", "premiumProductID", "premiumOriginalTransactionID", "isInGracePeriod",
    "willRenew", "entitlements", "serverTime",
  ]

  @Test func `every response has its JSON members in alphabetical order`() async throws {
    try await withHarness { harness in
      let user = UUID()
      let token = try await harness.token(for: user)
      let bought = try harness.buy()
      let validated = try await harness.validate(
        ["signedTransaction": bought.signedTransaction], token: token)
      try check(validated.body, ["success", "subscription", "entitlements", "serverTime"])
      let unclaimed = try harness.buy()
      try check(
        try await harness.validate(["signedTransaction": unclaimed.signedTransaction]).body,
        ["success", "subscription", "entitlements", "serverTime"])

      try check(try await harness.profile(of: user, token: token).body, Self.profile)
      let nobody = UUID()
      try check(
        try await harness.profile(of: nobody, token: harness.token(for: nobody)).body, Self.profile)
      try check(
        try await harness.send(.get, "/api/v1/devices/a%22b/entitlements?bundleID=\(TestApps.family)").body,
        ["entitlements", "serverTime"])
      let story = try await harness.send(
        .get, "/support/v1/customer/\(user.uuidString.lowercased())", token: Harness.supportToken,
        to: harness.adminAddress)
      try check(
        story.body, ["asked", "customers", "pairings", "parents", "parentsHidden", "serverTime", "unclaimed"])
      try check(
        try await harness.send(.get, "/nowhere/%22").body,
        ["code", "detail", "error", "requestID", "status", "success", "title", "type"])
    }
  }

  @Test func `an entitlement token's claims are in their fixed order, without absent ones`() async throws {
    try await withHarness { harness in
      let segments = try await harness.premiumUser().token.split(separator: ".")
      let claims = try #require(Base64.decode(String(segments[1]), .url))
      try check(
        claims,
        [
          "iss", "aud", "sub", "tier", "status", "isAccessGranted", "features", "iat", "exp", "validUntil",
        ])
      let user = UUID()
      let free = try await harness.profile(of: user, token: harness.token(for: user))
      let token = try #require(free.string("entitlements.entitlementToken"))
      let own = try #require(Base64.decode(String(token.split(separator: ".")[1]), .url))
      try check(
        own, ["iss", "aud", "sub", "tier", "status", "isAccessGranted", "features", "iat", "exp"])
    }
  }
}
