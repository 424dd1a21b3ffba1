import Crypto
import FoundationEssentials
import X509

/// The header of a JWS whose certificates chain to a trusted root, with everything of it that the next JWS
/// of the same signer needs.
///
/// Apple's header is some 4 kB of certificates, the same for every payload for months. It is therefore
/// kept once: here, and by whoever stores signed payloads.
public final class VerifiedChain: Sendable {
  /// The JWS header as it came: base64url of the JSON with the certificates.
  public let headerSegment: [UInt8]
  /// SHA-256 of `headerSegment`: the header's name in storage.
  public let fingerprint: [UInt8]

  private let windows: [(name: String, from: Date, to: Date)]
  private let key: P256.Signing.PublicKey
  /// SHA-256 that has taken in the header segment and the dot. What is signed begins with them, so each
  /// payload costs only its own bytes.
  private let begun: SHA256

  init(headerSegment: [UInt8], key: P256.Signing.PublicKey, path: [PathCertificate]) {
    self.headerSegment = headerSegment
    self.key = key
    windows = path.map { ($0.name, $0.certificate.notValidBefore, $0.certificate.notValidAfter) }
    var hash = SHA256()
    hash.update(data: headerSegment)
    fingerprint = Array(hash.finalize())
    hash.update(data: [UInt8(ascii: ".")])
    begun = hash
  }

  /// Whether the leaf's key signed this payload under this header with ES256.
  ///
  /// The signature is the 64 bytes of R and S (RFC 7518, section 3.4). S may lie in either half of its range:
  /// ECDSA allows both and Apple's signatures have both, so a signature must not be taken for the name of
  /// what it signs.
  func isSigned(payloadSegment: ArraySlice<UInt8>, signature: [UInt8]) -> Bool {
    guard signature.count == 64,
      let signature = try? P256.Signing.ECDSASignature(rawRepresentation: signature)
    else { return false }
    var hash = begun
    payloadSegment.withUnsafeBytes { hash.update(bufferPointer: $0) }
    return key.isValidSignature(signature, for: hash.finalize())
  }

  /// Throws unless every certificate of the chain was valid at an instant.
  ///
  /// Devices keep payloads long after their leaf expired, so the instant is the payload's `signedDate`. It is
  /// looked at after the signature verified, so it is the signer's word and nobody else's. Somebody who stole
  /// the key of an expired leaf could sign for the time when it was valid; only distrust of the leaf, by name,
  /// would help against that.
  func checkValid(at signedAt: Date) throws(VerificationFailure) {
    for (name, from, to) in windows where signedAt < from || signedAt > to {
      let window = "from \(from.formatted(.iso8601)) to \(to.formatted(.iso8601))"
      throw .init(
        .certificateNotValidAtSignedDate,
        "the \(name) certificate was valid \(window), the payload was signed at \(signedAt.formatted(.iso8601))"
      )
    }
  }
}
