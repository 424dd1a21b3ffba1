import Crypto
import SwiftASN1
import X509

/// Validates that leaf and intermediate of a JWS chain to a trusted root, at any time.
///
/// The path is given: leaf, intermediate, root. On such a path RFC 5280 comes down to the rules below.
/// swift-certificates parses certificates and checks signatures. Its `Verifier` is not used: it is async, has no error
/// codes, and ignores key usage. A test compares the verdicts with it.
///
/// Validity periods are checked later, by `VerifiedChain`. They are judged at the payload's `signedDate`, and no
/// payload is parsed before its signature verified.
struct ChainValidation {
  /// Marks a leaf that signs App Store payloads.
  static let leafMarker: ASN1ObjectIdentifier = [1, 2, 840, 113_635, 100, 6, 11, 1]
  /// Marks the intermediate of Apple Worldwide Developer Relations.
  static let intermediateMarker: ASN1ObjectIdentifier = [1, 2, 840, 113_635, 100, 6, 2, 1]

  let roots: TrustedRoots

  /// Returns the public key of the leaf and the valid path, leaf first.
  func validate(
    leaf: [UInt8], intermediate: [UInt8]
  ) throws(VerificationFailure) -> (key: P256.Signing.PublicKey, path: [PathCertificate]) {
    let leaf = try PathCertificate(der: leaf, "leaf")
    let intermediate = try PathCertificate(der: intermediate, "intermediate")
    guard leaf.has(Self.leafMarker) else {
      throw .init(
        .leafMarkerMissing,
        "the leaf certificate lacks \(Self.leafMarker): it was not made for App Store payloads")
    }
    guard intermediate.has(Self.intermediateMarker) else {
      throw .init(
        .intermediateMarkerMissing,
        "the intermediate certificate lacks \(Self.intermediateMarker): it issues no App Store certificates")
    }
    guard let key = P256.Signing.PublicKey(leaf.certificate.publicKey) else {
      throw .init(.unsupportedAlgorithm, "the leaf's key is not on P-256 and cannot have signed with ES256")
    }
    try leaf.checkExtensions(understood: Self.leafMarker)
    try leaf.checkKeyUsage(\.digitalSignature, for: "signing data")
    try intermediate.checkExtensions(understood: Self.intermediateMarker)
    try intermediate.checkAuthority(overAuthorities: 0)
    try leaf.checkIssued(by: intermediate)
    return (key, [leaf, intermediate, try root(of: intermediate)])
  }

  private func root(of intermediate: PathCertificate) throws(VerificationFailure) -> PathCertificate {
    let name = intermediate.certificate.issuer
    var failure = VerificationFailure(
      .untrustedRoot,
      "the chain ends in '\(name.description.fitForLog)', which is not among the trusted roots")
    // Two roots may have the same name, for instance while one replaces the other.
    for certificate in roots.certificates where certificate.subject == name {
      let root = PathCertificate(certificate, "root")
      do throws(VerificationFailure) {
        try intermediate.checkIssued(by: root)
      } catch {
        failure = .init(
          .untrustedRoot, "the chain ends in another root of a trusted root's name: \(error.detail)")
        continue
      }
      try root.checkExtensions(understood: nil)
      // A version 1 root has no extensions; the operator who trusts it as root makes it an authority.
      if certificate.version != .v1 { try root.checkAuthority(overAuthorities: 1) }
      return root
    }
    throw failure
  }
}

extension String {
  /// At most 200 characters of printable ASCII. The sender of a JWS chooses the names in its certificates and must not
  /// be able to forge log lines.
  var fitForLog: String {
    String(String.UnicodeScalarView(unicodeScalars.prefix(200).map { (" "..."~").contains($0) ? $0 : "?" }))
  }
}

/// A certificate on the path, with the rules of RFC 5280 for its position.
struct PathCertificate {
  let certificate: Certificate
  /// The position for error messages: leaf, intermediate or root.
  let name: String

  init(_ certificate: Certificate, _ name: String) {
    self.certificate = certificate
    self.name = name
  }

  /// Parses a certificate of the header.
  init(der: [UInt8], _ name: String) throws(VerificationFailure) {
    do {
      self.init(try Certificate(derEncoded: der), name)
    } catch {
      throw .init(.certificateMalformed, "the \(name) certificate in x5c is not DER of an X.509 certificate")
    }
    guard certificate.notValidBefore <= certificate.notValidAfter else {
      throw .init(.certificateMalformed, "the \(name) certificate ends before it begins")
    }
  }

  func has(_ extensionID: ASN1ObjectIdentifier) -> Bool {
    certificate.extensions[oid: extensionID] != nil
  }

  /// Checks that critical extensions are understood (section 4.2) and that only version 3 has extensions (section
  /// 4.1.2.9). Name constraints are refused: no certificate of Apple's path has them.
  func checkExtensions(understood marker: ASN1ObjectIdentifier?) throws(VerificationFailure) {
    guard certificate.version == .v3 || certificate.extensions.isEmpty else {
      throw .init(.brokenChain, "the \(name) certificate has extensions, but is not of version 3")
    }
    for found in certificate.extensions {
      let understood =
        switch found.oid {
        case .X509ExtensionID.basicConstraints, .X509ExtensionID.keyUsage, marker: true
        case .X509ExtensionID.nameConstraints: false
        default: !found.critical
        }
      guard understood else {
        throw .init(
          .brokenChain, "the \(name) certificate has the extension \(found.oid), which is not supported")
      }
    }
  }

  /// Checks that an issuer is an authority (section 4.2.1.9) and allows the number of authorities below it.
  func checkAuthority(overAuthorities below: Int) throws(VerificationFailure) {
    switch try read("basic constraints", { try $0.basicConstraints }) {
    case .isCertificateAuthority(let maxPathLength):
      if let maxPathLength, maxPathLength < below {
        throw .init(.brokenChain, "the \(name) certificate allows \(maxPathLength) authorities below it")
      }
    case .notCertificateAuthority, nil:
      throw .init(.brokenChain, "the \(name) certificate is not a certificate authority's")
    }
    try checkKeyUsage(\.keyCertSign, for: "signing certificates")
  }

  /// Checks that key usage, if present, allows the use (section 4.2.1.3). Test authorities may leave it out.
  func checkKeyUsage(_ use: (KeyUsage) -> Bool, for purpose: String) throws(VerificationFailure) {
    if let usage = try read("key usage", { try $0.keyUsage }), !use(usage) {
      throw .init(.brokenChain, "the \(name) certificate's key usage excludes \(purpose)")
    }
  }

  /// Checks that name and signature match the issuer (section 6.1.3).
  func checkIssued(by issuer: PathCertificate) throws(VerificationFailure) {
    guard certificate.issuer == issuer.certificate.subject else {
      throw .init(.brokenChain, "the \(name) certificate names another issuer than the \(issuer.name)")
    }
    // Apple signs certificates with ECDSA; weaker algorithms are refused.
    switch certificate.signatureAlgorithm {
    case .ecdsaWithSHA256, .ecdsaWithSHA384, .ecdsaWithSHA512: break
    default: throw .init(.brokenChain, "the \(name) certificate is not signed with ECDSA and SHA-2")
    }
    guard issuer.certificate.publicKey.isValidSignature(certificate.signature, for: certificate) else {
      throw .init(.brokenChain, "the \(name) certificate was not signed by the \(issuer.name)'s key")
    }
  }

  private func read<Value>(
    _ what: String, _ value: (Certificate.Extensions) throws -> Value?
  ) throws(VerificationFailure) -> Value? {
    do {
      return try value(certificate.extensions)
    } catch {
      throw .init(.certificateMalformed, "the \(name) certificate's \(what) cannot be read")
    }
  }
}
