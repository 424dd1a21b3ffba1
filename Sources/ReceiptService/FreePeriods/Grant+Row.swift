import Foundation
import Postgres
import Subscriptions

extension Grant {
  /// Decodes a row with the table's columns `id`, `tier`, `starts_at`, `ends_at` and `environment`.
  init(_ row: Row) throws {
    self.init(
      id: try row.decode("id"), tier: try row.decode("tier"), startsAt: try row.decode("starts_at"),
      endsAt: try row.decode("ends_at"),
      environment: try ReceiptService.environment(row.decode("environment")))
  }
}
