import Foundation
import Identifiers
import Postgres
import Subscriptions

/// The table `refused_attempts`.
enum RefusedAttemptRows {
  /// Inserts the attempts that the limits of the day allow. Those from before an erasure, or from the minute after it, lose
  /// the ids: one of them may be the erased customer's, and no list of erased ids exists.
  ///
  /// An erasure locks the table, so this statement sees its record or ran before its deletion.
  static func insert(_ attempts: [RefusedAttempt], on day: Day) -> Query {
    """
    INSERT INTO refused_attempts (at, bundle_id, route, user_id, device_id, transaction_id, code, request_id,
      address_prefix)
    SELECT new.at, new.bundle_id, new.route, CASE WHEN new.at > erased.until THEN new.user_id END,
      CASE WHEN new.at > erased.until THEN new.device_id END,
      CASE WHEN new.at > erased.until THEN new.transaction_id END, new.code, new.request_id, new.address_prefix
    FROM (
      SELECT sent.*, row_number() OVER (PARTITION BY sent.address_prefix ORDER BY sent.at) AS of_network,
        row_number() OVER (ORDER BY sent.at) AS of_day
      FROM unnest(
        \(attempts.map(\.at))::timestamptz[], \(attempts.map(\.bundleID))::text[],
        \(attempts.map(\.route))::text[], \(attempts.map(\.userID))::uuid[],
        \(attempts.map(\.deviceID))::text[], \(attempts.map(\.transactionID))::text[],
        \(attempts.map(\.code))::text[], \(attempts.map(\.requestID))::text[],
        \(attempts.map(\.addressPrefix))::text[])
      AS sent (at, bundle_id, route, user_id, device_id, transaction_id, code, request_id, address_prefix)
    ) AS new, (
      SELECT coalesce(max(at) + interval '1 minute', '-infinity') AS until FROM support_actions
      WHERE action = 'erase-customer'
    ) AS erased
    WHERE new.of_day <= \(RefusedAttemptLog.perDay) - (
        SELECT count(*) FROM refused_attempts known WHERE known.at >= \(day.start))
      AND new.of_network <= \(RefusedAttemptLog.perNetwork) - (
        SELECT count(*) FROM refused_attempts known
        WHERE known.address_prefix = new.address_prefix AND known.at >= \(day.start))
    ORDER BY new.at
    """
  }

  /// Deletes at most `limit` attempts from before an instant.
  static func delete(before instant: Date, limit: Int) -> Query {
    """
    DELETE FROM refused_attempts
    WHERE ctid = ANY(ARRAY(SELECT ctid FROM refused_attempts WHERE at < \(instant) LIMIT \(limit)))
    """
  }

  /// The last attempts that named a customer of an app, or named no app.
  static func last(_ count: Int, of customer: Customer, bundleID: String) -> Query {
    """
    SELECT \(unescaped: columns) FROM refused_attempts
    WHERE \(of(customer)) AND (bundle_id = \(bundleID) OR bundle_id IS NULL)
    ORDER BY at DESC, id DESC LIMIT \(count)
    """
  }

  /// The last attempts with a request id.
  static func last(_ count: Int, requestID: String) -> Query {
    """
    SELECT \(unescaped: columns) FROM refused_attempts WHERE request_id = \(requestID)
    ORDER BY at DESC, id DESC LIMIT \(count)
    """
  }

  /// The last attempts that named a user or a device.
  static func last(_ count: Int, naming id: String) -> Query {
    """
    (SELECT \(unescaped: columns), id FROM refused_attempts WHERE user_id = \(UUID(rfc9562: id))
     ORDER BY at DESC, id DESC LIMIT \(count))
    UNION ALL
    (SELECT \(unescaped: columns), id FROM refused_attempts WHERE device_id = \(id)
     ORDER BY at DESC, id DESC LIMIT \(count))
    ORDER BY at DESC, id DESC LIMIT \(count)
    """
  }

  private static func of(_ customer: Customer) -> Query {
    switch customer {
    case .user(let user): "user_id = \(user)"
    case .device(let device): "device_id = \(device)"
    }
  }

  private static let columns: StaticString =
    "at, bundle_id, route, user_id, device_id, transaction_id, code, request_id, address_prefix"
}

extension RefusedAttempt {
  init(_ row: Row) throws {
    at = try row.decode("at")
    bundleID = try row.decode("bundle_id")
    route = try row.decode("route")
    userID = try row.decode("user_id")
    deviceID = try row.decode("device_id")
    transactionID = try row.decode("transaction_id")
    code = try row.decode("code")
    requestID = try row.decode("request_id")
    addressPrefix = try row.decode("address_prefix")
  }
}
