import Foundation
import Postgres
import Subscriptions

/// Statements on the table `trials`.
package enum TrialRows {
  /// A device's row of ``select(bundleID:deviceID:appTransactionID:environment:)``.
  package struct DeviceTrial: Sendable {
    package var id: UUID
    /// The trial that the device joined, or its own.
    package var originalID: UUID
    package var deviceID: String
    package var appTransactionID: String?
    /// Whether the account that was asked for started it, also before it was erased.
    package var isOfAccount: Bool

    package init(_ row: Row) throws {
      id = try row.decode("id")
      originalID = try row.decode("original_id")
      deviceID = try row.decode("device_id")
      appTransactionID = try row.decode("app_transaction_id")
      isOfAccount = try row.decode("is_of_account")
    }
  }

  /// A device that has a trial; a row of ``members(of:)``.
  package struct Member: Sendable {
    /// The id of its row: the trial's own for the device that began it.
    package var id: UUID
    /// The device. Its last proof is not stored, so that it joined counts as the last one.
    package var holder: Holder
    /// The trial's recent moves to another device.
    package var moves: MoveCount?

    package init(_ row: Row) throws {
      id = try row.decode("id")
      let since = try row.decode("since", as: Date.self)
      holder = Holder(
        try row.decode("device_id"), since: since, provedAt: since, isBarred: false, isProven: true,
        displaced: try [Displaced](row: row))
      moves = try MoveCount(row)
    }
  }

  /// The trials of this device and of this account in one environment.
  ///
  /// One index scan for the device and one for the account: an OR over both columns may read the whole table.
  package static func select(
    bundleID: String, deviceID: String, appTransactionID: String?, environment: String
  ) -> Query {
    """
    SELECT id, coalesce(continues, id) AS original_id, device_id, app_transaction_id, coalesce(
      app_transaction_id IN (\(appTransactionID)::text, receiptd_erased_account(\(appTransactionID))), false) AS is_of_account
    FROM trials WHERE bundle_id = \(bundleID) AND environment = \(environment) AND device_id = \(deviceID)
    UNION ALL
    SELECT id, coalesce(continues, id), device_id, app_transaction_id, true
    FROM trials WHERE bundle_id = \(bundleID) AND environment = \(environment) AND device_id <> \(deviceID)
      AND app_transaction_id IN (\(appTransactionID)::text, receiptd_erased_account(\(appTransactionID)))
    """
  }

  /// The devices that have a trial, without erased ones; the one that joined longest ago first.
  package static func members(of trial: UUID) -> Query {
    """
    SELECT member.id, member.device_id, coalesce(member.joined_at, original.started_at) AS since,
      member.displaced_device_id, member.displaced_at, member.next_displaced_device_id, member.next_displaced_at,
      original.counted_moves, original.counted_moves_since
    FROM trials AS original, LATERAL (
      SELECT original.id, original.device_id, original.joined_at, original.displaced_device_id, original.displaced_at,
        original.next_displaced_device_id, original.next_displaced_at
      UNION ALL
      SELECT joined.id, joined.device_id, joined.joined_at, joined.displaced_device_id, joined.displaced_at,
        joined.next_displaced_device_id, joined.next_displaced_at
      FROM trials AS joined
      WHERE joined.continues = original.id) AS member
    WHERE original.id = \(trial) AND NOT EXISTS (
      SELECT FROM support_actions WHERE action = 'erase-customer' AND to_customer = member.device_id)
    ORDER BY since, member.id
    """
  }

  /// Inserts a new trial.
  /// - Parameter environment: the app transaction's.
  package static func start(
    _ trial: Trial, id: UUID, bundleID: String, deviceID: String, appTransactionID: String?,
    environment: String
  ) -> Query {
    """
    INSERT INTO trials (id, bundle_id, device_id, app_transaction_id, started_at, ends_at, environment)
    VALUES (\(id), \(bundleID), \(deviceID), \(appTransactionID)::text, \(trial.startedAt), \(trial.endsAt),
      \(environment))
    """
  }

  /// Joins a device to a trial that its account started on another device.
  ///
  /// The share lock makes a concurrent extension wait for the commit, so that it also updates this device.
  package static func join(_ trial: UUID, bundleID: String, deviceID: String, at instant: Date) -> Query {
    """
    INSERT INTO trials (bundle_id, device_id, started_at, ends_at, continues, environment, joined_at)
    SELECT \(bundleID)::text, \(deviceID)::text, started_at, ends_at, id, environment, \(instant)::timestamptz
    FROM trials WHERE id = \(trial) FOR SHARE
    """
  }

  /// Counts one more move of a trial.
  package static func count(_ moves: MoveCount, in trial: UUID) -> Query {
    """
    UPDATE trials SET counted_moves = \(moves.moves)::bigint::integer, counted_moves_since = \(moves.since)
    WHERE id = \(trial)
    """
  }

  /// Gives a device's place in a trial to another device of the account, so that reinstalls add no rows.
  package static func replace(_ member: Member, by holder: Holder) -> Query {
    """
    UPDATE trials SET device_id = \(holder.deviceID), joined_at = \(holder.since),
      displaced_device_id = \(holder.firstDisplaced?.deviceID)::text,
      displaced_at = \(holder.firstDisplaced?.at)::timestamptz,
      next_displaced_device_id = \(holder.nextDisplaced?.deviceID)::text,
      next_displaced_at = \(holder.nextDisplaced?.at)::timestamptz
    WHERE id = \(member.id)
    """
  }

  /// Sets the devices that may have a member's place back to those of this holder.
  package static func setDisplaced(_ holder: Holder, of member: Member) -> Query {
    """
    UPDATE trials SET displaced_device_id = \(holder.firstDisplaced?.deviceID)::text,
      displaced_at = \(holder.firstDisplaced?.at)::timestamptz,
      next_displaced_device_id = \(holder.nextDisplaced?.deviceID)::text,
      next_displaced_at = \(holder.nextDisplaced?.at)::timestamptz
    WHERE id = \(member.id)
    """
  }

  /// Sets the account of a trial that has none.
  package static func setAccount(_ appTransactionID: String, of trial: DeviceTrial) -> Query {
    "UPDATE trials SET app_transaction_id = \(appTransactionID) WHERE id = \(trial.id)"
  }
}

extension Trial {
  /// Decodes a row with the table's columns `started_at`, `ends_at` and `environment`.
  package init(_ row: Row) throws {
    self.init(
      startedAt: try row.decode("started_at"), endsAt: try row.decode("ends_at"),
      environment: try StoreEnvironment(stored: row.decode("environment")))
  }
}

/// Statements that extend a trial.
package enum TrialExtensionRows {
  /// The trials of a device (`id` is that of the original trial).
  package static func select(_ device: String, bundleID: String) -> Query {
    """
    SELECT original.id, original.started_at, original.ends_at, own.environment
    FROM trials own JOIN trials original ON original.id = coalesce(own.continues, own.id)
    WHERE own.bundle_id = \(bundleID) AND own.device_id = \(device)
    """
  }

  package static func extend(_ id: UUID, until end: Date, days: Int) -> Query {
    """
    UPDATE trials SET ends_at = \(end), extended_days = \(days)
    WHERE id = \(id) AND extended_days = 0 RETURNING id
    """
  }

  /// The devices of a trial: the one that started it, and those that joined it; without erased ones.
  package static func devices(of trial: UUID) -> Query {
    """
    SELECT device_id FROM trials WHERE (id = \(trial) OR continues = \(trial)) AND NOT EXISTS (
      SELECT FROM support_actions WHERE action = 'erase-customer' AND to_customer = device_id)
    """
  }

  /// The record of an earlier extension, by any of its devices.
  package static func earlier(_ trial: UUID, bundleID: String) -> Query {
    """
    SELECT by, at, reason FROM support_actions
    WHERE to_customer IN (SELECT device_id FROM trials WHERE id = \(trial) OR continues = \(trial))
      AND bundle_id = \(bundleID) AND action = 'extend-trial'
    ORDER BY id DESC LIMIT 1
    """
  }
}
