import Configuration
import Foundation
import Postgres
import Subscriptions
import Text

/// What is on record of a device, compared with a proof: it decides whose secret the device keeps.
///
/// The device's trial and each of its purchases are evidence of its Apple Account. A purchase that support gave to it is
/// none: its buyer may be another one. A purchase that is not counted, such as one of the sandbox, is not on record at
/// all. A purchase that another device took lately is evidence too. A device with nothing else has the account with which
/// it joined a parent.
///
/// A stranger who knows the id of a device without a secret can add a trial or a purchase to it, and the record does not
/// tell who came first. So a first secret needs a proof of all evidence, and a device that has something without
/// evidence (a running grant, a purchase from support) keeps none before support's reset. With the reset, support names
/// the account of the customer (``DeviceReset``), and that decides.
struct DeviceRecord: Sendable {
  /// Whether the device has no trial, purchase, grant or paired device, lost no purchase to another device lately, and
  /// joined no parent with an Apple Account.
  let isEmpty: Bool
  /// Whether the device has no trial, purchase or grant. A client may have invented it, also one that lost a purchase
  /// or has paired devices, so what its requests add to the record is charged to the app's day.
  let isCharged: Bool
  /// Whether the proof's account is the one with which the device joined a parent.
  let isAccountOfJoin: Bool
  /// Whether the proof replaces a secret: its account is one of the record. Of a device that kept its secret after a
  /// reset, one of what came since, or the account that it proved first with the secret.
  let matchesSome: Bool
  /// Whether a first secret may be kept: the proof is of all evidence and nothing is without; after support's reset, of
  /// the account that support named.
  let provesFirst: Bool
  /// Whether support reset the secret within ``DeviceReset/period``.
  let isReset: Bool

  init(_ row: Row) throws {
    isEmpty = try row.decode("is_empty")
    isCharged = try row.decode("is_charged")
    isAccountOfJoin = try row.decode("is_account_of_join")
    matchesSome = try row.decode("matches_some")
    provesFirst = try row.decode("proves_first")
    isReset = try row.decode("is_reset")
  }

  /// The record of a device. The only row is a ``DeviceRecord``.
  static func select(_ device: String, in app: App, proof: AccountProof?, at instant: Date) -> Query {
    """
    WITH \(parts(of: device, in: app, at: instant)), joined AS (
      SELECT coalesce(account_hash = \(proof?.accountHash)::bytea, false) AS matches,
        NOT EXISTS (SELECT FROM parts WHERE is_present OR is_evidence) AS is_alone
      FROM device_secrets
      WHERE bundle_id = \(app.bundleID) AND device_id = \(device) AND account_hash IS NOT NULL
    ), compared AS (
      SELECT name, since, is_evidence, is_present, coalesce(environment = \(proof?.environment)::text AND (
        app_transaction_id IN (\(proof?.appTransactionID)::text, receiptd_erased_account(\(proof?.appTransactionID)))
        OR name = \(proof?.originalTransactionID)::text), false) AS matches
      FROM parts
      UNION ALL SELECT NULL, '-infinity', true, true, matches FROM joined WHERE is_alone
    ), kept AS (
      -- Parts from before a secret that the device keeps after a reset may be another account's. The former customer of a
      -- purchase that support took still has its signed transaction.
      SELECT kept_at AS since, account_hash = \(proof?.accountHash)::bytea AND NOT EXISTS (
          SELECT FROM given WHERE is_taken AND name = \(proof?.originalTransactionID)::text)
        AS matches FROM device_secrets
      WHERE bundle_id = \(app.bundleID) AND device_id = \(device) AND kept_at IS NOT NULL
    ), reset AS (\(DeviceReset.latest(of: device, bundleID: app.bundleID, at: instant)))
    SELECT is_free AND NOT EXISTS (SELECT FROM joined) AS is_empty, NOT has_some AS is_charged,
      EXISTS (SELECT FROM joined WHERE matches) AS is_account_of_join,
      coalesce((
          SELECT bool_or(matches) FROM compared
          WHERE is_evidence AND (since > (SELECT since FROM kept) OR NOT EXISTS (SELECT FROM kept))
            AND (is_present OR NOT EXISTS (SELECT FROM parts WHERE is_present))), false)
        OR coalesce((SELECT matches FROM kept), false) AS matches_some,
      EXISTS (SELECT FROM reset) AS is_reset,
      CASE WHEN EXISTS (SELECT FROM reset) THEN
        EXISTS (
          SELECT FROM reset
          WHERE CASE proof WHEN \(DeviceReset.noProof) THEN
            -- What came after the reset needs a proof, unless the customer has the grant alone.
            \(DeviceReset.hasGrant(device, in: app, at: instant))
              OR (SELECT coalesce(bool_and(matches), true) FROM compared)
          ELSE \(DeviceReset.isAccount("account", of: proof)) OR EXISTS (
            SELECT FROM subscriptions s
            WHERE s.original_transaction_id = proof AND s.original_transaction_id = \(proof?.originalTransactionID)::text
              AND s.bundle_id = \(app.bundleID) AND s.environment = \(proof?.environment)::text) END)
      ELSE
        coalesce((SELECT bool_and(matches AND is_evidence) FROM compared), false)
          AND NOT \(DeviceReset.hasGrant(device, in: app, at: instant)) END AS proves_first
    FROM (
      SELECT *, NOT (has_some OR EXISTS (\(lostPurchases(of: device, in: app, at: instant)))
        OR EXISTS (SELECT FROM devices WHERE bundle_id = \(app.bundleID) AND device_id = \(device))) AS is_free
      FROM (
        SELECT EXISTS (SELECT FROM parts WHERE is_present)
          OR EXISTS (SELECT FROM grants WHERE device_id = \(device) AND bundle_id = \(app.bundleID)) AS has_some
      ) AS counted) AS decided
    """
  }

  /// The common table expressions `parts`, the trial and the purchases of a device and those that it lost lately, and
  /// `given`, the purchases that support gave to it, which are no evidence; `is_taken` tells whether another customer had one.
  ///
  /// `name` is the purchase's original id, or ``DeviceReset/trial``; `since` is when the device got it, or later.
  static func parts(of device: String, in app: App, at instant: Date) -> Query {
    """
    given AS (
      SELECT original_transaction_id AS name, bool_or(from_customer IS NOT NULL) AS is_taken FROM support_actions
      WHERE to_customer = \(device) AND customer_kind = 'device' AND bundle_id = \(app.bundleID) AND action = 'transfer'
        AND actor <> 'receiptd' AND original_transaction_id IS NOT NULL
      GROUP BY original_transaction_id
    ), purchases AS (
      SELECT s.original_transaction_id AS name, s.app_transaction_id, s.environment, true AS is_present,
        coalesce((
          SELECT d.since FROM purchase_devices d
          WHERE d.original_transaction_id = s.original_transaction_id AND d.device_id = \(device)),
          greatest(s.created_at, s.counted_moves_since, s.counted_unproven_moves_since)) AS since
      FROM subscriptions s
      WHERE s.device_id = \(device) AND s.user_id IS NULL AND s.bundle_id = \(app.bundleID) AND s.is_counted
      UNION ALL
      SELECT s.original_transaction_id, s.app_transaction_id, s.environment, true, d.since
      FROM purchase_devices d JOIN subscriptions s USING (original_transaction_id)
      WHERE d.device_id = \(device) AND d.bundle_id = \(app.bundleID) AND NOT d.is_barred
        AND \(app.sharesPurchases)::boolean AND s.device_id IS DISTINCT FROM d.device_id AND s.is_counted
      UNION ALL
      SELECT original_transaction_id, app_transaction_id, environment, false, '-infinity' FROM subscriptions
      WHERE original_transaction_id IN (\(lostPurchases(of: device, in: app, at: instant))) AND is_counted
    ), parts AS (
      SELECT name, app_transaction_id, environment, is_present, since, name NOT IN (SELECT name FROM given) AS is_evidence
      FROM purchases
      UNION ALL
      SELECT \(DeviceReset.trial)::text, original.app_transaction_id, original.environment, true,
        coalesce(own.joined_at, own.started_at), true
      FROM trials own JOIN trials original ON original.id = coalesce(own.continues, own.id)
      WHERE own.bundle_id = \(app.bundleID) AND own.device_id = \(device)
    )
    """
  }

  private static func lostPurchases(of device: String, in app: App, at instant: Date) -> Query {
    UnusedDeviceRows.lostPurchases(
      of: "\(device)", bundleID: "\(app.bundleID)", since: instant - UnusedDeviceRows.lifetime)
  }
}

/// Support's reset of a device's secret: whose proof keeps the next one. It stands in the details of the action in
/// `support_actions`, as `proof` and `proofAccount`.
package enum DeviceReset {
  /// How long after the reset the next secret is kept so, in seconds.
  package static let period: TimeInterval = 7 * 86_400
  /// The value for the account of the device's trial. A purchase is named by its original id.
  package static let trial = "trial"
  /// The value for a device without an account of the customer: it keeps the next secret without a proof, as long as a
  /// grant is all that it has.
  package static let noProof = "none"
  /// The name of the action.
  package static let action = "reset-device-secret"

  /// The latest reset within ``period``: at most one row, with `proof` and `account`, the digest of the Apple Account
  /// or NULL. A reset without a proof is from before it was recorded.
  package static func latest(of device: String, bundleID: String, at instant: Date) -> Query {
    """
    SELECT details->>'proof' AS proof, details->>'proofAccount' AS account FROM support_actions
    WHERE to_customer = \(device) AND customer_kind = 'device' AND bundle_id = \(bundleID)
      AND action = \(action) AND at > \(instant - period) AND details ? 'proof'
    ORDER BY at DESC, id DESC LIMIT 1
    """
  }

  /// The values of `proof` that fit a device's record: rows with `proof`, `account`, which is equal for those of one Apple
  /// Account, and `digest`, that of the account or NULL. ``noProof`` is one of them while a grant runs. A
  /// sandbox trial is one where the device has no production trial.
  package static func proofs(of device: String, in app: App, at instant: Date) -> Query {
    """
    WITH \(DeviceRecord.parts(of: device, in: app, at: instant))
    SELECT name AS proof, environment || '/' || coalesce(app_transaction_id, name) AS account,
      encode(sha256(convert_to(environment || '/' || app_transaction_id, 'UTF8')), 'hex') AS digest
    FROM parts
    WHERE name <> \(trial) OR app_transaction_id IS NOT NULL AND (environment = 'Production' OR NOT EXISTS (
      SELECT FROM parts own WHERE own.name = \(trial) AND own.environment = 'Production'))
    UNION SELECT \(noProof)::text, \(noProof)::text, NULL WHERE \(hasGrant(device, in: app, at: instant))
    ORDER BY 1
    """
  }

  /// Whether a digest is that of a proof's account, also where the account's number was erased.
  fileprivate static func isAccount(_ account: Query, of proof: AccountProof?) -> Query {
    """
    \(account) IN (
      encode(sha256(convert_to(\(proof?.environment)::text || '/' || \(proof?.appTransactionID)::text, 'UTF8')), 'hex'),
      encode(sha256(convert_to(
        \(proof?.environment)::text || '/' || receiptd_erased_account(\(proof?.appTransactionID)), 'UTF8')), 'hex'))
    """
  }

  /// Whether a device has a grant that runs.
  fileprivate static func hasGrant(_ device: String, in app: App, at instant: Date) -> Query {
    """
    EXISTS (
      SELECT FROM grants
      WHERE device_id = \(device) AND bundle_id = \(app.bundleID) AND revoked_at IS NULL
        AND (ends_at IS NULL OR ends_at > \(instant)))
    """
  }
}
