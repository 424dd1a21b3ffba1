import Foundation

/// The result of ``SupportDesk/setFreeAccess(_:bundleID:by:)``.
public struct FreeAccessResult: Encodable, Sendable, CustomStringConvertible {
  /// The app.
  let bundleID: String
  /// Whether free access is on.
  let isOn: Bool
  /// Since when; `null` if it was never switched.
  @Nullable var since: Date?
  /// Whether this call changed it.
  let isChanged: Bool

  init(bundleID: String, isOn: Bool, since: Date?, isChanged: Bool) {
    self.bundleID = bundleID
    self.isOn = isOn
    self.since = since
    self.isChanged = isChanged
  }

  /// One line.
  public var description: String {
    let when = since.map { (isChanged ? " from " : ", already since ") + $0.rfc3339 } ?? ", and always was"
    return "\(bundleID): free access is \(isOn ? "on" : "off")\(when)"
  }
}
