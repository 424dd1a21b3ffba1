import Crypto
import Foundation
import SwiftASN1
import X509

@testable import AppStore

/// An authority like Apple's: a root, an intermediate and a signing leaf, each configurable.
struct TestAuthority {
  /// The properties of a certificate.
  struct Plan {
    var marker: ASN1ObjectIdentifier?
    var isAuthority: Bool
    var maxPathLength: Int?
    var usage: KeyUsage?
    var window = Instants.begin...Instants.end
    var more: [Certificate.Extension] = []
  }

  /// The instants of certificates and payloads.
  enum Instants {
    static let begin = Date(timeIntervalSince1970: 1_700_000_000)
    static let signed = Date(timeIntervalSince1970: 1_750_000_000)
    static let end = Date(timeIntervalSince1970: 1_800_000_000)
  }

  static let shared = TestAuthority()

  let root: Certificate
  let intermediate: Certificate
  let leaf: Certificate
  let intermediateKey: P384.Signing.PrivateKey
  let leafKey: P256.Signing.PrivateKey

  init(
    name: String = "Test Root", root rootPlan: Plan = Plan(isAuthority: true),
    intermediate intermediatePlan: Plan = Plan(
      marker: ChainValidation.intermediateMarker, isAuthority: true, maxPathLength: 0),
    leaf leafPlan: Plan = Plan(marker: ChainValidation.leafMarker, isAuthority: false)
  ) {
    let rootKey = P384.Signing.PrivateKey()
    intermediateKey = P384.Signing.PrivateKey()
    leafKey = P256.Signing.PrivateKey()
    root = Self.certificate(
      name, .init(rootKey.publicKey), rootPlan, issuedBy: name, with: .init(rootKey))
    intermediate = Self.certificate(
      "\(name) Intermediate", .init(intermediateKey.publicKey), intermediatePlan, issuedBy: name,
      with: .init(rootKey))
    leaf = Self.certificate(
      "\(name) Leaf", .init(leafKey.publicKey), leafPlan, issuedBy: "\(name) Intermediate",
      with: .init(intermediateKey))
  }

  static func certificate(
    _ name: String, _ key: Certificate.PublicKey, _ plan: Plan, issuedBy issuer: String,
    with issuerKey: Certificate.PrivateKey
  ) -> Certificate {
    // A plan that the library cannot turn into a certificate is a mistake in the test, which should stop.
    // swift-format-ignore: NeverUseForceTry
    try! Certificate(
      version: .v3, serialNumber: .init(), publicKey: key, notValidBefore: plan.window.lowerBound,
      notValidAfter: plan.window.upperBound, issuer: DistinguishedName { CommonName(issuer) },
      subject: DistinguishedName { CommonName(name) }, signatureAlgorithm: .ecdsaWithSHA256,
      extensions: Certificate.Extensions {
        Critical(
          plan.isAuthority
            ? BasicConstraints.isCertificateAuthority(maxPathLength: plan.maxPathLength)
            : .notCertificateAuthority)
        if let usage = plan.usage { Critical(usage) }
        if let marker = plan.marker { Certificate.Extension(oid: marker, critical: false, value: [5, 0]) }
        for more in plan.more { more }
      }, issuerPrivateKey: issuerKey)
  }

  var roots: TrustedRoots { get throws { try TrustedRoots(files: [root.der]) } }
  var verifier: SignedDataVerifier { get throws { SignedDataVerifier(roots: try roots) } }
  var x5c: [String] { get throws { try [leaf, intermediate, root].map { try $0.base64 } } }

  /// Signs a payload as Apple does, or under another header.
  func sign(_ payload: some Encodable, header: Header? = nil) throws -> String {
    try sign(
      bytes: Array(JSONEncoder().encode(payload)),
      header: Array((header ?? Header(x5c: x5c)).json))
  }

  /// Signs any bytes.
  func sign(bytes payload: [UInt8], header: [UInt8]? = nil) throws -> String {
    let header = try header ?? Array(Header(x5c: x5c).json)
    let input = CompactJWS.signingInput(header: header, payload: payload)
    let signature = Array(try leafKey.signature(for: input).rawRepresentation)
    return CompactJWS.join(headerSegment: Base64.encode(header, .url), payload: payload, signature: signature)
  }
}

extension CompactJWS {
  /// The bytes that ES256 signs: header segment, dot, payload segment (RFC 7515, section 5.1).
  static func signingInput(header: [UInt8], payload: [UInt8]) -> [UInt8] {
    Base64.encode(header, .url) + [UInt8(ascii: ".")] + Base64.encode(payload, .url)
  }
}

/// A header of a JWS.
struct Header: Encodable {
  /// Its bytes, the same each time: a notification and its inner parts have equal headers.
  var json: Data {
    get throws {
      let encoder = JSONEncoder()
      encoder.outputFormatting = .sortedKeys
      return try encoder.encode(self)
    }
  }

  var alg: String? = "ES256"
  var x5c: [String]?
  var crit: [String]?
}

extension Certificate {
  var der: [UInt8] {
    get throws {
      var serializer = DER.Serializer()
      try serializer.serialize(self)
      return serializer.serializedBytes
    }
  }

  var base64: String { get throws { Base64.string(try der, .standard) } }
}
