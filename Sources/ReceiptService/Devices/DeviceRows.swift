import FoundationEssentials
import Postgres

/// The table `devices`: what is paired to a customer's device.
enum DeviceRows {
  /// In the order in which they were paired: the first ones stay active when a limit shrinks.
  static func select(bundleID: String, deviceID: String) -> Query {
    """
    SELECT child_device_id, name, paired_at FROM devices
    WHERE bundle_id = \(bundleID) AND device_id = \(deviceID)
    ORDER BY paired_at, id
    """
  }

  static func decode(_ row: Row) throws -> PairedDevice {
    PairedDevice(childDeviceID: try row.decode(0), name: try row.decode(1), pairedAt: try row.decode(2))
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

/// A device that is paired to a customer's.
struct PairedDevice: Sendable {
  var childDeviceID: String
  var name: String?
  var pairedAt: Date
}
