import SwiftASN1

/// One attribute of a receipt or of a purchase in it:
/// `SEQUENCE { type INTEGER, version INTEGER, value OCTET STRING }` ("Validating receipts on the device").
struct ReceiptAttribute {
  let type: Int
  /// The content of the OCTET STRING: ASN.1 again for all types that are read here.
  let value: ArraySlice<UInt8>

  /// Parses a `SET OF` attributes in BER. The parser bounds the depth.
  static func attributes(in bytes: ArraySlice<UInt8>) throws -> [ReceiptAttribute] {
    try BER.set(BER.parse(bytes), identifier: .set) { nodes in
      var attributes: [ReceiptAttribute] = []
      while let node = nodes.next() {
        // Skip types beyond all known ones.
        if let attribute = try attribute(node) { attributes.append(attribute) }
      }
      return attributes
    }
  }

  private static func attribute(_ node: ASN1Node) throws -> ReceiptAttribute? {
    try BER.sequence(node, identifier: .sequence) { fields in
      let type = try ArraySlice<UInt8>(berEncoded: &fields)
      _ = try ArraySlice<UInt8>(berEncoded: &fields)
      let value = try ASN1OctetString(berEncoded: &fields)
      guard let type = number(type) else { return nil }
      return ReceiptAttribute(type: type, value: value.bytes)
    }
  }

  private static func number(_ bigEndian: ArraySlice<UInt8>) -> Int? {
    guard bigEndian.count <= 4, let first = bigEndian.first, first < 0x80 else { return nil }
    return bigEndian.reduce(0) { $0 << 8 | Int($1) }
  }

  /// The value as UTF8String or IA5String; nil if it is neither.
  var text: String? {
    guard let node = try? BER.parse(value) else { return nil }
    switch node.identifier {
    case .utf8String:
      return (try? ASN1UTF8String(berEncoded: node)).flatMap { String(validating: $0.bytes, as: UTF8.self) }
    case .ia5String:
      return (try? ASN1IA5String(berEncoded: node)).flatMap { String(validating: $0.bytes, as: UTF8.self) }
    default: return nil
    }
  }
}
