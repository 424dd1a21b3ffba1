/// The result of ``SupportDesk/transfer(_:to:by:)``.
public struct TransferResult: Encodable, Sendable, CustomStringConvertible {
  /// The purchase.
  let originalTransactionID: String
  /// The app.
  let bundleID: String
  /// The previous owner; `null` if there was none.
  @Nullable var from: String?
  /// The owner.
  let to: String
  /// Whether this call changed something.
  let isChanged: Bool

  init(originalTransactionID: String, bundleID: String, from: String?, to customer: String, isChanged: Bool) {
    self.originalTransactionID = originalTransactionID
    self.bundleID = bundleID
    self.from = from
    to = customer
    self.isChanged = isChanged
  }

  /// One line.
  public var description: String {
    isChanged
      ? "\(originalTransactionID): transferred \(from.map { "from \($0) " } ?? "")to \(to)"
      : "\(originalTransactionID): already belongs to \(to)"
  }
}
