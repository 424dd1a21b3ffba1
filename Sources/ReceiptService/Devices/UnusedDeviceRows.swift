import Foundation
import Postgres

/// Statements on the secrets and consents of devices with nothing on record, which any client can add under invented ids.
enum UnusedDeviceRows {
  /// How long a secret and a consent of such a device are kept. After that the device's next request stores its secret again.
  static let lifetime: TimeInterval = 30 * 86_400

  /// A secret that is old enough; a row of ``page(before:after:limit:)``.
  struct OldSecret: Sendable {
    var bundleID: String
    var deviceID: String
    var setAt: Date
    /// Whether the device has nothing on record.
    var isUnused: Bool

    init(_ row: Row) throws {
      bundleID = try row.decode("bundle_id")
      deviceID = try row.decode("device_id")
      setAt = try row.decode("set_at")
      isUnused = try row.decode("is_unused")
    }
  }

  /// A page of the secrets that are old enough, in the order in which they were set.
  /// - Parameter last: the last secret of the page before; `nil` for the first page.
  static func page(before oldest: Date, after last: OldSecret?, limit: Int) -> Query {
    """
    SELECT bundle_id, device_id, set_at, \(isUnused("own.device_id")) AS is_unused
    FROM (
      SELECT bundle_id, device_id, set_at FROM device_secrets
      WHERE set_at < \(oldest) AND (set_at, bundle_id, device_id)
        > (\(last?.setAt ?? .distantPast)::timestamptz, \(last?.bundleID ?? ""), \(last?.deviceID ?? ""))
      ORDER BY set_at, bundle_id, device_id LIMIT \(limit)) AS own
    ORDER BY set_at, bundle_id, device_id
    """
  }

  /// Deletes these secrets where the device still has nothing on record. A consent ends with the secret that it came with. The
  /// transaction holds the devices' locks.
  static func deleteSecrets(_ secrets: [OldSecret], before oldest: Date, at instant: Date) -> Query {
    """
    WITH gone AS (
      DELETE FROM device_secrets AS own
      USING unnest(\(secrets.map(\.bundleID))::text[], \(secrets.map(\.deviceID))::text[]) AS old (bundle_id, device_id)
      WHERE own.bundle_id = old.bundle_id AND own.device_id = old.device_id AND own.set_at < \(oldest)
        AND \(isUnused("own.device_id"))
      RETURNING own.bundle_id, own.device_id
    ), withdrawn AS (
      UPDATE consents SET is_given = false, changed_at = \(instant), withdrawn_at = \(instant)
      FROM gone WHERE consents.bundle_id = gone.bundle_id AND consents.customer = gone.device_id AND is_given
    )
    SELECT FROM gone
    """
  }

  /// Deletes old consents of devices that have no secret and nothing on record. A consent of a customer whom a person or a rule
  /// has dealt with stays, because an answer to the App Store may have needed it.
  /// - Parameter bundleIDs: the apps whose customers are devices.
  static func deleteConsents(in bundleIDs: [String], before oldest: Date, limit: Int) -> Query {
    """
    DELETE FROM consents WHERE ctid = ANY(ARRAY(
      SELECT own.ctid FROM consents AS own
      WHERE own.changed_at < \(oldest) AND own.bundle_id = ANY(\(bundleIDs))
        AND NOT EXISTS (
          SELECT FROM device_secrets s WHERE s.bundle_id = own.bundle_id AND s.device_id = own.customer)
        AND \(isUnused("own.customer"))
        AND NOT EXISTS (
          SELECT FROM support_actions a WHERE a.from_customer = own.customer AND a.action NOT LIKE '%-device-secret')
        AND NOT EXISTS (
          SELECT FROM support_actions a WHERE a.to_customer = own.customer AND a.action NOT LIKE '%-device-secret')
      LIMIT \(limit)))
    """
  }

  /// Whether a device of the app of the row `own` has no trial, purchase, grant or pairing.
  private static func isUnused(_ device: Query) -> Query {
    """
    (NOT EXISTS (SELECT FROM subscriptions r WHERE r.device_id = \(device))
      AND NOT EXISTS (SELECT FROM purchase_devices r WHERE r.device_id = \(device) AND r.bundle_id = own.bundle_id)
      AND NOT EXISTS (SELECT FROM trials r WHERE r.device_id = \(device) AND r.bundle_id = own.bundle_id)
      AND NOT EXISTS (SELECT FROM grants r WHERE r.device_id = \(device) AND r.bundle_id = own.bundle_id)
      AND NOT EXISTS (SELECT FROM devices r WHERE r.bundle_id = own.bundle_id AND r.device_id = \(device))
      AND NOT EXISTS (SELECT FROM devices r WHERE r.bundle_id = own.bundle_id AND r.child_device_id = \(device)))
    """
  }
}
