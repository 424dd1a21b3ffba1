import Foundation

/// The result of ``SupportDesk/extendTrial(of:bundleID:days:by:)``.
public struct TrialExtensionResult: Encodable, Sendable, CustomStringConvertible {
  /// The device.
  let deviceID: String
  /// The app.
  let bundleID: String
  /// When the trial began.
  let startedAt: Date
  /// When it ends; free access, now or later, postpones it.
  let endsAt: Date
  /// The number of days added.
  let extendedDays: Int

  /// One line.
  public var description: String { "\(deviceID): the trial ends at \(endsAt.rfc3339)" }
}
