import Postgres
import Subscriptions

extension SupportDesk {
  /// Forgets the secret of a device, where the app lost it and cannot prove the Apple Account.
  ///
  /// From then on the device is served without a secret, until its app sends one with a proof of its account.
  /// - Throws: ``SupportRefusal``, and errors of the database.
  public func resetDeviceSecret(
    of device: String, bundleID: String, by author: SupportAuthor
  ) async throws -> DeviceSecretResetAnswer {
    let app = try app(named: bundleID)
    guard case .device(let device) = try app.customer(named: device) else {
      throw SupportRefusal.invalid("\(bundleID) has no device secrets: its customers are users.")
    }
    let instant = clock.now()
    return try await pool.withTransaction { connection in
      let answers = try await connection.pipeline([
        CustomerFollowUp.lock([.device(device)]), DeviceSecretRows.delete(device, bundleID: bundleID),
      ])
      let isChanged = answers[1].affected > 0
      if isChanged {
        _ = try await connection.query(
          SupportActionRows.insert(
            [SupportAction(name: "reset-device-secret", bundleID: bundleID, to: .device(device))],
            by: author, at: instant))
      }
      return DeviceSecretResetAnswer(deviceID: device, bundleID: bundleID, isChanged: isChanged)
    }
  }
}

/// A reset of a device's secret, as support reads it.
public struct DeviceSecretResetAnswer: Encodable, Sendable, CustomStringConvertible {
  /// The device.
  let deviceID: String
  /// The app.
  let bundleID: String
  /// Whether there was a secret.
  let isChanged: Bool

  /// One line.
  public var description: String {
    "\(deviceID): \(isChanged ? "the secret is reset" : "there was no secret")"
  }
}
