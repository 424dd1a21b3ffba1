import SwiftASN1

/// A receipt's container: PKCS #7 signed data (RFC 5652, section 5) in BER, because older receipts have indefinite
/// lengths and constructed strings.
enum SignedContent {
  private static let signedData: ASN1ObjectIdentifier = [1, 2, 840, 113_549, 1, 7, 2]
  private static let data: ASN1ObjectIdentifier = [1, 2, 840, 113_549, 1, 7, 1]

  private struct OtherContent: Error {}

  /// Extracts the signed content; ignores certificates and signatures.
  static func content(of bytes: [UInt8]) throws -> ArraySlice<UInt8> {
    // ContentInfo ::= SEQUENCE { contentType OBJECT IDENTIFIER, content [0] EXPLICIT SignedData }
    let encapsulated = try contentInfo(BER.parse(bytes), signedData) { node in
      // SignedData ::= SEQUENCE { version, digestAlgorithms, encapContentInfo, … }
      try BER.sequence(node, identifier: .sequence) { fields in
        defer { while fields.next() != nil {} }
        guard fields.next() != nil, fields.next() != nil, let content = fields.next() else {
          throw OtherContent()
        }
        return content
      }
    }
    let octets = try contentInfo(encapsulated, data) { try ASN1OctetString(berEncoded: $0).bytes }
    // StoreKit testing in Xcode wraps the octets in a second OCTET STRING.
    guard octets.first == ASN1OctetString.octetStringTag, let inner = try? BER.parse(octets) else {
      return octets
    }
    return try ASN1OctetString(berEncoded: inner).bytes
  }

  /// Parses a content type and the content under tag [0].
  private static func contentInfo<Content>(
    _ node: ASN1Node, _ type: ASN1ObjectIdentifier, _ content: (ASN1Node) throws -> Content
  ) throws -> Content {
    try BER.sequence(node, identifier: .sequence) { fields in
      guard try ASN1ObjectIdentifier(berEncoded: &fields) == type else { throw OtherContent() }
      let found = try BER.optionalExplicitlyTagged(
        &fields, tagNumber: 0, tagClass: .contextSpecific, content)
      guard let found else { throw OtherContent() }
      return found
    }
  }
}

extension ASN1OctetString {
  fileprivate static let octetStringTag: UInt8 = 0x04
}
