import Foundation

/// A JWS in compact serialization (RFC 7515, section 7.1), split and decoded but not verified.
///
/// The decoding is strict, so `join` rebuilds the exact text from header segment, payload and signature.
public struct CompactJWS: Sendable {
  /// The bound of a JWS in bytes. A notification with both inner JWS has about 13 kB.
  public static let maximumLength = 128 * 1024

  /// The text before the first dot: base64url of the header.
  public var headerSegment: ArraySlice<UInt8> { text[..<headerEnd] }
  /// The decoded payload.
  public let payload: [UInt8]
  /// The decoded signature.
  public let signature: [UInt8]

  /// The text between the dots: base64url of the payload.
  var payloadSegment: ArraySlice<UInt8> { text[(headerEnd + 1)..<payloadEnd] }

  private let text: [UInt8]
  private let headerEnd: Int
  private let payloadEnd: Int

  /// Splits and decodes a text.
  public init(_ text: String) throws(VerificationFailure) {
    // Checked before the copy, so that a long text costs nothing.
    guard text.utf8.count <= Self.maximumLength else { throw .tooLong }
    try self.init(Array(text.utf8))
  }

  /// Splits and decodes a text given as bytes.
  public init(_ text: [UInt8]) throws(VerificationFailure) {
    guard text.count <= Self.maximumLength else { throw .tooLong }
    guard let headerEnd = text.firstIndex(ofDotFrom: 0),
      let payloadEnd = text.firstIndex(ofDotFrom: headerEnd + 1)
    else { throw .init(.malformed, "a JWS has three segments separated by dots") }
    // A third dot makes the signature segment invalid base64url.
    guard let payload = Base64.decode(text[(headerEnd + 1)..<payloadEnd], .url) else {
      throw .init(.malformed, "the payload segment is not strict base64url")
    }
    guard let signature = Base64.decode(text[(payloadEnd + 1)...], .url) else {
      throw .init(.malformed, "the signature segment is not strict base64url")
    }
    self.text = text
    self.headerEnd = headerEnd
    self.payloadEnd = payloadEnd
    self.payload = payload
    self.signature = signature
  }

  /// Rebuilds the text of a JWS.
  ///
  /// - Parameters:
  ///   - headerSegment: base64url of the header.
  ///   - payload: the payload, decoded.
  ///   - signature: the signature, decoded: for ES256, 64 bytes (RFC 7518, section 3.4).
  public static func join(headerSegment: [UInt8], payload: [UInt8], signature: [UInt8]) -> String {
    let dot = [UInt8(ascii: ".")]
    let text = headerSegment + dot + Base64.encode(payload, .url) + dot + Base64.encode(signature, .url)
    return String(decoding: text, as: UTF8.self)
  }
}

extension VerificationFailure {
  fileprivate static var tooLong: Self {
    .init(.malformed, "a JWS of more than \(CompactJWS.maximumLength) bytes is too long")
  }
}

extension [UInt8] {
  // memchr compares many bytes at a time, and segments are thousands of bytes long.
  fileprivate func firstIndex(ofDotFrom start: Int) -> Int? {
    withUnsafeBytes { bytes in
      guard let base = bytes.baseAddress, start < bytes.count,
        let dot = memchr(base + start, CInt(UInt8(ascii: ".")), bytes.count - start)
      else { return nil }
      return UnsafeRawPointer(dot) - base
    }
  }
}

/// The header of a JWS in Apple's form, with all checks that need no cryptography.
struct JWSHeader {
  /// Leaf and intermediate as DER. The third certificate is ignored: the sender chose it, and only the configured roots
  /// are trusted. A header of Xcode has one certificate.
  let leaf: [UInt8]
  let intermediate: [UInt8]?

  init(segment: ArraySlice<UInt8>) throws(VerificationFailure) {
    guard let json = Base64.decode(segment, .url) else {
      throw .init(.malformed, "the header segment is not strict base64url")
    }
    let fields: Fields
    do {
      fields = try JSONDecoder().decode(Fields.self, from: Data(json))
    } catch {
      throw .init(.malformed, "the header is not a JSON object with a string alg and an array x5c of strings")
    }
    guard fields.alg == "ES256" else {
      throw .init(.unsupportedAlgorithm, "alg is not ES256, the only algorithm that the App Store uses")
    }
    guard !fields.hasCritical else {
      throw .init(.criticalHeader, "the header has crit, which the App Store does not use")
    }
    let certificates = fields.x5c ?? []
    guard certificates.count == 3 || certificates.count == 1 else {
      throw .init(.certificateCount, "x5c holds \(certificates.count) certificates instead of 3")
    }
    leaf = try Self.der(certificates[0], "leaf")
    guard certificates.count == 3 else {
      intermediate = nil
      return
    }
    intermediate = try Self.der(certificates[1], "intermediate")
    _ = try Self.der(certificates[2], "third")
  }

  private static func der(_ text: String, _ which: String) throws(VerificationFailure) -> [UInt8] {
    guard let der = Base64.decode(text, .standard) else {
      throw .init(.certificateMalformed, "the \(which) certificate in x5c is not strict base64")
    }
    return der
  }

  private struct Fields: Decodable {
    let alg: String?
    let x5c: [String]?
    let hasCritical: Bool

    enum CodingKeys: String, CodingKey { case alg, x5c, crit }

    init(from decoder: any Decoder) throws {
      let fields = try decoder.container(keyedBy: CodingKeys.self)
      alg = try fields.decodeIfPresent(String.self, forKey: .alg)
      x5c = try fields.decodeIfPresent([String].self, forKey: .x5c)
      // Its presence alone is an error.
      hasCritical = fields.contains(.crit)
    }
  }
}
