import AppStore
import FoundationEssentials
import Postgres

/// The table `notifications`.
enum NotificationRows {
  /// Which of these are there already.
  ///
  /// What is there may be there alone: when the wait for a synchronous standby was cut short, the primary has
  /// committed and the standby has not. A transaction that writes nothing would not wait for it either, and to answer
  /// a repetition 200 would be a promise that a failover breaks. So where there is a synchronous standby, what is
  /// found makes this transaction write a message to the log that nobody reads, and its commit waits until
  /// the standby has all that was written before. It costs nothing where nothing is found or nobody is waited for.
  ///
  /// `signedDate` stays the same when the App Store posts again, so where the table is divided into months only theirs
  /// are looked into. Not where the App Store says nothing of the kind: one that was read from its history, and one
  /// in which we find no date, is looked for in all.
  static func existing(_ notifications: [KeptNotification]) -> Query {
    let staysPut = notifications.allSatisfy { $0.isDated && $0.source == .webhook }
    let first = staysPut ? notifications.map(\.signedAt).min() : nil
    let last = staysPut ? notifications.map(\.signedAt).max() : nil
    return """
      SELECT notification_uuid, CASE WHEN current_setting('synchronous_standby_names') <> ''
        THEN pg_logical_emit_message(true, 'receiptd', '') END
      FROM notifications WHERE notification_uuid = ANY(\(notifications.map { $0.uuid }))
        AND signed_at BETWEEN coalesce(\(first)::timestamptz, '-infinity')
          AND coalesce(\(last)::timestamptz, 'infinity')
      """
  }

  /// A notification, what came of it, and the headers that it refers to.
  struct NewRow: Sendable {
    var notification: KeptNotification
    var originalTransactionID: String?
    /// The word for the column `outcome`.
    var outcome: String
    /// Whether it took effect; else it waits for a replay.
    var isProcessed: Bool
  }

  /// Without a target of the conflict: where the table is divided into months, each month's own key is meant.
  ///
  /// Where one of the headers is not in its table under the id that is remembered, the statement fails
  /// (``PostgresError/isOfHeaders``): it is not the table that the id was read from.
  static func insert(_ rows: [NewRow], headers: JWSHeaderIDs) -> Query {
    let kept = rows.map(\.notification)
    let used = Array(headers.byFingerprint)
    let processedAt = rows.map { $0.isProcessed ? $0.notification.receivedAt : nil }
    return """
      INSERT INTO notifications (notification_uuid, type, subtype, bundle_id, environment,
        original_transaction_id, signed_at, received_at, processed_at, outcome,
        envelope_header, envelope_claims, envelope_signature,
        transaction_header, transaction_claims, transaction_signature,
        renewal_header, renewal_claims, renewal_signature, source)
      SELECT notification_uuid, type, subtype, bundle_id, environment,
        original_transaction_id, signed_at, received_at, processed_at, outcome,
        CASE WHEN (
          SELECT count(*) = cardinality(\(used.map { $0.value })::integer[])
          FROM unnest(\(used.map { $0.value })::integer[], \(used.map { $0.key })::bytea[]) AS used (id, sha256)
          JOIN jws_headers AS header ON header.id = used.id AND header.sha256 = used.sha256
        ) THEN envelope_header END, envelope_claims, envelope_signature,
        transaction_header, transaction_claims, transaction_signature,
        renewal_header, renewal_claims, renewal_signature, source
      FROM \(rows: rows.count)
        \(each: kept.map { $0.uuid }), \(each: kept.map { $0.type }), \(each: kept.map { $0.subtype }),
        \(each: kept.map { $0.bundleID }), \(each: kept.map { $0.environment }),
        \(each: rows.map { $0.originalTransactionID }), \(each: kept.map { $0.signedAt }),
        \(each: kept.map { $0.receivedAt }), \(each: processedAt),
        \(each: rows.map { $0.outcome }),
        \(each: kept.map { headers[$0.payload.envelope] }),
        \(each: kept.map { UTF8Text($0.payload.envelope.claims) }),
        \(each: kept.map { $0.payload.envelope.signature }),
        \(each: kept.map { $0.payload.transaction.flatMap { headers[$0] } }),
        \(each: kept.map { $0.payload.transaction.map { UTF8Text($0.claims) } }),
        \(each: kept.map { $0.payload.transaction?.signature }),
        \(each: kept.map { $0.payload.renewalInfo.flatMap { headers[$0] } }),
        \(each: kept.map { $0.payload.renewalInfo.map { UTF8Text($0.claims) } }),
        \(each: kept.map { $0.payload.renewalInfo?.signature }),
        \(each: kept.map { $0.source.rawValue })))
      AS new (notification_uuid, type, subtype, bundle_id, environment,
        original_transaction_id, signed_at, received_at, processed_at, outcome,
        envelope_header, envelope_claims, envelope_signature,
        transaction_header, transaction_claims, transaction_signature,
        renewal_header, renewal_claims, renewal_signature, source)
      ON CONFLICT DO NOTHING
      """
  }

  /// Writes why parts of new notifications failed. A statement of its own, since hardly any notification has one.
  static func explain(_ notifications: [KeptNotification]) -> Query {
    """
    UPDATE notifications SET failure = why.failure, failure_detail = why.detail
    FROM unnest(\(notifications.map(\.uuid))::uuid[],
      \(notifications.map { $0.failure?.code.rawValue })::text[],
      \(notifications.map { $0.failure?.description })::text[]) AS why (uuid, failure, detail)
    WHERE notification_uuid = why.uuid AND processed_at IS NULL
    """
  }

  /// Writes what came of processing a kept notification once more. What took effect before has done so for
  /// good; then only the attempt is noted.
  static func markReplayed(
    _ notification: KeptNotification, originalTransactionID: String?, outcome: String, isProcessed: Bool,
    at instant: Date
  ) -> Query {
    """
    UPDATE notifications SET replayed_at = \(instant),
      type = \(notification.type), subtype = \(notification.subtype)::text,
      bundle_id = \(notification.bundleID)::text, environment = \(notification.environment)::text,
      original_transaction_id = coalesce(\(originalTransactionID)::text, original_transaction_id),
      outcome = CASE WHEN processed_at IS NULL THEN \(outcome) ELSE outcome END,
      failure = CASE WHEN processed_at IS NULL THEN \(notification.failure?.code.rawValue)::text END,
      failure_detail = CASE WHEN processed_at IS NULL THEN \(notification.failure?.description)::text END,
      processed_at = coalesce(processed_at, CASE WHEN \(isProcessed) THEN \(instant)::timestamptz END)
    WHERE notification_uuid = \(notification.uuid)
    """
  }

  /// A kept notification's parts, with their headers.
  static func payload(of uuid: UUID) -> Query {
    """
    SELECT eh.header, eh.sha256, n.envelope_claims, n.envelope_signature,
      th.header, th.sha256, n.transaction_claims, n.transaction_signature,
      rh.header, rh.sha256, n.renewal_claims, n.renewal_signature
    FROM notifications n
    JOIN jws_headers eh ON eh.id = n.envelope_header
    LEFT JOIN jws_headers th ON th.id = n.transaction_header
    LEFT JOIN jws_headers rh ON rh.id = n.renewal_header
    WHERE n.notification_uuid = \(uuid)
    """
  }

  static func decodePayload(_ row: Row) throws -> KeptPayload {
    guard let envelope = try part(row, at: 0) else { throw UnreadableRow(column: "envelope_header") }
    return KeptPayload(
      envelope: envelope, transaction: try part(row, at: 4), renewalInfo: try part(row, at: 8))
  }

  private static func part(_ row: Row, at column: Int) throws -> KeptPayload.Part? {
    guard let header = try row.decode(column, as: String?.self) else { return nil }
    return KeptPayload.Part(
      headerFingerprint: try row.decode(column + 1), headerSegment: Array(header.utf8),
      claims: Array(try row.decode(column + 2, as: String.self).utf8),
      signature: try row.decode(column + 3))
  }

  /// Where a page of notifications that wait ended.
  struct Place: Sendable {
    var receivedAt: Date
    var uuid: UUID

    /// Before the first page.
    static let start = Place(
      receivedAt: .distantPast, uuid: UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)))
  }

  /// Notifications that wait for a replay and may need no longer, oldest first; not those of unknown apps.
  /// - Parameter last: the last one of the page before.
  static func waiting(_ turn: Replay.Turn, after last: Place, limit: Int) -> Query {
    // A fault of the notification's own is looked at only where a start may have cured it.
    let (outcome, curable): (KeptNotification.Obstacle?, Set<VerificationFailure.Code>) =
      switch turn {
      case .start: (nil, VerificationFailure.Code.curable)
      case .failed: (.failed, [])
      }
    // The word stands in the statement, since a partial index is chosen by it.
    return """
      SELECT received_at, notification_uuid FROM notifications
      WHERE processed_at IS NULL AND outcome <> 'unknown_app'
        AND outcome = coalesce(\(outcome?.rawValue)::text, outcome)
        AND (failure IS NULL OR failure = ANY(\(curable.map(\.rawValue).sorted())))
        AND (received_at, notification_uuid) > (\(last.receivedAt)::timestamptz, \(last.uuid)::uuid)
      ORDER BY received_at, notification_uuid LIMIT \(limit)
      """
  }

  /// Notifications that came when their app was unknown, oldest first.
  static func waiting(forApp bundleID: String, after last: Place, limit: Int) -> Query {
    """
    SELECT received_at, notification_uuid FROM notifications
    WHERE processed_at IS NULL AND outcome = 'unknown_app' AND bundle_id = \(bundleID)
      AND (received_at, notification_uuid) > (\(last.receivedAt)::timestamptz, \(last.uuid)::uuid)
    ORDER BY received_at, notification_uuid LIMIT \(limit)
    """
  }
}

extension PostgresError {
  /// A header that a notification refers to is not, or not any more, what it was when its id was read. (Where the table
  /// is divided into months, the table that the error names is a month.)
  var isOfHeaders: Bool { sqlState == "23502" && report?.column == "envelope_header" }
}
