import Glibc

/// A notification's payload without the headers of the JWS in it.
///
/// Two thirds of a notification are the same certificates again and again: in its own header, and in those of
/// the transaction and renewal info within its payload. Storage keeps each header once, by its fingerprint,
/// and of each notification this, its own header's fingerprint and its signature. `expand` makes the payload
/// again, byte for byte, and `CompactJWS.join` the text that the App Store posted.
public struct CondensedPayload: Sendable {
  /// The payload, with a zero byte and the 32 bytes of the fingerprint in place of each header.
  public let bytes: [UInt8]
  /// The headers left out, each once.
  public let headers: [VerifiedChain]

  // No JSON text has a zero byte (RFC 8259, section 7).
  private static let mark: UInt8 = 0
  private static let fingerprintLength = 32

  /// Nil for a payload that has the mark itself, which no JSON has.
  init?(_ payload: [UInt8], leavingOut chains: [VerifiedChain]) {
    guard !payload.contains(Self.mark) else { return nil }
    var headers: [VerifiedChain] = []
    for chain in chains where !headers.contains(where: { $0.fingerprint == chain.fingerprint }) {
      headers.append(chain)
    }
    bytes = headers.reduce(payload) { $0.replacing($1.headerSegment, by: [Self.mark] + $1.fingerprint) }
    self.headers = headers
  }

  /// The payload that was condensed; nil if a header is missing, or the bytes are not a condensed payload.
  ///
  /// - Parameter header: gives the header segment of a fingerprint.
  public static func expand(
    _ bytes: [UInt8], header: (_ fingerprint: [UInt8]) throws -> [UInt8]?
  ) rethrows -> [UInt8]? {
    var payload: [UInt8] = []
    var rest = bytes[...]
    while let mark = rest.firstIndex(of: Self.mark) {
      let fingerprint = rest[(mark + 1)...].prefix(fingerprintLength)
      guard fingerprint.count == fingerprintLength, let segment = try header(Array(fingerprint)) else {
        return nil
      }
      payload += rest[..<mark]
      payload += segment
      rest = rest[fingerprint.endIndex...]
    }
    return payload + rest
  }
}

extension VerifiedNotification {
  /// The payload without the headers of the JWS in it; nil if it cannot be condensed, because it has zero bytes.
  public var condensedPayload: CondensedPayload? {
    CondensedPayload(
      envelope.payloadBytes,
      leavingOut: [transaction?.chain, renewalInfo?.chain, appTransaction?.chain].compactMap(\.self))
  }
}

extension [UInt8] {
  // memchr and memcmp look for 4 kB in 10 kB in a few microseconds, the generic search in a few hundred.
  fileprivate func replacing(_ part: [UInt8], by other: [UInt8]) -> [UInt8] {
    guard let first = part.first else { return self }
    var result: [UInt8] = []
    var copied = 0
    withUnsafeBytes { bytes in
      var place = 0
      while let base = bytes.baseAddress, place + part.count <= bytes.count,
        let found = memchr(base + place, CInt(first), bytes.count - part.count - place + 1)
      {
        place = UnsafeRawPointer(found) - base
        if memcmp(found, part, part.count) == 0 {
          result += bytes[copied..<place]
          result += other
          place += part.count
          copied = place
        } else {
          place += 1
        }
      }
      result += bytes[copied...]
    }
    return result
  }
}
