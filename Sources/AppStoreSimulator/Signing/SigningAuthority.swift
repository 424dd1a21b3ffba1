import AppStore
import Crypto
import Foundation
import SwiftASN1
import X509

/// A test authority in Apple's form: root, intermediate and leaf that sign the simulator's payloads.
///
/// The root is a P-384 authority, the intermediate a P-256 authority that carries the marker extension
/// 1.2.840.113635.100.6.2.1, and each leaf a P-256 certificate with 1.2.840.113635.100.6.11.1. A server trusts it if
/// its configured root is ``rootDER`` or ``rootPEM``.
///
/// ```swift
/// let authority = try SigningAuthority()
/// let jws = try authority.signer.sign(transaction)
/// let unmarked = try authority.makeSigner(marked: false)  // a verifier must refuse what this signs
/// ```
public struct SigningAuthority: Sendable {
  /// From 2020 to the end of 2049: wide enough for tests and demos, and before 2050, when X.509 changes its date format
  /// (RFC 5280, section 4.1.2.5).
  public static let wideValidity =
    Date(timeIntervalSince1970: 1_577_836_800)..<Date(timeIntervalSince1970: 2_524_607_999)

  let root: Certificate
  let rootKey: P384.Signing.PrivateKey
  let intermediate: Certificate
  let intermediateKey: P256.Signing.PrivateKey

  /// The simulator's signer: a marked leaf, valid as long as the authority.
  public let signer: PayloadSigner

  /// Makes new keys and certificates.
  ///
  /// - Parameters:
  ///   - validity: of the root, the intermediate and ``signer``'s leaf.
  ///   - intermediateMarked: whether the intermediate has its marker. A verifier must refuse a chain without it.
  public init(
    validity: Range<Date> = Self.wideValidity, intermediateMarked: Bool = true
  ) throws {
    let rootKey = P384.Signing.PrivateKey()
    let root = try ChainCertificate(
      subject: "Simulated Root CA - G3", role: .authority(maxPathLength: 1),
      publicKey: .init(rootKey.publicKey), validity: validity
    ).issued(by: nil, key: .init(rootKey))

    let intermediateKey = P256.Signing.PrivateKey()
    let intermediate = try ChainCertificate(
      subject: "Simulated Worldwide Developer Relations Certification Authority",
      role: .authority(maxPathLength: 0), publicKey: .init(intermediateKey.publicKey),
      validity: validity, marker: intermediateMarked ? AppleMarker.worldwideDeveloperRelations : nil
    ).issued(by: root, key: .init(rootKey))

    let leafKey = P256.Signing.PrivateKey()
    let leaf = try Self.leaf(
      for: leafKey.publicKey, from: intermediate, key: intermediateKey, validity: validity, marked: true)
    try self.init(
      root: root, rootKey: rootKey, intermediate: intermediate, intermediateKey: intermediateKey,
      leaf: leaf, leafKey: leafKey)
  }

  init(
    root: Certificate, rootKey: P384.Signing.PrivateKey, intermediate: Certificate,
    intermediateKey: P256.Signing.PrivateKey, leaf: Certificate, leafKey: P256.Signing.PrivateKey
  ) throws {
    self.root = root
    self.rootKey = rootKey
    self.intermediate = intermediate
    self.intermediateKey = intermediateKey
    self.signer = PayloadSigner(
      key: leafKey, certificates: try [leaf.derBytes, intermediate.derBytes, root.derBytes])
  }

  /// The root certificate as DER.
  public var rootDER: [UInt8] { signer.certificates[2] }

  /// The root certificate as PEM.
  public var rootPEM: String {
    get throws { try root.serializeAsPEM().pemString + "\n" }
  }

  /// Issues another leaf with a new key.
  ///
  /// - Parameters:
  ///   - validity: of the leaf. A verifier must refuse a leaf that was not valid at `signedDate`, and accept one that
  ///     expired later.
  ///   - marked: whether the leaf has its marker. A verifier must refuse a leaf without it.
  public func makeSigner(
    validity: Range<Date> = Self.wideValidity, marked: Bool = true
  ) throws -> PayloadSigner {
    let key = P256.Signing.PrivateKey()
    let leaf = try Self.leaf(
      for: key.publicKey, from: intermediate, key: intermediateKey, validity: validity, marked: marked)
    return PayloadSigner(
      key: key, certificates: [try leaf.derBytes] + signer.certificates.dropFirst())
  }

  /// Makes a signer as StoreKit testing in Xcode has it: one self-signed certificate in `x5c`.
  public static func makeXcodeSigner(validity: Range<Date> = wideValidity) throws -> PayloadSigner {
    let key = P256.Signing.PrivateKey()
    let certificate = try ChainCertificate(
      subject: "StoreKit Testing in Xcode", role: .leaf, publicKey: .init(key.publicKey), validity: validity
    ).issued(by: nil, key: .init(key))
    return PayloadSigner(key: key, certificates: [try certificate.derBytes], isXcode: true)
  }

  private static func leaf(
    for publicKey: P256.Signing.PublicKey, from issuer: Certificate, key: P256.Signing.PrivateKey,
    validity: Range<Date>, marked: Bool
  ) throws -> Certificate {
    try ChainCertificate(
      subject: "Simulated App Store Receipt Signing", role: .leaf, publicKey: .init(publicKey),
      validity: validity, marker: marked ? AppleMarker.receiptSigning : nil
    ).issued(by: issuer, key: .init(key))
  }
}

/// Signs payloads as compact JWS (RFC 7515, section 7.1) with ES256 and an `x5c` header, as the App Store
/// does for transactions, renewal infos, app transactions and notifications.
public struct PayloadSigner: Sendable {
  let key: P256.Signing.PrivateKey

  /// DER of leaf, intermediate and root, in the order of `x5c`.
  public let certificates: [[UInt8]]

  /// The encoded header and its dot, computed once for all payloads.
  private let headerSegment: [UInt8]

  /// Whether dates have fractions of milliseconds, as those of Xcode have.
  private let isXcode: Bool

  init(key: P256.Signing.PrivateKey, certificates: [[UInt8]], isXcode: Bool = false) {
    self.key = key
    self.isXcode = isXcode
    self.certificates = certificates
    // Base64 and not base64url: RFC 7515, section 4.1.6.
    let chain = certificates.map { "\"\(Base64.string($0, .standard))\"" }.joined(separator: ",")
    let key = isXcode ? "\"kid\":\"Apple_Xcode_Key\",\"typ\":\"JWT\"," : ""
    headerSegment = Self.segment("{\"alg\":\"ES256\",\(key)\"x5c\":[\(chain)]}".utf8)
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
    let json = try JSONEncoder().encode(payload)
    return try sign(json: isXcode ? Self.withFractions(json) : json)
  }

  /// Adds a fraction to each date that has whole milliseconds.
  private static func withFractions(_ json: Data) throws -> Data {
    guard var members = try JSONSerialization.jsonObject(with: json) as? [String: Any] else { return json }
    for (name, value) in members where name.hasSuffix("Date") {
      if let whole = value as? Int64 { members[name] = Double(whole) + 0.25 }
    }
    return try JSONSerialization.data(withJSONObject: members, options: .sortedKeys)
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
