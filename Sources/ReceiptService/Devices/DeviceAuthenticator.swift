import Foundation
import HTTP
import Postgres
import Subscriptions

/// Decides whether a request may act for the device that it names. The device id alone is not a secret.
///
/// - A device without a stored secret needs none: older builds of the apps send none.
/// - A device with a stored secret needs that secret. Exception: while the device has no record (trial, purchase, grant
///   or paired device), a request with a proof and no secret deletes the stored secret.
/// - The first secret is stored at once while the device has no record. Otherwise the request must also have a proof of
///   the Apple Account of the whole record. An attacker can bind a purchase of another account to a device that has no
///   secret yet, and must not take over the device with it.
/// - A different secret replaces the stored one if the request has a proof of an account on record. Everything bound
///   since the first secret was bound with that secret.
struct DeviceAuthenticator: Sendable {
  let pool: PostgresPool
  let clock: ServiceClock

  /// Throws unless the request may act for the device.
  /// - Throws: 401 `unauthenticated`.
  func require(
    _ device: String, of app: App, secret: DeviceSecret?, proof: AccountProof? = nil
  ) async throws {
    guard try await admits(device, of: app, secret: secret, proof: proof) else {
      throw ServiceError.deviceSecretNeeded
    }
  }

  /// Whether the request may act for the device. Also stores or replaces the secret by the rules above.
  func admits(
    _ device: String, of app: App, secret: DeviceSecret?, proof: AccountProof?
  ) async throws -> Bool {
    let stored = try await DeviceSecretRows.decode(
      pool.query(DeviceSecretRows.select(device, bundleID: app.bundleID)))
    guard let secret else {
      if stored == nil { return true }
      guard let proof else { return false }
      return try await forgetUnproven(device, in: app, proof)
    }
    if let stored {
      if secret.matches(stored) { return true }
      if proof == nil { return false }
    }
    return try await set(secret, of: device, in: app, proof: proof)
  }

  /// Deletes the secret of a device without a record, for a request that has a proof and no secret. Otherwise an attacker
  /// could lock out an older build of the app by storing a secret before its first purchase.
  /// - Returns: whether the request may act for the device.
  private func forgetUnproven(_ device: String, in app: App, _ proof: AccountProof) async throws -> Bool {
    let instant = clock.now()
    return try await pool.withTransaction { connection in
      let answers = try await connection.pipeline([
        CustomerStatusWriter.lock([.device(device)]),
        DeviceSecretRows.record(of: device, in: app, proof: proof),
      ])
      guard try DeviceRecord(answers[1][0]).isEmpty else { return false }
      _ = try await connection.pipeline([
        DeviceSecretRows.delete(device, bundleID: app.bundleID, at: instant),
        SupportActionRows.insert(
          [SupportAction(name: "forget-device-secret", bundleID: app.bundleID, to: .device(device))],
          by: .accountProof, at: instant),
      ])
      return true
    }
  }

  /// - Returns: whether the request may act for the device.
  private func set(
    _ secret: DeviceSecret, of device: String, in app: App, proof: AccountProof?
  ) async throws -> Bool {
    let instant = clock.now()
    return try await pool.withTransaction { connection in
      // Trials, pairings and purchases take the same lock, so the record does not change meanwhile.
      let answers = try await connection.pipeline([
        CustomerStatusWriter.lock([.device(device)]),
        DeviceSecretRows.select(device, bundleID: app.bundleID),
        DeviceSecretRows.record(of: device, in: app, proof: proof),
      ])
      let stored = try DeviceSecretRows.decode(answers[1])
      let record = try DeviceRecord(answers[2][0])
      if let stored {
        if secret.matches(stored) { return true }
        guard proof != nil, record.isEmpty || record.matchesSome else { return false }
        _ = try await connection.pipeline([
          DeviceSecretRows.replace(secret, of: device, bundleID: app.bundleID, at: instant),
          SupportActionRows.insert(
            [SupportAction(name: "replace-device-secret", bundleID: app.bundleID, to: .device(device))],
            by: .accountProof, at: instant),
        ])
        return true
      }
      guard record.isEmpty || record.matchesAll else { return true }
      let inserted = try await connection.query(
        DeviceSecretRows.insert(secret, of: device, bundleID: app.bundleID, at: instant))
      return inserted.affected == 1
    }
  }
}
