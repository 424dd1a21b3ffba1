import Crypto
import Foundation
import Synchronization
import X509

/// The header of a JWS whose certificates chain to a trusted root.
///
/// Apple's header has about 4 kB of certificates and is the same for every payload for months. The cache and the tables
/// therefore keep it once.
public final class VerifiedChain: Sendable {
  /// The received header segment: base64url of the JSON with the certificates.
  public let headerSegment: [UInt8]
  /// SHA-256 of `headerSegment`: the key of the header in storage.
  public let fingerprint: [UInt8]

  /// Whether it is a certificate of Xcode, and not a chain to a trusted root.
  public let isOfXcode: Bool

  private let windows: [(name: String, from: Date, to: Date)]
  private let key: P256.Signing.PublicKey
  /// The SHA-256 state after the header segment and the dot, with which every signed text begins.
  private let begun: SHA256

  init(
    headerSegment: [UInt8], key: P256.Signing.PublicKey, path: [PathCertificate], isOfXcode: Bool = false
  ) {
    self.isOfXcode = isOfXcode
    self.headerSegment = headerSegment
    self.key = key
    windows = path.map { ($0.name, $0.certificate.notValidBefore, $0.certificate.notValidAfter) }
    var hash = SHA256()
    hash.update(data: headerSegment)
    fingerprint = Array(hash.finalize())
    hash.update(data: [UInt8(ascii: ".")])
    begun = hash
  }

  /// Whether a JWS with this header segment is signed by this chain: whether the segments are equal byte for byte.
  func signs(under header: ArraySlice<UInt8>) -> Bool {
    guard headerSegment.count == header.count else { return false }
    return headerSegment.withUnsafeBytes { ours in
      header.withUnsafeBytes { theirs in
        guard let ours = ours.baseAddress, let theirs = theirs.baseAddress else { return true }
        return memcmp(ours, theirs, header.count) == 0
      }
    }
  }

  /// Whether the leaf's key signed this payload under this header with ES256.
  ///
  /// The signature is the 64 bytes of R and S (RFC 7518, section 3.4). ECDSA allows S in either half of its range, and
  /// Apple's signatures use both. A signature is therefore not a unique key of its payload.
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
  /// Devices keep payloads long after their leaf expired, so the instant is the payload's `signedDate`, read after the
  /// signature verified. A thief of an expired leaf's key could sign for the time of its validity; only distrusting
  /// that leaf by name prevents this.
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

/// A bounded cache of verified chains, so that the next payload under the same header skips chain validation.
///
/// The key is the whole header segment, compared byte by byte. A chain enters only after a signature under it verified,
/// and the signature covers the header, so only the signer can fill the cache. Comparing its few entries is faster than
/// hashing the key.
final class ChainCache: Sendable {
  private struct Entry {
    let chain: VerifiedChain
    let expiresAt: ContinuousClock.Instant
  }

  private let entries = Mutex<[Entry]>([])
  private let capacity: Int
  private let lifetime: Duration

  init(capacity: Int, lifetime: Duration) {
    self.capacity = capacity
    self.lifetime = lifetime
  }

  func chain(under header: ArraySlice<UInt8>, at now: ContinuousClock.Instant) -> VerifiedChain? {
    entries.withLock { entries in
      entries.first { $0.expiresAt > now && $0.chain.signs(under: header) }?.chain
    }
  }

  func insert(_ chain: VerifiedChain, at now: ContinuousClock.Instant) {
    entries.withLock { entries in
      // Concurrent threads may have verified the first payloads of one signer.
      entries.removeAll { $0.expiresAt <= now || $0.chain.fingerprint == chain.fingerprint }
      // Newest first: most payloads are signed with the newest certificate.
      entries.insert(Entry(chain: chain, expiresAt: now + lifetime), at: 0)
      if entries.count > capacity { entries.removeLast() }
    }
  }

  var count: Int { entries.withLock { $0.count } }
}
