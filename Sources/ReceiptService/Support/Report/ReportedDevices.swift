import Foundation
import Subscriptions

/// A device that has a purchase, in a report.
struct ReportedHolder: Sendable {
  var deviceID: String
  /// When it got the purchase.
  var since: Date
}

/// A child's device that is paired with a customer's device, in a report.
struct ReportedChild: Sendable {
  var childDeviceID: String
  var name: String?
  var pairedAt: Date
  /// `active`, or `paused` beyond the limit.
  var status: String
}

extension [ReportedChild] {
  /// - Parameters:
  ///   - paired: in the order of pairing.
  ///   - limit: how many of them are active; `nil` for all.
  init(_ paired: [PairedDevice], limit: Int?) {
    self = paired.enumerated().map { index, device in
      ReportedChild(
        childDeviceID: device.childDeviceID, name: device.name, pairedAt: device.pairedAt,
        status: PairedDevice.status(at: index, limit: limit))
    }
  }
}
