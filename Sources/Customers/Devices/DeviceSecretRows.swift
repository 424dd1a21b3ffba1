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
  /// - Parameters:
  ///   - isAfterReset: whether support reset the former one lately.
  ///   - accountHash: the Apple Account that comes with it, as ``prove(_:bundleID:with:accountHash:)`` notes it.
  static func insert(
    _ secret: DeviceSecret, of device: String, bundleID: String, isAfterReset: Bool = false,
    accountHash: [UInt8]? = nil, at instant: Date
  ) -> Query {
    """
    INSERT INTO device_secrets (bundle_id, device_id, secret_hash, set_at, kept_at, account_hash)
    VALUES (\(bundleID), \(device), \(secret.hash), \(instant), \(isAfterReset ? instant : nil),
      \(accountHash))
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

  /// Whether a new pairing of a device is charged to the app's day (`is_charged`): the device has no trial, purchase or
  /// grant. Pairings are no record here, because an invented device can have them during free access. And whether a
  /// charged pairing is allowed (`is_allowed`), by those of its child's device.
  static func chargesPairing(of device: String, with child: String, in app: App, at instant: Date) -> Query {
    """
    SELECT NOT \(hasRecord(device, in: app)) AS is_charged, (
        SELECT count(*) FROM devices
        WHERE bundle_id = \(app.bundleID) AND child_device_id = \(child) AND paired_at >= \(Day(of: instant).start)
      ) < \(pairingsOfChild) AS is_allowed
    """
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

  /// Notes the Apple Account with which a device joined a parent. The transaction holds the device's lock.
  static func join(_ device: String, bundleID: String, accountHash: [UInt8]) -> Query {
    """
    UPDATE device_secrets SET account_hash = \(accountHash) WHERE bundle_id = \(bundleID) AND device_id = \(device)
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

  /// How long after support's reset a device's next secret is kept by the rule of the reset, in seconds.
  package static let resetPeriod: TimeInterval = 7 * 86_400

  /// Whether support reset the secret of a device lately: one row with a boolean.
  package static func isReset(_ device: String, bundleID: String, at instant: Date) -> Query {
    "SELECT \(wasReset(device, bundleID, since: instant - resetPeriod)) AS is_reset"
  }

  private static func wasReset(_ device: String, _ bundleID: String, since: Date) -> Query {
    """
    EXISTS (
      SELECT FROM support_actions
      WHERE to_customer = \(device) AND customer_kind = 'device' AND bundle_id = \(bundleID)
        AND action = 'reset-device-secret' AND at > \(since))
    """
  }

  /// Compares a device's record with a proof. The only row is a ``DeviceRecord``.
  ///
  /// The device's trial and each of its purchases are evidence of its Apple Account. A purchase that support took from
  /// another customer is none, because that customer still has its signed transaction. A purchase that is not counted,
  /// such as one of the sandbox, is not on record at all. Where a device has neither a trial nor a purchase, those that
  /// another device took from it lately are evidence in their place, and the account with which it joined a parent.
  ///
  /// A stranger who knows the id of a device without a secret can add a trial or a purchase to it. So a first secret
  /// needs a proof of all evidence, of lost purchases too, and no grant or purchase without evidence may be older: with
  /// one, only support's reset lets the device keep a secret. After a reset the oldest part of the record decides, and
  /// a purchase that support gave to the device is evidence; a grant has no account, so no proof is needed. Another
  /// secret replaces one that was kept so by what came since, by the oldest part, or by the Apple Account that the device
  /// proved first with the kept one, and by nothing else.
  static func record(of device: String, in app: App, proof: AccountProof?, at instant: Date) -> Query {
    """
    WITH had AS (
      SELECT s.original_transaction_id, s.app_transaction_id, s.environment,
        NOT coalesce(s.owned_because = 'support' AND s.taken_from IS NOT NULL, false) AS is_evidence,
        coalesce((
          SELECT d.since FROM purchase_devices d
          WHERE d.original_transaction_id = s.original_transaction_id AND d.device_id = \(device)),
          greatest(s.created_at, s.counted_moves_since, s.counted_unproven_moves_since)) AS since,
        -- Where purchases are not shared, nothing tells when the device got one.
        EXISTS (
          SELECT FROM purchase_devices d
          WHERE d.original_transaction_id = s.original_transaction_id AND d.device_id = \(device)) AS has_age
      FROM subscriptions s
      WHERE s.device_id = \(device) AND s.user_id IS NULL AND s.bundle_id = \(app.bundleID) AND s.is_counted
      UNION ALL
      SELECT s.original_transaction_id, s.app_transaction_id, s.environment,
        NOT coalesce(s.owned_because = 'support' AND s.taken_from IS NOT NULL, false), d.since, true
      FROM purchase_devices d JOIN subscriptions s USING (original_transaction_id)
      WHERE d.device_id = \(device) AND d.bundle_id = \(app.bundleID) AND NOT d.is_barred
        AND \(app.sharesPurchases)::boolean AND s.device_id IS DISTINCT FROM d.device_id AND s.is_counted
    ), begun AS (
      SELECT original.app_transaction_id, original.environment, coalesce(own.joined_at, own.started_at) AS since
      FROM trials own JOIN trials original ON original.id = coalesce(own.continues, own.id)
      WHERE own.bundle_id = \(app.bundleID) AND own.device_id = \(device)
    ), lost AS (
      SELECT original_transaction_id, app_transaction_id, environment FROM subscriptions
      WHERE original_transaction_id IN (\(lostPurchases(of: device, in: app, at: instant))) AND is_counted
    ), joined AS (
      SELECT coalesce(account_hash = \(proof?.accountHash)::bytea, false) AS matches,
        NOT EXISTS (SELECT FROM had) AND NOT EXISTS (SELECT FROM begun) AND NOT EXISTS (SELECT FROM lost) AS is_alone
      FROM device_secrets
      WHERE bundle_id = \(app.bundleID) AND device_id = \(device) AND account_hash IS NOT NULL
    ), compared AS (
      SELECT since, has_age, is_evidence, is_present, coalesce(environment = \(proof?.environment)::text AND (
        app_transaction_id IN (\(proof?.appTransactionID)::text, receiptd_erased_account(\(proof?.appTransactionID)))
        OR original_transaction_id = \(proof?.originalTransactionID)::text), false) AS matches
      FROM (
        SELECT original_transaction_id, app_transaction_id, environment, since, has_age, is_evidence, true AS is_present
          FROM had
        UNION ALL SELECT NULL, app_transaction_id, environment, since, true, true, true FROM begun
        UNION ALL SELECT original_transaction_id, app_transaction_id, environment, '-infinity'::timestamptz, false, true, false
          FROM lost) AS parts
      UNION ALL SELECT '-infinity'::timestamptz, true, true, true, matches FROM joined WHERE is_alone
      UNION ALL SELECT created_at, true, false, true, NULL FROM grants
      WHERE device_id = \(device) AND bundle_id = \(app.bundleID)
    ), oldest AS (
      SELECT is_evidence, matches FROM compared WHERE is_present ORDER BY since, matches DESC NULLS LAST LIMIT 1
    ), kept AS (
      -- A secret that a device keeps after a reset came later than some of the record.
      SELECT kept_at AS since, account_hash = \(proof?.accountHash)::bytea AND NOT EXISTS (
          SELECT FROM had WHERE NOT is_evidence AND original_transaction_id = \(proof?.originalTransactionID)::text)
        AS matches FROM device_secrets
      WHERE bundle_id = \(app.bundleID) AND device_id = \(device) AND kept_at IS NOT NULL
    )
    SELECT is_free AND NOT is_joined AS is_empty, is_reset,
      NOT has_some AS is_charged, matches_some, EXISTS (SELECT FROM joined WHERE matches) AS is_account_of_join,
      CASE WHEN is_reset THEN proves_oldest ELSE proves_all END AS proves_first
    FROM (
      SELECT *, \(wasReset(device, app.bundleID, since: instant - resetPeriod)) AS is_reset, NOT (has_some OR EXISTS (SELECT FROM lost)
          OR EXISTS (SELECT FROM devices WHERE bundle_id = \(app.bundleID) AND device_id = \(device))) AS is_free,
        EXISTS (SELECT FROM joined) AS is_joined
      FROM (
        SELECT EXISTS (SELECT FROM had) OR EXISTS (SELECT FROM begun)
            OR EXISTS (SELECT FROM grants WHERE device_id = \(device) AND bundle_id = \(app.bundleID)) AS has_some,
          coalesce(bool_or(matches) FILTER (
            WHERE is_evidence AND since >= coalesce((SELECT since FROM kept), '-infinity')
              AND (is_present OR NOT EXISTS (SELECT FROM had) AND NOT EXISTS (SELECT FROM begun))), false)
            OR coalesce((SELECT is_evidence AND matches FROM oldest), false)
            OR coalesce((SELECT matches FROM kept), false) AS matches_some,
          coalesce(bool_and(matches) FILTER (WHERE is_evidence), false) AND (
            NOT coalesce(bool_or(NOT is_evidence), false)
            OR coalesce(min(since) FILTER (WHERE is_evidence AND is_present AND has_age)
              <= min(since) FILTER (WHERE NOT is_evidence), false)) AS proves_all,
          -- A grant, which has no account to compare with, is NULL.
          coalesce((SELECT matches FROM oldest), true) AS proves_oldest
        FROM compared) AS judged) AS decided
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

  private static func lostPurchases(of device: String, in app: App, at instant: Date) -> Query {
    UnusedDeviceRows.lostPurchases(
      of: "\(device)", bundleID: "\(app.bundleID)", since: instant - UnusedDeviceRows.lifetime)
  }
}

/// A device's trial and purchases in the database, compared with a proof; a row of
/// ``DeviceSecretRows/record(of:in:proof:at:)``.
struct DeviceRecord: Sendable {
  /// Whether the device has no trial, purchase, grant or paired device, lost no purchase to another device lately, and
  /// joined no parent with an Apple Account.
  let isEmpty: Bool
  /// Whether the device has no trial, purchase or grant. A client may have invented it, also one that lost a purchase
  /// or has paired devices, so what its requests add to the record is charged to the app's day.
  let isCharged: Bool
  /// Whether the proof's account is the one with which the device joined a parent.
  let isAccountOfJoin: Bool
  /// Whether the proof's account is that of its trial or of one of its purchases, or of a child.
  let matchesSome: Bool
  /// Whether a first secret may be kept: the proof's account is that of the trial and of each purchase, or of a child,
  /// and nothing without an account is older; after support's reset, that of the oldest of them.
  let provesFirst: Bool
  /// Whether support reset the secret within ``DeviceSecretRows/resetPeriod``.
  let isReset: Bool

  init(_ row: Row) throws {
    isEmpty = try row.decode("is_empty")
    isCharged = try row.decode("is_charged")
    isAccountOfJoin = try row.decode("is_account_of_join")
    matchesSome = try row.decode("matches_some")
    provesFirst = try row.decode("proves_first")
    isReset = try row.decode("is_reset")
  }
}
