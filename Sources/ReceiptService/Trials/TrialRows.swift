import FoundationEssentials
import Postgres
import Subscriptions

/// The table `trials`.
enum TrialRows {
  /// A trial of an app, and which device and account it is of.
  struct Found: Sendable {
    var id: UUID
    /// The trial that counts: another one where this continues it.
    var toldID: UUID
    var deviceID: String
    var appTransactionID: String?
    var trial: Trial
  }

  /// The trials of this device and of this account, wherever they were started. A trial of the sandbox neither uses up
  /// one of production nor goes on as one.
  static func select(
    bundleID: String, deviceID: String, appTransactionID: String?, environment: String
  ) -> Query {
    """
    SELECT own.id, told.id, own.device_id, own.app_transaction_id, told.started_at, told.ends_at
    FROM trials own JOIN trials told ON told.id = coalesce(own.continues, own.id)
    WHERE own.bundle_id = \(bundleID) AND own.environment = \(environment)
      AND (own.device_id = \(deviceID) OR own.app_transaction_id = \(appTransactionID)::text)
    """
  }

  static func decode(_ row: Row) throws -> Found {
    Found(
      id: try row.decode(0), toldID: try row.decode(1), deviceID: try row.decode(2),
      appTransactionID: try row.decode(3),
      trial: Trial(startedAt: try row.decode(4), endsAt: try row.decode(5)))
  }

  /// A trial of its own.
  /// - Parameter environment: the app transaction's.
  static func start(
    _ trial: Trial, bundleID: String, deviceID: String, appTransactionID: String?, environment: String
  ) -> Query {
    """
    INSERT INTO trials (bundle_id, device_id, app_transaction_id, started_at, ends_at, environment)
    VALUES (\(bundleID), \(deviceID), \(appTransactionID)::text, \(trial.startedAt), \(trial.endsAt),
      \(environment))
    """
  }

  /// A device that goes on with what its account started elsewhere.
  ///
  /// The trial is held until the commit, so that whoever extends it meanwhile tells this device too.
  static func `continue`(_ found: Found, bundleID: String, deviceID: String) -> Query {
    """
    INSERT INTO trials (bundle_id, device_id, started_at, ends_at, continues, environment)
    SELECT \(bundleID)::text, \(deviceID)::text, started_at, ends_at, id, environment
    FROM trials WHERE id = \(found.toldID) FOR SHARE
    """
  }

  /// Notes whose account a device's trial is, where that was not known.
  static func setAccount(_ appTransactionID: String, of found: Found) -> Query {
    "UPDATE trials SET app_transaction_id = \(appTransactionID) WHERE id = \(found.id)"
  }
}
