import Foundation
import Postgres
import Subscriptions

extension Trial {
  /// Decodes a row with the table's columns `started_at`, `ends_at` and `environment`.
  init(_ row: Row) throws {
    self.init(
      startedAt: try row.decode("started_at"), endsAt: try row.decode("ends_at"),
      environment: try ReceiptService.environment(row.decode("environment")))
  }
}
