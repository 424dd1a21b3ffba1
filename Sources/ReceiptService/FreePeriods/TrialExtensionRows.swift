import Foundation
import Postgres
import Subscriptions

/// Statements that extend a trial.
enum TrialExtensionRows {
  /// The trials of a device (`id` is that of the original trial).
  static func select(_ device: String, bundleID: String) -> Query {
    """
    SELECT original.id, original.started_at, original.ends_at, own.environment
    FROM trials own JOIN trials original ON original.id = coalesce(own.continues, own.id)
    WHERE own.bundle_id = \(bundleID) AND own.device_id = \(device)
    """
  }

  static func extend(_ id: UUID, until end: Date, days: Int) -> Query {
    """
    UPDATE trials SET ends_at = \(end), extended_days = \(days)
    WHERE id = \(id) AND extended_days = 0 RETURNING id
    """
  }

  /// The devices of a trial: the one that started it, and those that joined it.
  static func devices(of trial: UUID) -> Query {
    "SELECT device_id FROM trials WHERE id = \(trial) OR continues = \(trial)"
  }

  /// The record of an earlier extension, by any of its devices.
  static func earlier(_ trial: UUID, bundleID: String) -> Query {
    """
    SELECT by, at, reason FROM support_actions
    WHERE to_customer IN (SELECT device_id FROM trials WHERE id = \(trial) OR continues = \(trial))
      AND bundle_id = \(bundleID) AND action = 'extend-trial'
    ORDER BY id DESC LIMIT 1
    """
  }
}
