import Foundation
import Postgres
import Subscriptions

/// Statements on the table `trials`.
enum TrialRows {
  /// A device's row of ``select(bundleID:deviceID:appTransactionID:environment:)``.
  struct DeviceTrial: Sendable {
    var id: UUID
    /// The trial that the device joined, or its own.
    var originalID: UUID
    var deviceID: String
    var appTransactionID: String?
    /// Whether the account that was asked for started it, also before it was erased.
    var isOfAccount: Bool

    init(_ row: Row) throws {
      id = try row.decode("id")
      originalID = try row.decode("original_id")
      deviceID = try row.decode("device_id")
      appTransactionID = try row.decode("app_transaction_id")
      isOfAccount = try row.decode("is_of_account")
    }
  }

  /// The trials of this device and of this account in one environment.
  static func select(
    bundleID: String, deviceID: String, appTransactionID: String?, environment: String
  ) -> Query {
    """
    SELECT id, coalesce(continues, id) AS original_id, device_id, app_transaction_id, coalesce(
      app_transaction_id IN (\(appTransactionID)::text, receiptd_erased_account(\(appTransactionID))), false) AS is_of_account
    FROM trials
    WHERE bundle_id = \(bundleID) AND environment = \(environment) AND (device_id = \(deviceID)
      OR app_transaction_id IN (\(appTransactionID)::text, receiptd_erased_account(\(appTransactionID))))
    """
  }

  /// Inserts a new trial.
  /// - Parameter environment: the app transaction's.
  static func start(
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
  static func join(_ started: DeviceTrial, bundleID: String, deviceID: String) -> Query {
    """
    INSERT INTO trials (bundle_id, device_id, started_at, ends_at, continues, environment)
    SELECT \(bundleID)::text, \(deviceID)::text, started_at, ends_at, id, environment
    FROM trials WHERE id = \(started.originalID) FOR SHARE
    """
  }

  /// Sets the account of a trial that has none.
  static func setAccount(_ appTransactionID: String, of trial: DeviceTrial) -> Query {
    "UPDATE trials SET app_transaction_id = \(appTransactionID) WHERE id = \(trial.id)"
  }
}
