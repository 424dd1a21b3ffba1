import Crypto
import Foundation
import JWTKit

/// The claims of access tokens.
struct TestClaims: JWTPayload {
  var sub: String?
  var iss: String? = "https://auth.example"
  var aud: String? = "authenticated"
  var exp: Int?
  var role: String? = "authenticated"

  func verify(using algorithm: some JWTAlgorithm) async throws {}
}

extension Harness {
  /// A token of a user, valid for an hour.
  func token(
    for user: UUID, secret: String = Harness.secret, change: (inout TestClaims) -> Void = { _ in }
  ) async throws -> String {
    var claims = TestClaims(
      sub: user.uuidString.lowercased(), exp: Int(clock.now.timeIntervalSince1970) + 3600)
    change(&claims)
    let keys = await JWTKeyCollection().add(
      hmac: HMACKey(key: SymmetricKey(data: Array(secret.utf8))), digestAlgorithm: .sha256)
    return try await keys.sign(claims)
  }
}

extension Harness {
  /// An HS256 signature with the service's secret.
  static func hmac(_ input: Data) -> Data {
    Data(HMAC<SHA256>.authenticationCode(for: input, using: SymmetricKey(data: Data(secret.utf8))))
  }
}

/// A token with any header, claims and signature.
func rawToken(header: String, claims: String, sign: (Data) -> Data) -> String {
  func base64url(_ data: Data) -> String {
    data.base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
  }
  let input = base64url(Data(header.utf8)) + "." + base64url(Data(claims.utf8))
  return input + "." + base64url(sign(Data(input.utf8)))
}
