import FoundationEssentials
import Postgres
import Subscriptions

/// The table `device_secrets`.
enum DeviceSecretRows {
  static func select(_ device: String, bundleID: String) -> Query {
    "SELECT secret_hash FROM device_secrets WHERE bundle_id = \(bundleID) AND device_id = \(device)"
  }

  /// - Returns: the kept hash; `nil` where the device has no secret.
  static func decode(_ rows: Rows) throws -> [UInt8]? { try rows.first?.decode(0) }

  /// Of two first secrets at once one is kept.
  static func insert(
    _ secret: DeviceSecret, of device: String, bundleID: String, at instant: Date
  ) -> Query {
    """
    INSERT INTO device_secrets (bundle_id, device_id, secret_hash, set_at)
    VALUES (\(bundleID), \(device), \(secret.hash), \(instant))
    ON CONFLICT (bundle_id, device_id) DO NOTHING
    """
  }

  static func replace(
    _ secret: DeviceSecret, of device: String, bundleID: String, at instant: Date
  ) -> Query {
    """
    UPDATE device_secrets SET secret_hash = \(secret.hash), set_at = \(instant)
    WHERE bundle_id = \(bundleID) AND device_id = \(device)
    """
  }

  static func delete(_ device: String, bundleID: String) -> Query {
    "DELETE FROM device_secrets WHERE bundle_id = \(bundleID) AND device_id = \(device)"
  }

  /// The record of a device, compared with a proof: see ``DeviceRecord``.
  ///
  /// Evidence of the device's Apple Account is its trial and each purchase that it has. A purchase that support took
  /// from another customer is none: that customer still holds its signed transaction. One that is not counted, such as
  /// a stranger's from the sandbox, is not on record at all.
  static func record(of device: String, in app: App, proof: AccountProof?) -> Query {
    """
    WITH had AS (
      SELECT original_transaction_id, app_transaction_id, environment,
        NOT coalesce(owned_because = 'support' AND taken_from IS NOT NULL, false) AS is_evidence
      FROM subscriptions
      WHERE device_id = \(device) AND user_id IS NULL AND bundle_id = \(app.bundleID) AND is_counted
      UNION ALL
      SELECT s.original_transaction_id, s.app_transaction_id, s.environment,
        NOT coalesce(s.owned_because = 'support' AND s.taken_from IS NOT NULL, false)
      FROM purchase_devices d JOIN subscriptions s USING (original_transaction_id)
      WHERE d.device_id = \(device) AND d.bundle_id = \(app.bundleID) AND NOT d.is_barred
        AND \(app.sharesPurchases)::boolean AND s.device_id IS DISTINCT FROM d.device_id AND s.is_counted
    ), begun AS (
      SELECT told.app_transaction_id, told.environment
      FROM trials own JOIN trials told ON told.id = coalesce(own.continues, own.id)
      WHERE own.bundle_id = \(app.bundleID) AND own.device_id = \(device)
    ), evidence AS (
      SELECT coalesce(environment = \(proof?.environment)::text AND (
        app_transaction_id = \(proof?.appTransactionID)::text
        OR original_transaction_id = \(proof?.originalTransactionID)::text), false) AS matches
      FROM had WHERE is_evidence
      UNION ALL
      SELECT coalesce(environment = \(proof?.environment)::text
        AND app_transaction_id = \(proof?.appTransactionID)::text, false)
      FROM begun
    )
    SELECT NOT (EXISTS (SELECT FROM had) OR EXISTS (SELECT FROM begun)
        OR EXISTS (SELECT FROM grants WHERE device_id = \(device) AND bundle_id = \(app.bundleID))
        OR EXISTS (SELECT FROM devices WHERE bundle_id = \(app.bundleID) AND device_id = \(device))),
      coalesce(bool_or(matches), false), coalesce(bool_and(matches), false)
    FROM evidence
    """
  }
}
