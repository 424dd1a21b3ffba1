import Crypto
import Foundation
import Testing

@testable import AppStoreSimulator

struct ConnectTokenTests {
  private static let key = ConnectKey()
  private static let now = Int(Climb.start.timeIntervalSince1970)

  /// The bundle id that the verifier reads from a token with these parts; the defaults are valid.
  private static func bundleID(
    header: String? = nil, issuer: String = key.issuerID, audience: String = "appstoreconnect-v1",
    issued: Int? = now, expires: Int = now + 3600, signedBy signingKey: ConnectKey = key,
    scheme: String = "Bearer "
  ) async throws -> String? {
    let header = header ?? #"{"alg":"ES256","kid":"\#(key.keyID)","typ":"JWT"}"#
    let issued = issued.map { #","iat":\#($0)"# } ?? ""
    let claims = #"{"iss":"\#(issuer)","exp":\#(expires),"aud":"\#(audience)","bid":"com.example"\#(issued)}"#
    let signer = PayloadSigner(key: signingKey.privateKey, certificates: [])
    let token = try signer.sign(json: Array(claims.utf8), header: Array(header.utf8))
    let verifier = try await ConnectTokenVerifier(key, clock: { Climb.start })
    return await verifier.bundleID(ofAuthorization: scheme + token)
  }

  @Test func `the simulator reads the bundle id from a valid bearer token`() async throws {
    #expect(try await Self.bundleID() == "com.example")
    // Apple's Python library omits iat.
    #expect(try await Self.bundleID(issued: nil) == "com.example")
  }

  @Test func `the simulator refuses a bearer token that expired or is valid for too long`() async throws {
    #expect(try await Self.bundleID(issued: Self.now - 3600, expires: Self.now) == nil)
    #expect(try await Self.bundleID(expires: Self.now + 2 * 3600) == nil)
    #expect(try await Self.bundleID(issued: nil, expires: Self.now + 2 * 3600) == nil)
    #expect(try await Self.bundleID(issued: Self.now + 3600, expires: Self.now + 7200) == nil)
  }

  @Test func `the simulator refuses a bearer token for another audience, issuer or key`() async throws {
    #expect(try await Self.bundleID(audience: "another") == nil)
    #expect(try await Self.bundleID(issuer: "another") == nil)
    #expect(try await Self.bundleID(signedBy: ConnectKey()) == nil)
    #expect(try await Self.bundleID(header: #"{"alg":"ES256","kid":"ANOTHERKEY"}"#) == nil)
    #expect(try await Self.bundleID(header: #"{"alg":"ES256"}"#) == nil)
  }

  @Test func `the simulator refuses a bearer token that claims another algorithm`() async throws {
    for algorithm in ["none", "HS256", "ES384"] {
      let header = #"{"alg":"\#(algorithm)","kid":"\#(Self.key.keyID)"}"#
      #expect(try await Self.bundleID(header: header) == nil, "\(algorithm)")
    }
  }

  @Test func `the simulator refuses an authorization that is not a bearer token`() async throws {
    #expect(try await Self.bundleID(scheme: "Basic ") == nil)
    #expect(try await Self.bundleID(scheme: "") == nil)
    let verifier = try await ConnectTokenVerifier(Self.key)
    for authorization in [nil, "", "Bearer ", "Bearer a.b", "Bearer a.b.c"] {
      #expect(await verifier.bundleID(ofAuthorization: authorization) == nil)
    }
  }
}
