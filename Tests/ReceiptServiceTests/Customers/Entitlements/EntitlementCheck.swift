import Foundation

#if canImport(CryptoKit)
import CryptoKit
#else
import Crypto
#endif

/// The claims of a token: what one customer of one app may do. `Features` is the app's own type.
struct Entitlement<Features: Decodable>: Decodable {
  var iss: String, aud: String, sub: String
  var tier: String?
  var status: String
  var isAccessGranted: Bool
  var features: Features
  var iat: TimeInterval, exp: TimeInterval
  /// When to ask again.
  var validUntil: TimeInterval?
}

/// Accepts only what receiptd signed for this customer of this app.
struct EntitlementCheck<Features: Decodable> {
  var app: String
  var customer: String
  /// The key set: the bytes of each key's `x`, by its `kid`.
  var keys: [String: Data]

  func entitlement(in token: String, at now: Date) -> Entitlement<Features>? {
    let parts = token.split(separator: ".", omittingEmptySubsequences: false)
    let segments = parts.compactMap { Data(base64URL: $0) }
    guard parts.count == 3, segments.count == 3,
      let header = try? JSONDecoder().decode([String: String].self, from: segments[0]),
      header["alg"] == "EdDSA", let x = header["kid"].flatMap({ keys[$0] }),
      let key = try? Curve25519.Signing.PublicKey(rawRepresentation: x),
      key.isValidSignature(segments[2], for: Data("\(parts[0]).\(parts[1])".utf8)),
      let said = try? JSONDecoder().decode(Entitlement<Features>.self, from: segments[1]),
      said.iss == "receiptd", said.aud == app, said.sub == customer, now.timeIntervalSince1970 < said.exp
    else { return nil }
    return said
  }
}

extension Data {
  init?(base64URL text: some StringProtocol) {
    let base64 = text.replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
    self.init(base64Encoded: base64 + String(repeating: "=", count: (4 - base64.count % 4) % 4))
  }
}
