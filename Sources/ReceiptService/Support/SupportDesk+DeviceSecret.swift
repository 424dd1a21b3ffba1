import Postgres
import Subscriptions
import Work

extension SupportDesk {
  /// Deletes the secret of a device whose app lost it and cannot prove the Apple Account.
  ///
  /// After that the device needs no secret until its app sends a new one with a proof of its account. A consent of the device
  /// ends with its secret.
  /// - Throws: ``SupportRefusal``; errors of the database.
  public func resetDeviceSecret(
    of device: String, bundleID: String, by author: SupportAuthor
  ) async throws -> DeviceSecretResetResult {
    let app = try app(named: bundleID)
    guard case .device(let device) = try app.customer(named: device) else {
      throw SupportRefusal.invalid("\(bundleID) has no device secrets: its customers are users.")
    }
    let instant = clock.now()
    return try await pool.withTransaction { connection in
      let answers = try await connection.pipeline([
        CustomerStatusWriter.lock([.device(device)]),
        DeviceSecretRows.delete(device, bundleID: bundleID, at: instant),
      ])
      let isChanged = answers[1].affected > 0
      if isChanged {
        _ = try await connection.query(
          SupportActionRows.insert(
            [SupportAction(name: "reset-device-secret", bundleID: bundleID, to: .device(device))],
            by: author, at: instant))
      }
      return DeviceSecretResetResult(deviceID: device, bundleID: bundleID, isChanged: isChanged)
    }
  }
}
