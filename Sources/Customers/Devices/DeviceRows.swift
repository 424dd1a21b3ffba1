import Configuration
import Foundation
import Postgres
import Subscriptions
import Text

/// Statements on the table `devices`: the devices that are paired to a customer's device.
package enum DeviceRows {
  /// - Parameter isConfirmed: whether the child joined with a code.
  static func insert(
    _ child: String, name: String?, bundleID: String, deviceID: String, isConfirmed: Bool,
    at instant: Date
  ) -> Query {
    """
    INSERT INTO devices (bundle_id, device_id, child_device_id, name, paired_at, confirmed_at)
    VALUES (\(bundleID), \(deviceID), \(child), \(name)::text, \(instant),
      CASE WHEN \(isConfirmed) THEN \(instant)::timestamptz END)
    """
  }

  /// Renames a paired device.
  /// - Parameter parents: the devices of the child's parent.
  static func rename(_ child: String, _ name: String?, bundleID: String, parents: [String]) -> Query {
    """
    UPDATE devices SET name = coalesce(\(name)::text, name)
    WHERE bundle_id = \(bundleID) AND device_id = ANY(\(parents)) AND child_device_id = \(child)
    """
  }

  /// Confirms the pairing of a paired child that joins with a code. From now on the child belongs to the device that
  /// made the code, and to no other device of that parent. It stays there when support transfers the purchase.
  /// - Parameters:
  ///   - device: the device that made the code, one of the `parents`.
  ///   - parents: the devices of the child's parent.
  static func confirm(
    _ child: String, name: String?, bundleID: String, with device: String, of parents: [String],
    at instant: Date
  ) -> Query {
    """
    WITH known AS MATERIALIZED (
      SELECT id, paired_at, row_number() OVER (ORDER BY device_id <> \(device), paired_at, id) AS place
      FROM devices
      WHERE bundle_id = \(bundleID) AND device_id = ANY(\(parents)) AND child_device_id = \(child)
    ), ended AS (
      DELETE FROM devices WHERE id IN (SELECT id FROM known WHERE place > 1))
    UPDATE devices SET device_id = \(device), name = coalesce(\(name)::text, name),
      paired_at = (SELECT min(paired_at) FROM known), confirmed_at = coalesce(confirmed_at, \(instant)),
      moved_by = NULL, former_parents = '{}'
    WHERE id IN (SELECT id FROM known WHERE place = 1)
    """
  }

  /// Ends the pairings of a child, and returns a row for each.
  static func delete(_ child: String, bundleID: String, parents: [String], at instant: Date) -> Query {
    end(
      where: "bundle_id = \(bundleID) AND device_id = ANY(\(parents)) AND child_device_id = \(child)",
      at: instant)
  }

  /// Ends pairings, and returns a row for each. From now on the children's secrets, with the Apple Accounts of the joins,
  /// are kept for ``UnusedDeviceRows/lifetime``. A secret that another transaction has locked is skipped, because this
  /// transaction does not hold the child's lock.
  /// - Parameter condition: on the row `own` of the table `devices`.
  package static func end(where condition: Query, at instant: Date) -> Query {
    """
    WITH ended AS (
      DELETE FROM devices AS own WHERE \(condition) RETURNING bundle_id, child_device_id
    ), kept AS (
      UPDATE device_secrets SET set_at = \(instant) WHERE (bundle_id, device_id) IN (
        SELECT secret.bundle_id, secret.device_id FROM ended CROSS JOIN LATERAL (
          SELECT bundle_id, device_id FROM device_secrets s
          WHERE s.bundle_id = ended.bundle_id AND s.device_id = ended.child_device_id
          FOR UPDATE SKIP LOCKED) AS secret))
    SELECT FROM ended
    """
  }

  /// The parents with whom a child's device confirmed a pairing (`device_id`).
  static func confirmed(by child: String, bundleID: String) -> Query {
    """
    SELECT device_id FROM devices
    WHERE bundle_id = \(bundleID) AND child_device_id = \(child) AND confirmed_at IS NOT NULL
    """
  }

  /// Ends the pairings that a child's device confirmed (`device_id`, `paired_at`).
  static func endConfirmed(of child: String, bundleID: String) -> Query {
    """
    DELETE FROM devices WHERE bundle_id = \(bundleID) AND child_device_id = \(child) AND confirmed_at IS NOT NULL
    RETURNING device_id, paired_at
    """
  }

  /// Gives the children of a device that lost its place in a purchase or a trial to the device that has the place now.
  /// A device that has access by another record keeps them.
  /// - Parameter purchase: the `originalTransactionId`, with which ``giveBack(to:by:from:in:)`` finds them; `nil` for a
  ///   trial.
  package static func move(
    from former: String, to device: String, by purchase: String?, in app: App, at instant: Date
  ) -> Query {
    """
    UPDATE devices AS pairing SET device_id = \(device), moved_by = coalesce(moved_by, \(purchase)::text),
      former_parents = CASE WHEN \(former) = ANY(former_parents) THEN former_parents
        WHEN cardinality(former_parents) < 20 THEN former_parents || \(former)::text
        ELSE former_parents[:10] || former_parents[12:] || \(former)::text END
    WHERE bundle_id = \(app.bundleID) AND device_id = \(former) AND child_device_id <> \(device)
      AND \(isNew(with: device, in: app)) AND NOT \(hasAccess("\(former)", in: app, at: instant))
    """
  }

  /// Gives a device to which support transferred a purchase the children that it had before they moved with the
  /// purchase, whichever device has them now. Children that had moved with another purchase come back too, but only
  /// from a device that loses this one.
  ///
  /// Where several devices have the same child, its confirmed or last pairing comes back, and the others end. This
  /// device made the last pairing itself, and gave the name.
  /// - Parameter former: the owner before the transfer.
  package static func giveBack(
    to device: String, by purchase: String, from former: String, in app: App
  ) -> Query {
    """
    WITH moved AS MATERIALIZED (
      SELECT id,
        row_number() OVER (PARTITION BY child_device_id ORDER BY confirmed_at IS NULL, paired_at DESC, id) AS place
      FROM devices AS pairing
      WHERE bundle_id = \(app.bundleID) AND moved_by IS NOT NULL AND \(device) = ANY(former_parents)
        AND (moved_by = \(purchase) OR device_id = \(former) OR EXISTS (
          SELECT FROM purchase_devices d
          WHERE d.original_transaction_id = \(purchase) AND d.device_id = pairing.device_id))
        AND device_id <> \(device) AND child_device_id <> \(device)
        AND \(isNew(with: device, in: app))
    ), back AS (
      UPDATE devices SET device_id = \(device) WHERE id IN (SELECT id FROM moved WHERE place = 1)
      RETURNING child_device_id)
    DELETE FROM devices
    WHERE id IN (SELECT id FROM moved WHERE place > 1) AND child_device_id IN (SELECT child_device_id FROM back)
    """
  }

  /// Whether a device has access by a record of its own.
  static func hasAccess(_ device: Query, in app: App, at instant: Date) -> Query {
    """
    (EXISTS (
        SELECT FROM subscriptions
        WHERE device_id = \(device) AND user_id IS NULL AND bundle_id = \(app.bundleID) AND is_counted
          AND status IN ('trial', 'active', 'grace'))
      OR EXISTS (
        SELECT FROM purchase_devices d JOIN subscriptions s USING (original_transaction_id)
        WHERE d.device_id = \(device) AND d.bundle_id = \(app.bundleID) AND NOT d.is_barred
          AND \(app.sharesPurchases)::boolean AND s.is_counted AND s.status IN ('trial', 'active', 'grace'))
      OR EXISTS (
        SELECT FROM trials own JOIN trials original ON original.id = coalesce(own.continues, own.id)
        WHERE own.bundle_id = \(app.bundleID) AND own.device_id = \(device)
          AND original.ends_at + coalesce((
            -- The trial stands still in free access.
            SELECT sum(least(f.ends_at, \(instant)) - greatest(f.starts_at, original.started_at)) FROM free_access f
            WHERE f.bundle_id = own.bundle_id AND f.starts_at < \(instant)
              AND (f.ends_at > original.started_at OR f.ends_at IS NULL)), '0') > \(instant))
      OR EXISTS (
        SELECT FROM grants
        WHERE device_id = \(device) AND bundle_id = \(app.bundleID) AND revoked_at IS NULL
          AND starts_at <= \(instant) AND (ends_at IS NULL OR ends_at > \(instant))))
    """
  }

  /// Whether the child of the row `pairing` is not the device's already.
  private static func isNew(with device: String, in app: App) -> Query {
    """
    NOT EXISTS (
      SELECT FROM devices known
      WHERE known.bundle_id = \(app.bundleID) AND known.device_id = \(device)
        AND known.child_device_id = pairing.child_device_id)
    """
  }
}

extension PostgresConnection {
  /// Ends the pairings that a device confirmed with its former secret, and tells the parents: the sender of that secret
  /// may not have been the customer.
  /// - Returns: whether it had any.
  @discardableResult
  package nonisolated(nonsending) func endConfirmedPairings(
    of device: String, in app: App, _ catalog: AppCatalog, at instant: Date
  ) async throws -> Bool {
    let parents = try await query(DeviceRows.confirmed(by: device, bundleID: app.bundleID)).map {
      try $0.decode("device_id", as: String.self)
    }
    guard !parents.isEmpty else { return false }
    let siblings = try await childStates(of: parents, in: app, at: instant)
    let ended = try await query(DeviceRows.endConfirmed(of: device, bundleID: app.bundleID)).map {
      (
        parent: try $0.decode("device_id", as: String.self),
        pairedAt: try $0.decode("paired_at", as: Date.self)
      )
    }
    let households = try await households(of: ended.map(\.parent), in: app, at: instant)
    let events = ended.compactMap { pairing in
      households[pairing.parent]?.event(
        .childUnpaired, of: device, with: pairing.parent, pairedAt: pairing.pairedAt, in: app, at: instant)
    }
    try await tell(
      device, events, of: app, in: catalog, endsPairing: true, besides: siblings, at: instant)
    return true
  }
}

/// The pairings of a plan, or of a parent's device without one, and those of a child's device by devices with nothing on
/// record, on a day (UTC), in `customer_event_bytes`: pairing and unpairing adds few rows of events, and one plan gives
/// few devices a token.
enum PairingDayRows {
  /// The pairings of a day beyond the number of children that may be active.
  static let spare = 20

  /// Charges one pairing to the day of a plan or device, unless the day has its number. Other pairings of the plan or
  /// the child wait for the row.
  /// - Parameter payer: ``Household/budget``, or `child/` or `joined/` and the child's device.
  static func charge(_ payer: String, in bundleID: String, upTo most: Int, at instant: Date) -> Query {
    """
    INSERT INTO customer_event_bytes AS known (day, bundle_id, customer_digest, bytes, pairings)
    VALUES (\(Day(of: instant).description)::text::date, \(bundleID), sha256(convert_to(\(payer)::text, 'UTF8')), 0, 1)
    ON CONFLICT (day, bundle_id, customer_digest) DO UPDATE SET pairings = known.pairings + 1
      WHERE known.pairings < \(most)
    """
  }
}

/// Statements on the secrets, consents and pairings of devices with nothing on record, which any client can add under
/// invented ids.
package enum UnusedDeviceRows {
  /// How long a secret, a consent and a pairing of such a device are kept, and how long a purchase is on record that
  /// another device took. After that the device's next request stores its secret again.
  package static let lifetime: TimeInterval = 30 * 86_400

  /// A row that is old enough to be deleted if its device is unused.
  package protocol OldRow: Sendable {
    /// The device whose lock its deletion needs.
    var deviceID: String { get }
    /// Whether this device has nothing on record.
    var isUnused: Bool { get }

    init(_ row: Row) throws
  }

  /// A secret that is old enough; a row of ``page(before:after:limit:)``.
  package struct OldSecret: OldRow {
    package var bundleID: String
    package var deviceID: String
    var setAt: Date
    package var isUnused: Bool

    package init(_ row: Row) throws {
      bundleID = try row.decode("bundle_id")
      deviceID = try row.decode("device_id")
      setAt = try row.decode("set_at")
      isUnused = try row.decode("is_unused")
    }
  }

  /// A pairing that is old enough; a row of ``page(of:before:after:limit:)``.
  package struct OldPairing: OldRow {
    package var id: UUID
    /// The parent's device.
    package var deviceID: String
    package var isUnused: Bool

    package init(_ row: Row) throws {
      id = try row.decode("id")
      deviceID = try row.decode("device_id")
      isUnused = try row.decode("is_unused")
    }
  }

  /// A page of the secrets that are old enough, in the order in which they were set.
  /// - Parameter last: the last secret of the page before; `nil` for the first page.
  package static func page(before oldest: Date, after last: OldSecret?, limit: Int) -> Query {
    """
    SELECT bundle_id, device_id, set_at, \(isUnused("own.device_id", since: oldest)) AS is_unused
    FROM (
      SELECT bundle_id, device_id, set_at FROM device_secrets
      WHERE set_at < \(oldest) AND (set_at, bundle_id, device_id)
        > (\(last?.setAt ?? .distantPast)::timestamptz, \(last?.bundleID ?? ""), \(last?.deviceID ?? ""))
      ORDER BY set_at, bundle_id, device_id LIMIT \(limit)) AS own
    ORDER BY set_at, bundle_id, device_id
    """
  }

  /// Deletes these secrets where the device still has nothing on record. A consent ends with the secret that it came
  /// with. The transaction holds the devices' locks.
  package static func deleteSecrets(_ secrets: [OldSecret], before oldest: Date, at instant: Date) -> Query {
    """
    WITH gone AS (
      DELETE FROM device_secrets AS own
      USING unnest(\(secrets.map(\.bundleID))::text[], \(secrets.map(\.deviceID))::text[]) AS old (bundle_id, device_id)
      WHERE own.bundle_id = old.bundle_id AND own.device_id = old.device_id AND own.set_at < \(oldest)
        AND \(isUnused("own.device_id", since: oldest))
      RETURNING own.bundle_id, own.device_id
    ), withdrawn AS (
      UPDATE consents SET is_given = false, changed_at = \(instant), withdrawn_at = \(instant)
      FROM gone WHERE consents.bundle_id = gone.bundle_id AND consents.customer = gone.device_id AND is_given
    )
    SELECT FROM gone
    """
  }

  /// Deletes old consents of devices that have no secret and nothing on record. A consent of a customer whom a person
  /// or a rule has dealt with stays, because an answer to the App Store may have needed it.
  /// - Parameter bundleIDs: the apps whose customers are devices.
  package static func deleteConsents(in bundleIDs: [String], before oldest: Date, limit: Int) -> Query {
    """
    DELETE FROM consents WHERE ctid = ANY(ARRAY(
      SELECT own.ctid FROM consents AS own
      WHERE own.changed_at < \(oldest) AND own.bundle_id = ANY(\(bundleIDs))
        AND NOT EXISTS (
          SELECT FROM device_secrets s WHERE s.bundle_id = own.bundle_id AND s.device_id = own.customer)
        AND \(isUnused("own.customer", since: oldest))
        AND NOT EXISTS (
          SELECT FROM support_actions a WHERE a.from_customer = own.customer AND a.action NOT LIKE '%-device-secret')
        AND NOT EXISTS (
          SELECT FROM support_actions a WHERE a.to_customer = own.customer AND a.action NOT LIKE '%-device-secret')
      LIMIT \(limit)))
    """
  }

  /// A page of the pairings that are old enough, of apps without free access since `oldest`.
  ///
  /// The parent's record alone decides about a pairing. Clients choose the ids of paired devices freely, also those of
  /// devices with a purchase.
  /// - Parameters:
  ///   - bundleIDs: the apps that allow no pairing to a device with nothing on record.
  ///   - last: the last pairing of the page before; `nil` for the first page.
  package static func page(of bundleIDs: [String], before oldest: Date, after last: OldPairing?, limit: Int)
    -> Query
  {
    """
    SELECT id, device_id, (\(hasNoRecord("own.device_id", since: oldest))) AS is_unused
    FROM (
      SELECT id, bundle_id, device_id FROM devices AS own
      WHERE id > coalesce(\(last?.id)::uuid, '00000000-0000-0000-0000-000000000000')
        AND bundle_id = ANY(\(bundleIDs)) AND \(isOldPairing(before: oldest))
      ORDER BY id LIMIT \(limit)) AS own
    ORDER BY id
    """
  }

  /// Deletes these pairings where the parent still has nothing on record. The transaction holds the parents' locks.
  package static func deletePairings(_ pairings: [OldPairing], before oldest: Date, at instant: Date) -> Query
  {
    DeviceRows.end(
      where: """
        id = ANY(\(pairings.map(\.id))) AND \(isOldPairing(before: oldest))
          AND \(hasNoRecord("own.device_id", since: oldest))
        """, at: instant)
  }

  private static func isOldPairing(before oldest: Date) -> Query {
    """
    own.paired_at < \(oldest) AND NOT EXISTS (
      SELECT FROM free_access f
      WHERE f.bundle_id = own.bundle_id AND (f.ends_at IS NULL OR f.ends_at >= \(oldest)))
    """
  }

  /// The purchases of one app that another device took from a device by the app's rules since an instant.
  static func lostPurchases(of device: Query, bundleID: Query, since oldest: Date) -> Query {
    """
    SELECT lost.original_transaction_id FROM support_actions lost
    WHERE lost.from_customer = \(device) AND lost.bundle_id = \(bundleID) AND lost.action = 'transfer'
      AND lost.by = 'policy' AND lost.actor = 'receiptd' AND lost.at >= \(oldest)
    """
  }

  /// Whether a device of the app of the row `own` has no trial, purchase, grant or pairing, and lost no purchase
  /// lately.
  private static func isUnused(_ device: Query, since oldest: Date) -> Query {
    """
    (\(hasNoRecord(device, since: oldest))
      AND NOT EXISTS (SELECT FROM devices r WHERE r.bundle_id = own.bundle_id AND r.device_id = \(device))
      AND NOT EXISTS (SELECT FROM devices r WHERE r.bundle_id = own.bundle_id AND r.child_device_id = \(device)))
    """
  }

  /// Whether a device of the app of the row `own` has no record beside pairings.
  private static func hasNoRecord(_ device: Query, since oldest: Date) -> Query {
    """
    NOT EXISTS (SELECT FROM subscriptions r WHERE r.device_id = \(device))
      AND NOT EXISTS (SELECT FROM purchase_devices r WHERE r.device_id = \(device) AND r.bundle_id = own.bundle_id)
      AND NOT EXISTS (SELECT FROM trials r WHERE r.device_id = \(device) AND r.bundle_id = own.bundle_id)
      AND NOT EXISTS (SELECT FROM grants r WHERE r.device_id = \(device) AND r.bundle_id = own.bundle_id)
      AND NOT EXISTS (\(lostPurchases(of: device, bundleID: "own.bundle_id", since: oldest)))
    """
  }
}
