import Foundation
import ReceiptdClient

struct RewardsFeatures: Codable, Sendable {
  var challengeCreation: Permission
  var screenTimeTracking: Permission
  var childDevices: Limit
  var analytics: String

  static let free = RewardsFeatures(
    challengeCreation: .denied, screenTimeTracking: .denied, childDevices: 0, analytics: "denied")
}

struct RewardsPlan: Sendable {
  let receiptd: Receiptd<RewardsFeatures>

  init(server: URL) {
    receiptd = Receiptd(
      ReceiptdConfiguration(server: server, bundleID: "com.screentimerewards"), free: .free)
  }

  /// At each launch, with `AppTransaction.shared`: the first launch starts the 30 days, and every launch proves the device.
  func launch(appTransaction: String) async throws {
    await receiptd.signIn(.device(try receiptd.configuration.deviceID()))
    try await receiptd.startTrial(appTransaction: appTransaction)
  }

  /// On the parent's device: the code to show, or why another child does not fit.
  func invite() async throws -> (code: String?, paywall: PaywallReason?) {
    let plan = receiptd.current
    let room = CountedLimit(plan.features.childDevices, count: try await receiptd.children().count)
    if let reason = room.reason(plan) { return (nil, reason) }
    return (try await receiptd.pairingCode().code, nil)
  }

  /// 'Your trial ends in 3 days'.
  var daysLeft: Int? { TimeLeft(receiptd.current, at: Date())?.days }
}
