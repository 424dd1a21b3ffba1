import Foundation

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
