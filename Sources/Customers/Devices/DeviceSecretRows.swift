import Foundation
import Postgres
import Subscriptions
import Text

/// Statements on the table `device_secrets`.
package enum DeviceSecretRows {
  static func select(_ device: String, bundleID: String) -> Query {
    """
    SELECT secret_hash, \(wantsAccount) AS wants_account FROM device_secrets stored
    WHERE bundle_id = \(bundleID) AND device_id = \(device)
    """
  }

  private static let wantsAccount: Query = "stored.kept_at IS NOT NULL AND stored.account_hash IS NULL"

  /// Whether the Apple Account of the next proof that comes with the secret is noted (``prove(_:bundleID:with:accountHash:)``).
  static func wantsAccount(_ rows: Rows) throws -> Bool { try rows.first?.decode("wants_account") ?? false }

  /// Notes the first Apple Account that a device proves with a secret that it kept after support's reset.
  static func prove(_ device: String, bundleID: String, with secret: DeviceSecret, accountHash: [UInt8])
    -> Query
  {
    """
    UPDATE device_secrets SET account_hash = \(accountHash)
    WHERE bundle_id = \(bundleID) AND device_id = \(device) AND secret_hash = \(secret.hash) AND account_hash IS NULL
    """
  }

  /// The devices of these admissions whose stored secret is another one than the admission's, or none, or wants the Apple
  /// Account of the proof that comes with it.
  package static func changed(_ admissions: [DeviceAdmission]) -> Query {
    """
    SELECT bundle_id, device_id, admitted.secret_hash FROM \(joined(admissions))
    WHERE stored.secret_hash IS DISTINCT FROM admitted.secret_hash OR \(wantsAccount)
    """
  }

  package static func decodeChanged(_ row: Row) throws -> DeviceAdmission {
    DeviceAdmission(
      device: try row.decode("device_id"), bundleID: try row.decode("bundle_id"),
      storedHash: try row.decode("secret_hash"), isAssumed: true)
  }

  private static func joined(_ admissions: [DeviceAdmission]) -> Query {
    """
    unnest(\(admissions.map(\.bundleID))::text[], \(admissions.map(\.device))::text[],
        \(admissions.map(\.storedHash))::bytea[]) AS admitted (bundle_id, device_id, secret_hash)
      LEFT JOIN device_secrets stored USING (bundle_id, device_id)
    """
  }

  /// - Returns: the stored hash; `nil` for a device without a secret.
  static func decode(_ rows: Rows) throws -> [UInt8]? { try rows.first?.decode("secret_hash") }

  /// The most secrets and pairings of devices with nothing on record that an app keeps on one day (UTC). A quarter of
  /// them is for requests with a proof.
  static func newPerDay(isProven: Bool) -> Int { isProven ? 20_000 : 15_000 }

  /// The part of ``newPerDay(isProven:)`` up to which the records of such devices in `support_actions` are kept.
  static let notesPerDay = 5_000

  /// The replacements of a device's secret that are recorded within 24 hours. All of them take effect.
  static let notedReplacements = 10

  /// Fails with 22012 (division by zero) if the secret of one of these devices is not the one of the admission, so that
  /// the transaction cannot commit, and no response needs to be read before COMMIT is sent. For a transaction that
  /// holds the devices' locks.
  package static func require(_ admissions: [DeviceAdmission]) -> Query {
    """
    SELECT 1 / (NOT EXISTS (
      SELECT FROM \(joined(admissions))
      WHERE stored.secret_hash IS DISTINCT FROM admitted.secret_hash))::integer
    """
  }

  /// Whether ``require(_:)`` failed, in a transaction that has the statement. A trigger may raise the same SQLSTATE.
  package static func isChange(_ error: PostgresError) -> Bool { error.sqlState == "22012" }

  /// Stores the first secret of a device. The transaction holds the device's lock.
  ///
  /// After a reset `kept_at` is at least the latest time on the device's record: a purchase may be bound while the request
  /// waits for the lock, and another server's clock may be ahead.
  /// - Parameters:
  ///   - isAfterReset: whether support reset the former one lately.
  ///   - accountHash: the Apple Account that comes with it, as ``prove(_:bundleID:with:accountHash:)`` notes it.
  static func insert(
    _ secret: DeviceSecret, of device: String, in app: App, isAfterReset: Bool = false,
    accountHash: [UInt8]? = nil, at instant: Date
  ) -> Query {
    """
    WITH \(DeviceRecord.parts(of: device, in: app, at: instant))
    INSERT INTO device_secrets (bundle_id, device_id, secret_hash, set_at, kept_at, account_hash)
    VALUES (\(app.bundleID), \(device), \(secret.hash), \(instant),
      CASE WHEN \(isAfterReset)::boolean THEN greatest(\(instant)::timestamptz, (SELECT max(since) FROM parts)) END, \(accountHash))
    """
  }

  /// Charges one row to the app's day, unless the day has its number. It locks the day until the commit, so the number
  /// holds for all servers; see ``DayCharges``.
  static func charge(_ bundleID: String, upTo most: Int, at instant: Date) -> Query {
    """
    INSERT INTO event_bytes_daily AS known (bundle_id, day, bytes, device_secrets)
    VALUES (\(bundleID), \(Day(of: instant).description)::text::date, 0, 1)
    ON CONFLICT (bundle_id, day) DO UPDATE SET device_secrets = known.device_secrets + 1
      WHERE known.device_secrets < \(most)
    """
  }

  /// The pairings of one child's device on one day (UTC) beyond which only devices with a trial, purchase or grant pair
  /// it: any client can give another customer's id as its child's.
  static let pairingsOfChild = 20

  /// Whether a new pairing of a device is charged to the days of the app and of the child's device (`is_charged`): the
  /// device has no trial, purchase or grant. Pairings are no record here, because an invented device can have them during
  /// free access.
  static func chargesPairing(of device: String, in app: App) -> Query {
    "SELECT NOT \(hasRecord(device, in: app)) AS is_charged"
  }

  /// Whether a device has a trial, a purchase that counts, or a grant.
  private static func hasRecord(_ device: String, in app: App) -> Query {
    """
    (EXISTS (
        SELECT FROM subscriptions
        WHERE device_id = \(device) AND user_id IS NULL AND bundle_id = \(app.bundleID) AND is_counted)
      OR EXISTS (
        SELECT FROM purchase_devices d JOIN subscriptions s USING (original_transaction_id)
        WHERE d.device_id = \(device) AND d.bundle_id = \(app.bundleID) AND NOT d.is_barred
          AND \(app.sharesPurchases)::boolean AND s.is_counted)
      OR EXISTS (SELECT FROM trials WHERE bundle_id = \(app.bundleID) AND device_id = \(device))
      OR EXISTS (SELECT FROM grants WHERE device_id = \(device) AND bundle_id = \(app.bundleID)))
    """
  }

  /// Replaces a secret, and returns how many times that was done within 24 hours.
  ///
  /// The sender of the former secret may not have been the customer, so a consent and the open pairing codes that came
  /// with it end.
  /// - Parameters:
  ///   - renews: whether the secret's time begins anew; not for a device with nothing on record, which a client may have invented.
  ///   - keepsAccount: whether the account with which it joined a parent sends the new secret.
  static func replace(
    _ secret: DeviceSecret, of device: String, bundleID: String, renews: Bool, keepsAccount: Bool,
    at instant: Date
  ) -> Query {
    """
    WITH withdrawn AS (
      UPDATE consents SET is_given = false, changed_at = \(instant), withdrawn_at = \(instant)
      WHERE bundle_id = \(bundleID) AND customer = \(device) AND is_given),
    ended AS (\(openCodes(of: device, bundleID)))
    UPDATE device_secrets SET secret_hash = \(secret.hash), set_at = CASE WHEN \(renews) THEN \(instant) ELSE set_at END,
      account_hash = CASE WHEN \(keepsAccount) OR kept_at IS NOT NULL THEN account_hash END,
      replacements = CASE WHEN \(isSameDay(instant)) THEN replacements + 1 ELSE 1 END,
      replacements_since = CASE WHEN \(isSameDay(instant)) THEN replacements_since ELSE \(instant) END
    WHERE bundle_id = \(bundleID) AND device_id = \(device)
    RETURNING replacements
    """
  }

  /// Notes the Apple Account with which a device joined a parent. A device that kept its secret after support's reset
  /// has the account that it proved first (``prove(_:bundleID:with:accountHash:)``). The transaction holds the device's lock.
  static func join(_ device: String, bundleID: String, accountHash: [UInt8]) -> Query {
    """
    UPDATE device_secrets SET account_hash = \(accountHash)
    WHERE bundle_id = \(bundleID) AND device_id = \(device) AND (kept_at IS NULL OR account_hash IS NULL)
    """
  }

  private static func openCodes(of device: String, _ bundleID: String) -> Query {
    "DELETE FROM pairing_codes WHERE bundle_id = \(bundleID) AND device_id = \(device) AND used_at IS NULL"
  }

  private static func isSameDay(_ instant: Date) -> Query {
    "coalesce(replacements_since > \(instant)::timestamptz - interval '24 hours', false)"
  }

  /// A consent and the open pairing codes end with the secret that they came with.
  package static func delete(_ device: String, bundleID: String, at instant: Date) -> Query {
    """
    WITH withdrawn AS (
      UPDATE consents SET is_given = false, changed_at = \(instant), withdrawn_at = \(instant)
      WHERE bundle_id = \(bundleID) AND customer = \(device) AND is_given),
    ended AS (\(openCodes(of: device, bundleID)))
    DELETE FROM device_secrets WHERE bundle_id = \(bundleID) AND device_id = \(device)
    """
  }

  /// Whether the Apple Account of a proof has a trial: one row with a boolean.
  static func hasTrial(_ proof: AccountProof, in app: App) -> Query {
    """
    SELECT EXISTS (
      SELECT FROM trials
      WHERE bundle_id = \(app.bundleID) AND environment = \(proof.environment)
        AND app_transaction_id IN (\(proof.appTransactionID)::text, receiptd_erased_account(\(proof.appTransactionID)))
    ) AS has_trial
    """
  }
}
