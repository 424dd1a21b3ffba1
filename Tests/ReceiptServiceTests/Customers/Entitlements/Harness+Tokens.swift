import Crypto
import Foundation
import HTTP
import HTTPTypes
import Testing

@testable import ReceiptService

/// The climbing app's features, as its own code would declare them.
struct ClimbingFeatures: Decodable, Equatable {
  var insights: Bool
  var history: Int?
}

typealias Held = HeldEntitlement<ClimbingFeatures>

extension Answer {
  /// The token of a response; `nil` if it is null.
  var token: String? { string("entitlements.entitlementToken") }

  /// The key ids of a key set.
  var kids: [String] { (self["keys"] as? [[String: Any]] ?? []).compactMap { $0["kid"] as? String } }

  /// The decoded segments of its token.
  func tokenSegment(_ index: Int) throws -> [String: Any] {
    let segment = try #require(token).split(separator: ".")[index]
    let data = try #require(Data(base64URL: segment))
    return try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any])
  }
}

extension HeldEntitlement {
  /// Accepts the token of a response; fails the test if it is refused.
  @discardableResult
  mutating func receive(_ answer: Answer) throws -> Entitlement<Features> {
    let said = receive(try #require(answer.token))
    return try #require(said)
  }
}

extension Harness {
  func keySet(at address: SocketAddress? = nil) async throws -> Answer {
    try await send(.get, "/.well-known/jwks.json", to: address)
  }

  /// The state of a new installation of the climbing app: the keys and no token.
  func installation(of user: UUID, app: String = TestApps.climbing) async throws -> Held {
    var held = Held(app: app, customer: user.uuidString.lowercased())
    try held.learn(keySet: Data(await keySet().body))
    return held
  }

  /// A premium user and the entitlement token.
  func premiumUser() async throws -> (user: UUID, token: String) {
    let (user, _) = try await customer(buys: TestApps.annual)
    return (user, try #require(try await premium(user).token))
  }

  /// Runs `body` with the address of another server on the same database, whose keys were not loaded.
  func withServer(_ body: (Service, SocketAddress) async throws -> Void) async throws {
    let other = try await service(configuration: TestApps.json)
    let server = HTTPServer(
      configuration: HTTPServerConfiguration(), router: other.clientRouter, logger: other.logger)
    let address = try server.start()
    do {
      try await body(other, address)
    } catch {
      await server.shutdown(within: .seconds(2))
      await other.close()
      throw error
    }
    await server.shutdown(within: .seconds(2))
    await other.close()
  }
}
