import Foundation
import Postgres

/// A device that is paired to a customer's device; a row of ``DeviceRows/select(bundleID:deviceID:)``.
struct PairedDevice: Sendable {
  var childDeviceID: String
  var name: String?
  var pairedAt: Date

  /// The status of the device that was paired as the `index`-th: `active`, or `paused` beyond the limit.
  static func status(at index: Int, limit: Int?) -> String {
    limit.map { index < $0 } ?? true ? "active" : "paused"
  }

  init(_ row: Row) throws {
    childDeviceID = try row.decode("child_device_id")
    name = try row.decode("name")
    pairedAt = try row.decode("paired_at")
  }
}
