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
