import FoundationEssentials
import Postgres

/// The table `notifications`.
enum NotificationRows {
  /// Which of these are there already.
  static func existing(_ uuids: [UUID]) -> Query {
    "SELECT notification_uuid FROM notifications WHERE notification_uuid = ANY(\(uuids))"
  }

  /// A notification, what came of it, and the headers that it refers to.
  struct NewRow: Sendable {
    var notification: KeptNotification
    var originalTransactionID: String?
    /// The word for the column `outcome`.
    var outcome: String
    /// Whether it took effect; else it waits for a replay.
    var isProcessed: Bool
    /// The row's ids of the headers of its parts.
    var headerIDs: JWSHeaderIDs
  }

  static func insert(_ rows: [NewRow]) -> Query {
    let kept = rows.map(\.notification)
    let processedAt = rows.map { $0.isProcessed ? $0.notification.receivedAt : nil }
    return """
      INSERT INTO notifications (notification_uuid, type, subtype, bundle_id, environment,
        original_transaction_id, signed_at, received_at, processed_at, outcome,
        envelope_header, envelope_claims, envelope_signature,
        transaction_header, transaction_claims, transaction_signature,
        renewal_header, renewal_claims, renewal_signature)
      SELECT * FROM unnest(
        \(kept.map(\.uuid))::uuid[], \(kept.map(\.type))::text[], \(kept.map(\.subtype))::text[],
        \(kept.map(\.bundleID))::text[], \(kept.map(\.environment))::text[],
        \(rows.map(\.originalTransactionID))::text[], \(kept.map(\.signedAt))::timestamptz[],
        \(kept.map(\.receivedAt))::timestamptz[], \(processedAt)::timestamptz[],
        \(rows.map(\.outcome))::text[],
        \(rows.map { $0.headerIDs[$0.notification.payload.envelope] })::integer[],
        \(kept.map { text($0.payload.envelope.claims) })::text[],
        \(kept.map { $0.payload.envelope.signature })::bytea[],
        \(rows.map { row in row.notification.payload.transaction.flatMap { row.headerIDs[$0] } })::integer[],
        \(kept.map { $0.payload.transaction.map { text($0.claims) } })::text[],
        \(kept.map { $0.payload.transaction?.signature })::bytea[],
        \(rows.map { row in row.notification.payload.renewalInfo.flatMap { row.headerIDs[$0] } })::integer[],
        \(kept.map { $0.payload.renewalInfo.map { text($0.claims) } })::text[],
        \(kept.map { $0.payload.renewalInfo?.signature })::bytea[])
      ON CONFLICT (notification_uuid) DO NOTHING
      """
  }

  /// Claims were decoded as JSON before, so they are UTF-8.
  private static func text(_ claims: [UInt8]) -> String { String(decoding: claims, as: UTF8.self) }
}
