import FoundationEssentials

/// What a legacy app receipt says of itself: the file that StoreKit 1 keeps beside an app, of which Apple's
/// verifyReceipt, now deprecated, used to be asked.
///
/// Its signature is not checked, on purpose. All that is taken from it is the id of a transaction, which anybody might
/// as well have sent bare; whatever is believed about that transaction comes from the App Store Server API, signed.
public struct AppReceipt: Hashable, Sendable {
  /// Why there is no receipt to read.
  public enum Failure: Error, Hashable, Sendable {
    /// The text is not base64.
    case notBase64
    /// It is longer than `maximumLength`.
    case tooLong
    /// The bytes are no PKCS #7 container with a receipt's attributes in it. The text says what is missing.
    case notAReceipt(String)
  }

  /// The longest receipt that is read, in bytes. A purchase takes some 400 of them.
  public static let maximumLength = 1 << 20
  /// The most purchases that are read; a monthly subscription has twelve a year.
  static let maximumPurchases = 2048

  /// The app (attribute 2).
  public let bundleID: String
  /// The purchases (attributes 17), in no order. Those without a usable transaction id are left out.
  public let purchases: [ReceiptPurchase]

  /// Reads a receipt as clients send it: base64, possibly in lines.
  public init(base64 text: String) throws(Failure) {
    guard text.utf8.count <= Self.maximumLength * 3 / 2 else { throw .tooLong }
    let characters = text.utf8.filter { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") }
    guard !characters.isEmpty, let bytes = Base64.decode(characters, .standard) else { throw .notBase64 }
    try self.init(bytes)
  }

  /// Reads the receipt's file.
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

  /// The purchases, the one that tells most about the customer first: what was not refunded before what was; then
  /// subscriptions before what does not expire, because only they change; then the latest to expire, or the latest
  /// bought. Ids break ties, so that the same receipt always asks the same.
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
