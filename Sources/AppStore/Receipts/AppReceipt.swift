import Foundation

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
