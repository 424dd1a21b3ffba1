import AppStore
import FoundationEssentials
import Glibc

/// A signed notification taken apart so that nothing is kept twice, and can be put together again to the
/// letter.
///
/// A posted notification is 13 kB, of which 12 are three copies of the same certificates and the cost
/// of writing base64 twice. Kept are the claims as text, the signatures, and references to headers.
struct KeptPayload: Sendable, Equatable {
  var envelope: Part
  var transaction: Part?
  var renewalInfo: Part?

  /// One JWS: its header by reference, its claims, its signature.
  struct Part: Sendable, Equatable {
    /// SHA-256 of the header segment.
    var headerFingerprint: [UInt8]
    /// The header segment as it came, base64url.
    var headerSegment: [UInt8]
    /// The claims as signed, UTF-8 JSON.
    var claims: [UInt8]
    var signature: [UInt8]

    /// The JWS exactly as it came.
    var compactJWS: String {
      CompactJWS.join(headerSegment: headerSegment, payload: claims, signature: signature)
    }
  }

  /// Stands in the envelope's claims for the signed transaction. JSON cannot contain a bare U+0001.
  static let transactionMark: [UInt8] = [1, UInt8(ascii: "T"), 1]
  /// Stands in the envelope's claims for the signed renewal info.
  static let renewalMark: [UInt8] = [1, UInt8(ascii: "R"), 1]

  init(envelope: Part, transaction: Part?, renewalInfo: Part?) {
    self.envelope = envelope
    self.transaction = transaction
    self.renewalInfo = renewalInfo
  }

  /// Takes a verified notification apart.
  init(_ notification: VerifiedNotification) {
    envelope = Part(notification.envelope)
    // An inner JWS written with JSON escapes would not be found in the text; then it stays there, whole.
    if let signed = notification.transaction,
      let jws = notification.payload.data?.signedTransactionInfo,
      envelope.claims.replaceOnce(Array(jws.utf8), with: Self.transactionMark)
    {
      transaction = Part(signed)
    }
    if let signed = notification.renewalInfo,
      let jws = notification.payload.data?.signedRenewalInfo,
      envelope.claims.replaceOnce(Array(jws.utf8), with: Self.renewalMark)
    {
      renewalInfo = Part(signed)
    }
  }

  /// The notification exactly as it was posted: the value of `signedPayload`.
  var signedPayload: String {
    var whole = envelope
    if let transaction {
      whole.claims.replaceOnce(Self.transactionMark, with: Array(transaction.compactJWS.utf8))
    }
    if let renewalInfo {
      whole.claims.replaceOnce(Self.renewalMark, with: Array(renewalInfo.compactJWS.utf8))
    }
    return whole.compactJWS
  }

  var parts: [Part] { [envelope] + [transaction, renewalInfo].compactMap(\.self) }
}

extension KeptPayload.Part {
  init<Payload>(_ signed: Signed<Payload>) {
    self.init(
      headerFingerprint: signed.chain.fingerprint, headerSegment: signed.chain.headerSegment,
      claims: signed.payloadBytes, signature: signed.signature)
  }
}

extension [UInt8] {
  /// Replaces the first occurrence.
  /// - Returns: whether there was one.
  @discardableResult
  fileprivate mutating func replaceOnce(_ needle: [UInt8], with replacement: [UInt8]) -> Bool {
    guard let start = firstIndex(of: needle) else { return false }
    replaceSubrange(start..<start + needle.count, with: replacement)
    return true
  }

  /// Where `needle` begins. What Foundation has for it takes a thousand times as long on 13 kB.
  private func firstIndex(of needle: [UInt8]) -> Int? {
    withUnsafeBytes { hay in
      needle.withUnsafeBytes { needle in
        guard let base = hay.baseAddress, let sought = needle.baseAddress else { return nil }
        let last = hay.count - needle.count
        var position = 0
        while position <= last {
          guard let found = memchr(base + position, Int32(needle[0]), last - position + 1) else { return nil }
          position = UnsafeRawPointer(found) - base
          if memcmp(found, sought, needle.count) == 0 { return position }
          position += 1
        }
        return nil
      }
    }
  }
}
