import FoundationEssentials
import Postgres
import Subscriptions

/// The table `purchase_devices`: which devices have a purchase at once, in apps that share purchases.
enum HolderRows {
  /// Everybody who has these purchases, or may not have them any more.
  static func select(_ originalTransactionIDs: [String]) -> Query {
    """
    SELECT original_transaction_id, device_id, since, proved_at, is_barred FROM purchase_devices
    WHERE original_transaction_id = ANY(\(originalTransactionIDs))
    ORDER BY original_transaction_id, since, device_id
    """
  }

  static func decode(_ row: Row) throws -> (originalTransactionID: String, holder: Holder) {
    let holder = Holder(
      try row.decode(1), since: try row.decode(2), provedAt: try row.decode(3), isBarred: try row.decode(4))
    return (try row.decode(0), holder)
  }

  /// Writes who has these purchases in place of who had them. The transaction holds the purchases' locks.
  static func replace(_ purchases: [StoredSubscription]) -> [Query] {
    let rows = purchases.flatMap { stored in stored.holders.map { (stored: stored, holder: $0) } }
    let ids = rows.map(\.stored.originalTransactionID)
    let devices = rows.map(\.holder.deviceID)
    return [
      """
      DELETE FROM purchase_devices AS old
      WHERE old.original_transaction_id = ANY(\(purchases.map(\.originalTransactionID)))
        AND NOT EXISTS (
          SELECT FROM unnest(\(ids)::text[], \(devices)::text[]) AS new (original_transaction_id, device_id)
          WHERE new.original_transaction_id = old.original_transaction_id AND new.device_id = old.device_id)
      """,
      """
      INSERT INTO purchase_devices
        (original_transaction_id, device_id, bundle_id, since, proved_at, is_barred)
      SELECT new.* FROM \(rows: rows.count)
        \(each: ids), \(each: devices), \(each: rows.map(\.stored.bundleID)),
        \(each: rows.map(\.holder.since)), \(each: rows.map(\.holder.provedAt)),
        \(each: rows.map(\.holder.isBarred)))) AS new
      ON CONFLICT (original_transaction_id, device_id) DO UPDATE SET
        since = excluded.since, proved_at = excluded.proved_at, is_barred = excluded.is_barred
      """,
    ]
  }
}
