import Foundation
import Postgres
import Subscriptions

/// The table `store_orders`.
enum OrderRows {
  static func transactions(of orderID: String) -> Query {
    "SELECT transaction_id FROM store_orders WHERE order_id = \(orderID) ORDER BY transaction_id"
  }

  /// Keeps the transactions of an order.
  static func insert(_ transactions: [TransactionRecord], of orderID: String, at instant: Date) -> Query {
    let facts = transactions.map(\.fact)
    return """
      INSERT INTO store_orders
        (order_id, transaction_id, original_transaction_id, bundle_id, environment, looked_up_at)
      SELECT \(orderID)::text, sent.*, \(instant)::timestamptz FROM unnest(
        \(facts.map(\.transactionID))::text[], \(facts.map(\.originalTransactionID))::text[],
        \(facts.map(\.bundleID))::text[], \(facts.map(\.environment.rawValue))::text[]) AS sent
      ON CONFLICT DO NOTHING
      """
  }
}
