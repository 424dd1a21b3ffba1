import Foundation
import Postgres

/// Statements on the table `devices`: the devices that are paired to a customer's device.
enum DeviceRows {
  /// Oldest pairing first: these stay active when the limit shrinks.
  static func select(bundleID: String, deviceID: String) -> Query {
    """
    SELECT child_device_id, name, paired_at FROM devices
    WHERE bundle_id = \(bundleID) AND device_id = \(deviceID)
    ORDER BY paired_at, id
    """
  }

  static func insert(
    _ child: String, name: String?, bundleID: String, deviceID: String, at instant: Date
  ) -> Query {
    """
    INSERT INTO devices (bundle_id, device_id, child_device_id, name, paired_at)
    VALUES (\(bundleID), \(deviceID), \(child), \(name)::text, \(instant))
    """
  }

  static func rename(_ child: String, name: String?, bundleID: String, deviceID: String) -> Query {
    """
    UPDATE devices SET name = coalesce(\(name)::text, name)
    WHERE bundle_id = \(bundleID) AND device_id = \(deviceID) AND child_device_id = \(child)
    """
  }

  static func delete(_ child: String, bundleID: String, deviceID: String) -> Query {
    """
    DELETE FROM devices
    WHERE bundle_id = \(bundleID) AND device_id = \(deviceID) AND child_device_id = \(child)
    """
  }
}
