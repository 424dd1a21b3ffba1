import AppStore
import AppStoreSimulator
import Foundation
import HTTPTypes
import Testing

@testable import ReceiptService

/// Responses about a customer must not be cacheable: a cache might send them to another customer.
@Suite struct CachingTests {
  /// The routes whose responses are public and cacheable.
  private static let cacheable = [
    "/.well-known/jwks.json": "public, max-age=600", "/openapi.yaml": "public, max-age=3600",
  ]

  @Test func `every route of openapi.yaml sends its Cache-Control, also with errors`() async throws {
    try await withHarness { harness in
      let operations = try DescribedAPI().operations
      #expect(operations.count > 20)
      for operation in operations {
        let address = operation.isOnAdminPort ? harness.adminAddress : harness.address
        let path = operation.pattern.replacing(/\{[A-Za-z]+\}/, with: "x")
        let method = try #require(HTTPRequest.Method(rawValue: operation.method))
        let json = method == .post || method == .put ? "{}" : nil
        for token in [nil, Harness.supportToken] {
          let answer = try await harness.send(method, path, json: json, token: token, to: address)
          let expected = Self.cacheable[operation.pattern] ?? "no-store"
          #expect(answer.headers[.cacheControl] == expected, "\(operation): \(answer.status)")
        }
      }
    }
  }

  @Test func `responses to unknown routes are not cacheable`() async throws {
    try await withHarness { harness in
      let profile = "/api/v1/profiles/\(UUID())/premium"
      for (method, path, status) in [
        (HTTPRequest.Method.get, "/nowhere", 404), (.delete, profile, 405), (.options, profile, 204),
        (.get, "/api/v1/profiles/%zz/premium", 400),
      ] {
        let answer = try await harness.send(method, path)
        #expect(answer.status == status, "\(method) \(path)")
        #expect(answer.headers[.cacheControl] == "no-store", "\(method) \(path)")
      }
      let unknown = try await harness.send(.get, "/nowhere", to: harness.adminAddress)
      #expect(unknown.status == 404 && unknown.headers[.cacheControl] == "no-store")
    }
  }

  @Test func `responses about a customer are not cacheable`() async throws {
    try await withHarness { harness in
      let user = UUID()
      let token = try await harness.token(for: user)
      let bought = try harness.buy()
      let story = "/support/v1/customer/\(user.uuidString.lowercased())"
      let answers = [
        try await harness.validate(["signedTransaction": bought.signedTransaction], token: token),
        try await harness.profile(of: user, token: token),
        try await harness.sync([bought.signedTransaction], user: user, token: token),
        try await harness.send(.get, "/api/v1/devices/phone/entitlements?bundleID=\(TestApps.family)"),
        try await harness.send(.get, "/api/v1/devices/phone/children?bundleID=\(TestApps.family)"),
        try await harness.notify(bought.notification.signedPayload),
        try await harness.send(.get, story, token: Harness.supportToken, to: harness.adminAddress),
      ]
      for answer in answers {
        #expect(answer.status == 200)
        #expect(answer.headers[values: .cacheControl] == ["no-store"])
      }
    }
  }
}
