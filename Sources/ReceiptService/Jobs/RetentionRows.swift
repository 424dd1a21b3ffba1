import Configuration
import Postgres

/// A table whose old rows are deleted.
enum RetainedTable: String, CaseIterable {
  case notifications
  case transactions
}

/// Calls of the functions that delete old rows. They run with the rights of the tables' owner.
enum RetentionRows {
  /// The result of one call.
  struct Step: Sendable {
    /// The number of deleted rows.
    var deleted: Int
    /// Whether no more rows are old enough now.
    var isDone: Bool

    init(_ row: Row) throws {
      deleted = try row.decode("deleted")
      isDone = try row.decode("is_done")
    }
  }

  /// Deletes a batch of rows that are older than this number of whole months.
  ///
  /// Notifications of apps that are not configured are deleted first, after 30 days, also if `months` is `nil`.
  static func forget(_ table: RetainedTable, months: Int?) -> Query {
    switch table {
    case .notifications:
      "SELECT deleted, is_done FROM receiptd_forget_notifications(\(months)::bigint::integer)"
    case .transactions:
      "SELECT deleted, is_done FROM receiptd_forget_transactions(\(months)::bigint::integer)"
    }
  }
}

extension Retention {
  /// The months to keep of a table.
  subscript(table: RetainedTable) -> Int? {
    switch table {
    case .notifications: notifications
    case .transactions: transactions
    }
  }
}
