import Configuration
import Foundation
import JSON
import Postgres
import Subscriptions

/// A notification of the App Store on its way to the app's second server.
struct ForwardedNotification: Sendable {
  /// Apple's `notificationUUID`, or the UUID made of it.
  var uuid: UUID
  /// Exactly as the App Store posted it. Never log it: it names a customer.
  var signedPayload: String
}

extension ForwardedNotification: JSONWritable {
  /// The body that the App Store posts.
  func write(to json: inout JSONWriter) {
    json.object { $0.member("signedPayload", signedPayload) }
  }
}

/// The outbox rows of forwarded notifications.
enum ForwardedNotificationRows {
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
