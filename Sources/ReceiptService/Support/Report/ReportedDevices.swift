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
  /// Why it is paused; `null` if it is active.
  var pausedBecause: String?
}

extension [ReportedChild] {
  /// - Parameters:
  ///   - paired: in the order of pairing.
  ///   - entitlements: those of the customer; they limit how many of the devices are active.
  init(_ paired: [PairedDevice], under entitlements: Entitlements) {
    let limit = entitlements.features.limit(for: Pairing.limitFeature)
    let access = [entitlements.tier, entitlements.status.rawValue].compactMap(\.self).joined(separator: ", ")
    self = paired.enumerated().map { index, device in
      var child = ReportedChild(
        childDeviceID: device.childDeviceID, name: device.name, pairedAt: device.pairedAt,
        status: PairedDevice.status(at: index, limit: limit))
      if let limit, index >= limit {
        let earlier = index == 0 ? "" : ", and \(index) \(index == 1 ? "was" : "were") paired before it"
        child.pausedBecause = "\(Pairing.limitFeature) is \(limit) (\(access))\(earlier)"
      }
      return child
    }
  }
}
