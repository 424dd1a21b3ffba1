import Postgres
import Subscriptions

extension [Displaced] {
  /// Decodes the columns `displaced_device_id` and `next_displaced_device_id`, with their times, of a device in a
  /// purchase or a trial.
  init(row: Row) throws {
    self = []
    if let device = try row.decode("displaced_device_id", as: String?.self) {
      append(Displaced(device, at: try row.decode("displaced_at")))
    }
    if let device = try row.decode("next_displaced_device_id", as: String?.self) {
      append(Displaced(device, at: try row.decode("next_displaced_at")))
    }
  }
}

extension Holder {
  /// The device that stands in `displaced_device_id`.
  var firstDisplaced: Displaced? { displaced.first }
  /// The device that stands in `next_displaced_device_id`.
  var nextDisplaced: Displaced? { displaced.dropFirst().first }
}

/// The table `purchase_devices`: the devices that share a purchase, in apps that share purchases.
package enum HolderRows {
  /// The devices that share these purchases or are barred from them.
  package static func select(_ originalTransactionIDs: [String]) -> Query {
    """
    SELECT original_transaction_id, device_id, since, proved_at, is_barred, is_proven, displaced_device_id, displaced_at,
      next_displaced_device_id, next_displaced_at
    FROM purchase_devices
    WHERE original_transaction_id = ANY(\(originalTransactionIDs))
    ORDER BY original_transaction_id, since, device_id
    """
  }

  package static func decode(_ row: Row) throws -> (originalTransactionID: String, holder: Holder) {
    let holder = Holder(
      try row.decode("device_id"), since: try row.decode("since"), provedAt: try row.decode("proved_at"),
      isBarred: try row.decode("is_barred"), isProven: try row.decode("is_proven"),
      displaced: try [Displaced](row: row))
    return (try row.decode("original_transaction_id"), holder)
  }

  /// Writes the devices of these purchases that changed. The transaction holds the purchases' locks.
  package static func write(_ purchases: [HolderChanges]) -> [Query] {
    let gone = purchases.flatMap { purchase in purchase.gone.map { (purchase.originalTransactionID, $0) } }
    let rows = purchases.flatMap { purchase in purchase.changed.map { (purchase: purchase, holder: $0) } }
    var queries: [Query] = []
    if !gone.isEmpty {
      queries.append(
        """
        DELETE FROM purchase_devices AS old
        USING unnest(\(gone.map(\.0))::text[], \(gone.map(\.1))::text[]) AS gone (original_transaction_id, device_id)
        WHERE old.original_transaction_id = gone.original_transaction_id AND old.device_id = gone.device_id
        """)
    }
    if rows.isEmpty { return queries }
    queries.append(
      """
      INSERT INTO purchase_devices
        (original_transaction_id, device_id, bundle_id, since, proved_at, is_barred, is_proven, displaced_device_id,
          displaced_at, next_displaced_device_id, next_displaced_at)
      SELECT new.* FROM \(rows: rows.count)
        \(each: rows.map(\.purchase.originalTransactionID)), \(each: rows.map(\.holder.deviceID)),
        \(each: rows.map(\.purchase.bundleID)),
        \(each: rows.map(\.holder.since)), \(each: rows.map(\.holder.provedAt)),
        \(each: rows.map(\.holder.isBarred)), \(each: rows.map(\.holder.isProven)),
        \(each: rows.map(\.holder.firstDisplaced?.deviceID)), \(each: rows.map(\.holder.firstDisplaced?.at)),
        \(each: rows.map(\.holder.nextDisplaced?.deviceID)), \(each: rows.map(\.holder.nextDisplaced?.at)))) AS new
      ON CONFLICT (original_transaction_id, device_id) DO UPDATE SET
        since = excluded.since, proved_at = excluded.proved_at, is_barred = excluded.is_barred,
        is_proven = excluded.is_proven, displaced_device_id = excluded.displaced_device_id,
        displaced_at = excluded.displaced_at, next_displaced_device_id = excluded.next_displaced_device_id,
        next_displaced_at = excluded.next_displaced_at
      """)
    return queries
  }
}

/// What changes in `purchase_devices` with a purchase.
package struct HolderChanges: Sendable {
  let originalTransactionID: String
  let bundleID: String
  /// The devices that are new or have another row.
  let changed: [Holder]
  /// The devices whose rows go.
  let gone: [String]

  /// - Parameter stored: the rows of the purchase.
  package init(of purchase: StoredSubscription, from stored: [Holder]) {
    originalTransactionID = purchase.originalTransactionID
    bundleID = purchase.bundleID
    changed = purchase.holders.filter { !stored.contains($0) }
    gone = stored.map(\.deviceID).filter { device in !purchase.holders.contains { $0.deviceID == device } }
  }

  package var isEmpty: Bool { changed.isEmpty && gone.isEmpty }
}
