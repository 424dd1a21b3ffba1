import FoundationEssentials

/// One purchase in a legacy app receipt.
public struct ReceiptPurchase: Hashable, Sendable {
  /// The product (1702).
  public let productID: String
  /// The transaction (1703).
  public let transactionID: String
  /// The first transaction of the same subscription, or the one that was restored (1705); the transaction itself
  /// where it is missing.
  public let originalTransactionID: String
  /// When it was bought or renewed (1704).
  public let purchaseDate: Date?
  /// When the period ends (1708); nil for what is no auto-renewable subscription.
  public let expiresDate: Date?
  /// Whether it was refunded (1712).
  public let isCancelled: Bool

  /// - Returns: nil for one whose transaction cannot be asked about, because it has no id of 1 to 20 digits.
  init?(_ bytes: ArraySlice<UInt8>) {
    guard let attributes = try? ReceiptAttribute.attributes(in: bytes) else { return nil }
    // Some thirty are known; the first of a type counts.
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

  /// RFC 3339 as the App Store writes it here: in UTC, without fractions.
  private static func date(_ text: String) -> Date? {
    guard text.utf8.count == 20 else { return nil }
    return try? Date(text, strategy: .iso8601)
  }
}
