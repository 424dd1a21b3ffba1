import Foundation
import SwiftASN1

/// A legacy app receipt: the file that StoreKit 1 keeps beside an app, formerly the input of Apple's verifyReceipt.
///
/// Its signature is not checked. Only transaction ids are taken from it, which a client could also send bare; the facts
/// about them come signed from the App Store Server API.
public struct AppReceipt: Hashable, Sendable {
  /// The reasons why a receipt cannot be read.
  public enum Failure: Error, Hashable, Sendable {
    /// The text is not base64.
    case notBase64
    /// The receipt is longer than `maximumLength`.
    case tooLong
    /// The bytes are not a PKCS #7 container with a receipt's attributes. The text names the missing part.
    case notAReceipt(String)
  }

  /// The bound of a receipt in bytes. A purchase takes about 400.
  public static let maximumLength = 1 << 20
  /// The bound of the purchases that are read. A monthly subscription has twelve a year.
  static let maximumPurchases = 2048

  /// The app (attribute 2).
  public let bundleID: String
  /// The purchases (attributes 17), unordered and without those that have no usable transaction id.
  public let purchases: [ReceiptPurchase]

  /// Reads a receipt from base64, with or without line breaks.
  public init(base64 text: String) throws(Failure) {
    guard text.utf8.count <= Self.maximumLength * 3 / 2 else { throw .tooLong }
    let characters = text.utf8.filter { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") }
    guard !characters.isEmpty, let bytes = Base64.decode(characters, .standard) else { throw .notBase64 }
    try self.init(bytes)
  }

  /// Reads a receipt from its file's bytes.
  public init(_ bytes: [UInt8]) throws(Failure) {
    guard bytes.count <= Self.maximumLength else { throw .tooLong }
    let content: ArraySlice<UInt8>
    let attributes: [ReceiptAttribute]
    do { content = try SignedContent.content(of: bytes) } catch {
      throw .notAReceipt("no PKCS #7 signed data")
    }
    do { attributes = try ReceiptAttribute.attributes(in: content) } catch {
      throw .notAReceipt("no attributes")
    }
    guard let bundleID = attributes.first(where: { $0.type == 2 })?.text, !bundleID.isEmpty else {
      throw .notAReceipt("no bundle id")
    }
    self.bundleID = bundleID
    purchases = attributes.lazy.filter { $0.type == 17 }.prefix(Self.maximumPurchases)
      .compactMap { ReceiptPurchase($0.value) }
  }

  /// The purchases, the most informative first: not refunded before refunded; then subscriptions before purchases
  /// without expiry, because only subscriptions change; then by latest expiry or purchase. Ids break ties, so that one
  /// receipt always leads to the same request.
  public var purchasesByInterest: [ReceiptPurchase] {
    purchases.sorted { first, second in
      if first.isCancelled != second.isCancelled { return second.isCancelled }
      let (mine, theirs) = (first.expiresDate ?? .distantPast, second.expiresDate ?? .distantPast)
      if mine != theirs { return mine > theirs }
      if first.purchaseDate != second.purchaseDate {
        return first.purchaseDate ?? .distantPast > second.purchaseDate ?? .distantPast
      }
      return first.transactionID > second.transactionID
    }
  }
}

/// One purchase in a legacy app receipt.
public struct ReceiptPurchase: Hashable, Sendable {
  /// The product (1702).
  public let productID: String
  /// The transaction (1703).
  public let transactionID: String
  /// The first transaction of the same subscription, or the restored one (1705); the transaction itself if it is
  /// missing.
  public let originalTransactionID: String
  /// The time of the purchase or renewal (1704).
  public let purchaseDate: Date?
  /// The end of the period (1708); nil for other products than auto-renewable subscriptions.
  public let expiresDate: Date?
  /// Whether the purchase was refunded (1712).
  public let isCancelled: Bool

  /// - Returns: nil without a transaction id of 1 to 20 digits, because the store cannot be asked about it.
  init?(_ bytes: ArraySlice<UInt8>) {
    guard let attributes = try? ReceiptAttribute.attributes(in: bytes) else { return nil }
    // The first attribute of a type counts.
    func text(_ type: Int) -> String? { attributes.first { $0.type == type }?.text }
    let id = text(1703).flatMap(Self.transactionID)
    let original = text(1705).flatMap(Self.transactionID)
    guard let transactionID = id ?? original else { return nil }
    self.transactionID = transactionID
    originalTransactionID = original ?? transactionID
    productID = text(1702) ?? ""
    purchaseDate = text(1704).flatMap(Self.date)
    expiresDate = text(1708).flatMap(Self.date)
    isCancelled = text(1712).map { !$0.isEmpty } ?? false
  }

  private static func transactionID(_ text: String) -> String? { try? text.asTransactionID() }

  /// Parses RFC 3339 in UTC without fractions, the form in receipts.
  private static func date(_ text: String) -> Date? {
    guard text.utf8.count == 20 else { return nil }
    return try? Date(text, strategy: .iso8601)
  }
}

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
