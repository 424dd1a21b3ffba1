import Configuration
import Customers
import Foundation
import Ledger
import Postgres
import Subscriptions

/// Queues what follows from a change of the ledger: lifecycle events, forwarded notifications, calls to the App Store.
package struct DeliveryEffect: LedgerEffect {
  let catalog: AppCatalog

  package init(catalog: AppCatalog) { self.catalog = catalog }

  package func follows(_ app: App) -> Bool { app.hasLifecycleEvents }

  package func statements(for changes: LedgerChanges) -> [Query] {
    let instant = changes.instant
    let events = changes.purchases.flatMap(\.events)
    let calls = changes.entries.compactMap { NewStoreCall($0.entry, $0.receipt) }
    return [
      LifecycleEventRows.insert(events, in: catalog, at: instant),
      ForwardedNotificationRows.insert(changes.notifications, in: catalog, at: instant),
      calls.isEmpty ? nil : StoreCallRows.insert(calls, at: instant),
    ].compactMap(\.self)
  }
}

/// The outbox rows of forwarded notifications.
private enum ForwardedNotificationRows {
  /// Queues new notifications of apps that have a second server. Runs in the transaction that writes the notifications.
  /// - Returns: `nil` if there are none.
  static func insert(_ notifications: [KeptNotification], in catalog: AppCatalog, at instant: Date) -> Query?
  {
    let rows = notifications.compactMap {
      notification -> (key: String, bundleID: String, endpoint: String)? in
      guard let bundleID = notification.bundleID, let endpoint = catalog[bundleID]?.forwardedNotifications
      else { return nil }
      return (notification.uuid.uuidString.lowercased(), bundleID, endpoint.name)
    }
    guard !rows.isEmpty else { return nil }
    return """
      INSERT INTO outbox (destination, key, bundle_id, endpoint, payload, created_at, next_attempt_at)
      SELECT \(OutboxDestination.Kind.notification.rawValue)::text, new.*, '{}', \(instant)::timestamptz,
        \(instant)::timestamptz
      FROM \(rows: rows.count) \(each: rows.map(\.key)), \(each: rows.map(\.bundleID)),
        \(each: rows.map(\.endpoint)))) AS new
      ORDER BY 1, 2, 3, 4
      ON CONFLICT (destination, key, bundle_id, endpoint) DO NOTHING
      """
  }
}
