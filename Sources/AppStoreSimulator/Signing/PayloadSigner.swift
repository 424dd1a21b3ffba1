import AppStore
import Crypto
import Foundation

/// Signs payloads as compact JWS (RFC 7515, section 7.1) with ES256 and an `x5c` header, as the App Store
/// does for transactions, renewal infos, app transactions and notifications.
public struct PayloadSigner: Sendable {
  let key: P256.Signing.PrivateKey

  /// DER of leaf, intermediate and root, in the order of `x5c`.
  public let certificates: [[UInt8]]

  /// The encoded header and its dot, computed once for all payloads.
  private let headerSegment: [UInt8]

  init(key: P256.Signing.PrivateKey, certificates: [[UInt8]]) {
    self.key = key
    self.certificates = certificates
    // Base64 and not base64url: RFC 7515, section 4.1.6.
    let chain = certificates.map { "\"\(Base64.string($0, .standard))\"" }.joined(separator: ",")
    headerSegment = Self.segment("{\"alg\":\"ES256\",\"x5c\":[\(chain)]}".utf8)
  }

  /// Signs `json` unchanged.
  public func sign(json: some Collection<UInt8>) throws -> String {
    try sign(json: json, headerSegment: headerSegment)
  }

  /// Signs `json` under any header, for tests of refusals: another `alg`, `crit`, a missing or a fourth certificate.
  /// The signature is always ES256 with the leaf's key.
  public func sign(json: some Collection<UInt8>, header: some Collection<UInt8>) throws -> String {
    try sign(json: json, headerSegment: Self.segment(header))
  }

  /// Signs a payload.
  public func sign(_ payload: some SignedPayload) throws -> String {
    try sign(json: JSONEncoder().encode(payload))
  }

  private func sign(json: some Collection<UInt8>, headerSegment: [UInt8]) throws -> String {
    var text = headerSegment
    text += Base64.encode(Array(json), .url)
    // ES256 is R and S as two 32-byte big-endian integers, not DER: RFC 7518, section 3.4.
    let signature = try key.signature(for: text).rawRepresentation
    text.append(UInt8(ascii: "."))
    text += Base64.encode(Array(signature), .url)
    return String(decoding: text, as: UTF8.self)
  }

  private static func segment(_ bytes: some Collection<UInt8>) -> [UInt8] {
    Base64.encode(Array(bytes), .url) + [UInt8(ascii: ".")]
  }
}
