import AppStore
import Foundation
import Postgres

/// A signed notification split into parts, from which the exact original text can be restored.
///
/// A notification has 13 kB, of which 12 kB are three copies of the same certificates and nested base64. Stored are the
/// claims as text, the signatures, and references to headers.
package struct KeptPayload: Sendable, Equatable {
  var envelope: Part
  package var transaction: Part?
  package var renewalInfo: Part?

  /// One JWS, split into header, claims and signature.
  package struct Part: Sendable, Equatable {
    /// SHA-256 of the header segment.
    var headerFingerprint: [UInt8]
    /// The header segment as received, base64url.
    package var headerSegment: [UInt8]
    /// The claims as signed, UTF-8 JSON.
    package var claims: [UInt8]
    package var signature: [UInt8]

    /// The JWS exactly as received.
    package var compactJWS: String {
      CompactJWS.join(headerSegment: headerSegment, payload: claims, signature: signature)
    }
  }

  /// The placeholder of the signed transaction in the envelope's claims. JSON text cannot contain a bare U+0001.
  static let transactionMark: [UInt8] = [1, UInt8(ascii: "T"), 1]
  /// The placeholder of the signed renewal info in the envelope's claims.
  static let renewalMark: [UInt8] = [1, UInt8(ascii: "R"), 1]

}

extension KeptPayload {
  /// Splits a verified notification.
  package init(_ notification: VerifiedNotification) {
    envelope = Part(notification.envelope)
    // An inner JWS that contains JSON escapes is not found in the text; then it stays in the envelope.
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

  /// The notification exactly as posted: the value of `signedPayload`.
  package var signedPayload: String {
    var whole = envelope
    if let transaction {
      whole.claims.replaceOnce(Self.transactionMark, with: Array(transaction.compactJWS.utf8))
    }
    if let renewalInfo {
      whole.claims.replaceOnce(Self.renewalMark, with: Array(renewalInfo.compactJWS.utf8))
    }
    return whole.compactJWS
  }

  /// Whether ``ImpersonalFacts`` removed the payload.
  package var isErased: Bool { envelope.signature.isEmpty }

  package var parts: [Part] { [envelope] + [transaction, renewalInfo].compactMap(\.self) }
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

  /// The index of the first occurrence. Foundation's search takes a thousand times as long for 13 kB.
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

extension KeptPayload {
  /// Decodes a row of ``NotificationRows/payload(of:)``.
  package init(_ row: Row) throws {
    guard let envelope = try Part(row, "envelope") else { throw UnreadableRow(column: "envelope_header") }
    self.init(
      envelope: envelope, transaction: try Part(row, "transaction"), renewalInfo: try Part(row, "renewal"))
  }
}

extension KeptPayload.Part {
  /// - Parameter prefix: of the names of the part's columns.
  /// - Returns: `nil` if the notification has no such part.
  fileprivate init?(_ row: Row, _ prefix: String) throws {
    guard let header = try row.decode("\(prefix)_header", as: String?.self) else { return nil }
    self.init(
      headerFingerprint: try row.decode("\(prefix)_sha256"), headerSegment: Array(header.utf8),
      claims: Array(try row.decode("\(prefix)_claims", as: String.self).utf8),
      signature: try row.decode("\(prefix)_signature"))
  }
}
