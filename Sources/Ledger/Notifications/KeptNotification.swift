import AppStore
import Configuration
import Crypto
import Customers
import Foundation
import JSON
import Postgres
import Subscriptions
import Text

/// A notification as it is stored: columns for support, and the signed payload for a replay.
package struct KeptNotification: Sendable {
  package var uuid: UUID
  package var type: String
  package var subtype: String?
  package var bundleID: String?
  package var environment: String?
  package var signedAt: Date
  var receivedAt: Date
  package var source = Source.webhook
  /// Why it cannot be processed now; `nil` if it can.
  var pendingReason: PendingReason?
  /// The part that does not verify or cannot be decoded; the columns `failure` and `failure_detail`.
  package var failure: VerificationFailure?
  package var payload: KeptPayload

  /// How a notification reached the server; the values of the column `source`.
  package enum Source: String, Sendable {
    /// The App Store posted it.
    case webhook
    /// It was missed, and read from the App Store's notification history.
    case history
  }

  /// Why a notification is pending until a replay; values of the column `outcome`.
  enum PendingReason: String, Sendable {
    case unknownApp = "unknown_app"
    case unknownEnvironment = "unknown_environment"
    case unknownType = "unknown_type"
    case unknownProduct = "unknown_product"
    case failed
  }
}

extension VerificationFailure.Code {
  /// Failures that other root certificates or another version can cure. Both need a start or a reload.
  static let curable: Set<Self> = [.untrustedRoot, .malformedPayload, .unsupportedAlgorithm, .criticalHeader]
}

extension KeptNotification {
  /// Creates a row for a notification with a valid envelope signature that cannot be decoded, or has a part that does
  /// not verify. It is stored whole, with the values that can be decoded.
  ///
  /// The inner parts stay in the envelope: unverified headers must not enter `jws_headers`, which has no deletion.
  ///
  /// - Returns: `nil` for signed data that is not a notification.
  init?(
    unusable signedPayload: String, because failure: VerificationFailure, receivedAt: Date, source: Source
  ) {
    guard let jws = try? CompactJWS(signedPayload),
      let text = String(validating: jws.payload, as: UTF8.self), !text.utf8.contains(0)
    else { return nil }
    let claims = (try? JSONDecoder().decode([String: JSONValue].self, from: Data(jws.payload))) ?? [:]
    // The App Store signs other data too, such as other developers' transactions.
    guard claims["notificationUUID"] != nil || claims["notificationType"] != nil else { return nil }
    let data = claims.firstObject(of: ["data", "summary", "appData", "externalPurchaseToken"])
    let header = Array(jws.headerSegment)
    let signedAt = claims["signedDate"]?.date
    self.init(
      uuid: UUID(notificationUUID: claims["notificationUUID"]?.text ?? text),
      type: claims["notificationType"]?.text ?? "unreadable", subtype: claims["subtype"]?.text,
      bundleID: data["bundleId"]?.text, environment: data["environment"]?.text,
      signedAt: signedAt ?? receivedAt, receivedAt: receivedAt,
      source: source, pendingReason: .failed, failure: failure,
      payload: KeptPayload(
        envelope: KeptPayload.Part(
          headerFingerprint: Array(SHA256.hash(data: header)), headerSegment: header,
          claims: jws.payload, signature: jws.signature),
        transaction: nil, renewalInfo: nil))
  }
}

extension [String: JSONValue] {
  fileprivate func firstObject(of names: [String]) -> [String: JSONValue] {
    for name in names { if case .object(let members)? = self[name] { return members } }
    return [:]
  }
}

extension JSONValue {
  fileprivate var text: String? {
    if case .string(let text) = self { text.storable } else { nil }
  }

  /// Milliseconds since 1970, if PostgreSQL can hold them.
  fileprivate var date: Date? {
    guard case .integer(let milliseconds) = self, (0..<253_402_300_800_000).contains(milliseconds) else {
      return nil
    }
    return Date(timeIntervalSince1970: Double(milliseconds) / 1000)
  }
}

extension NotificationType {
  /// The types that this version handles. Notifications of other types are stored as pending, for a replay by a later
  /// version.
  static let supported: Set<NotificationType> = [
    .subscribed, .didChangeRenewalPref, .didChangeRenewalStatus, .offerRedeemed, .didRenew, .expired,
    .didFailToRenew, .gracePeriodExpired, .priceIncrease, .refund, .refundDeclined, .consumptionRequest,
    .renewalExtended, .revoke, .test, .renewalExtension, .refundReversed, .externalPurchaseToken,
    .oneTimeCharge, .rescindConsent, .metadataUpdate, .migration, .priceChange,
  ]
}

/// Statements on the table `notifications`.
package enum NotificationRows {
  /// Selects those of these notifications that are stored already, and whether their customer was erased.
  ///
  /// With a synchronous standby, a stored row may be missing on the standby, if an earlier wait for the standby was
  /// cancelled. A response 200 to the repeated notification would then be wrong after a failover. So this query writes
  /// a logical message to the WAL for each row that it finds: the commit waits until the standby has all WAL before it.
  /// Without a synchronous standby, or without a repeated notification, it costs nothing.
  static func existing(_ notifications: [KeptNotification]) -> Query {
    """
    SELECT notification_uuid, envelope_signature = '' AS is_erased,
      CASE WHEN current_setting('synchronous_standby_names') <> '' THEN pg_logical_emit_message(true, 'receiptd', '') END AS lsn
    FROM notifications WHERE notification_uuid = ANY(\(notifications.map { $0.uuid }))
    """
  }

  /// A new row: a notification and its outcome.
  struct NewRow: Sendable {
    var notification: KeptNotification
    var originalTransactionID: String?
    /// The value of the column `outcome`.
    var outcome: String
    /// Whether it was processed; otherwise it is pending until a replay.
    var isProcessed: Bool
  }

  /// Fails with ``PostgresError/isOfHeaders`` if a header is not in `jws_headers` under its cached id: the table has
  /// been replaced since the id was read.
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

  /// Writes the failures of new notifications. A separate statement, because failures are rare.
  static func explain(_ notifications: [KeptNotification]) -> Query {
    """
    UPDATE notifications SET failure = new.failure, failure_detail = new.detail
    FROM unnest(\(notifications.map(\.uuid))::uuid[],
      \(notifications.map { $0.failure?.code.rawValue })::text[],
      \(notifications.map { $0.failure?.description })::text[]) AS new (uuid, failure, detail)
    WHERE notification_uuid = new.uuid AND processed_at IS NULL
    """
  }

  /// Writes the outcome of a replay. If the notification was processed before, writes only the time of the attempt.
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

  /// The parts of a stored notification with their headers: a row for ``KeptPayload/init(_:)-(Row)``.
  package static func payload(of uuid: UUID) -> Query {
    """
    SELECT eh.header AS envelope_header, eh.sha256 AS envelope_sha256, n.envelope_claims, n.envelope_signature,
      th.header AS transaction_header, th.sha256 AS transaction_sha256, n.transaction_claims,
      n.transaction_signature,
      rh.header AS renewal_header, rh.sha256 AS renewal_sha256, n.renewal_claims, n.renewal_signature
    FROM notifications n
    JOIN jws_headers eh ON eh.id = n.envelope_header
    LEFT JOIN jws_headers th ON th.id = n.transaction_header
    LEFT JOIN jws_headers rh ON rh.id = n.renewal_header
    WHERE n.notification_uuid = \(uuid)
    """
  }

  /// Pending notifications that a replay may process, oldest first; not those of unknown apps.
  /// - Parameter last: the last notification of the previous page.
  static func pending(_ selection: Replay.Selection, after last: PageKey, limit: Int) -> Query {
    // A notification that is itself faulty is replayed only if the start may have cured the fault.
    let (outcome, curable): (KeptNotification.PendingReason?, Set<VerificationFailure.Code>) =
      switch selection {
      case .afterStart: (nil, VerificationFailure.Code.curable)
      case .failed: (.failed, [])
      }
    // 'unknown_app' is a literal, because the planner matches it with a partial index.
    return """
      SELECT received_at, notification_uuid FROM notifications
      WHERE processed_at IS NULL AND outcome <> 'unknown_app'
        AND outcome = coalesce(\(outcome?.rawValue)::text, outcome)
        AND (failure IS NULL OR failure = ANY(\(curable.map(\.rawValue).sorted())))
        AND (received_at, notification_uuid) > (\(last.receivedAt)::timestamptz, \(last.uuid)::uuid)
      ORDER BY received_at, notification_uuid LIMIT \(limit)
      """
  }

  /// Pending notifications of an app that was unknown when they were received, oldest first.
  static func pending(forApp bundleID: String, after last: PageKey, limit: Int) -> Query {
    """
    SELECT received_at, notification_uuid FROM notifications
    WHERE processed_at IS NULL AND outcome = 'unknown_app' AND bundle_id = \(bundleID)
      AND (received_at, notification_uuid) > (\(last.receivedAt)::timestamptz, \(last.uuid)::uuid)
    ORDER BY received_at, notification_uuid LIMIT \(limit)
    """
  }
}

extension PostgresError {
  /// Whether a notification refers to a header that is not in `jws_headers` any more.
  var isOfHeaders: Bool { sqlState == "23502" && report?.column == "envelope_header" }
}

extension NotificationRows {
  /// The key of the last row of a page of pending notifications.
  struct PageKey: Sendable {
    var receivedAt: Date
    var uuid: UUID

    /// Before the first page.
    static let start = PageKey(
      receivedAt: .distantPast, uuid: UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)))
  }
}

extension NotificationRows.PageKey {
  init(_ row: Row) throws {
    self.init(receivedAt: try row.decode("received_at"), uuid: try row.decode("notification_uuid"))
  }
}
