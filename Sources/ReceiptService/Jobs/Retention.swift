/// The number of whole months of each table to keep besides the current one; `nil` keeps all.
public struct Retention: Sendable, Equatable {
  /// `NOTIFICATION_RETENTION_MONTHS`
  public var notifications: Int?
  /// `TRANSACTION_RETENTION_MONTHS`
  public var transactions: Int?

  subscript(table: RetainedTable) -> Int? {
    switch table {
    case .notifications: notifications
    case .transactions: transactions
    }
  }
}
