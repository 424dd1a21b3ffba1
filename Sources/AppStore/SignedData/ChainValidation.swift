import Crypto
import SwiftASN1
import X509

/// Whether leaf and intermediate of a JWS chain to a trusted root, whatever the time.
///
/// The path is not searched but given: leaf, intermediate, root. On such a path RFC 5280 comes down to the few
/// rules below; certificates, extensions, keys and signatures are the library's work, and the tests compare the
/// verdicts with the library's own path builder, which can be called only asynchronously.
///
/// Time is left out because the instant that counts, the payload's `signedDate`, is part of what is not yet
/// verified. `VerifiedChain` looks at it once the signature is good, so that nothing of a payload is believed,
/// or even parsed, before its signature verified.
struct ChainValidation {
  /// Marks a leaf that signs what the App Store says.
  static let leafMarker: ASN1ObjectIdentifier = [1, 2, 840, 113_635, 100, 6, 11, 1]
  /// Marks the intermediate of Apple Worldwide Developer Relations.
  static let intermediateMarker: ASN1ObjectIdentifier = [1, 2, 840, 113_635, 100, 6, 2, 1]

  let roots: TrustedRoots

  /// The public key of the leaf, and the path with which it was found good, leaf first.
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
    // Two roots may bear the same name, for instance while one replaces the other.
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
      // A version 1 certificate has no extensions to say what it may do. Whoever trusts it as root says it.
      if certificate.version != .v1 { try root.checkAuthority(overAuthorities: 1) }
      return root
    }
    throw failure
  }
}

extension String {
  /// Printable ASCII, not too much of it. Whoever sends a JWS writes the names in its certificates, and must
  /// not be able to write lines of our log.
  var fitForLog: String {
    String(String.UnicodeScalarView(unicodeScalars.prefix(200).map { (" "..."~").contains($0) ? $0 : "?" }))
  }
}
