/// The result of ``SupportDesk/resetDeviceSecret(of:bundleID:by:)``.
public struct DeviceSecretResetResult: Encodable, Sendable, CustomStringConvertible {
  /// The device.
  let deviceID: String
  /// The app.
  let bundleID: String
  /// Whether the device had a secret.
  let isChanged: Bool

  /// One line.
  public var description: String {
    "\(deviceID): \(isChanged ? "the secret is reset" : "the device had no secret")"
  }
}
