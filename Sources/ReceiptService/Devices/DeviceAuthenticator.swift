import FoundationEssentials
import HTTP
import Postgres
import Subscriptions

/// Decides whether a request may act for the device that it names: a device id is a name, not a secret.
///
/// - A device without a kept secret is served without one, as builds did that never sent any.
/// - A device with a kept secret is served with that secret alone. While nothing is on record of it, an app that sends no
///   secret but a proof ends that: the first proof tells whose device it is.
/// - The first secret is kept at once where nothing is on record of the device. Otherwise a proof of the device's Apple
///   Account must come with it, and all that is on record must be that account's: a stranger can bind a purchase of
///   another account to a device that has no secret yet, and must not take the device over by it.
/// - Another secret replaces the kept one where a proof of an account on record comes with it. All that was bound
///   meanwhile was bound with the secret.
struct DeviceAuthenticator: Sendable {
  let pool: PostgresPool
  let clock: ServiceClock

  /// Refuses a request that may not act for the device.
  /// - Throws: 401 `unauthenticated`.
  func require(
    _ device: String, of app: App, secret: DeviceSecret?, proof: AccountProof? = nil
  ) async throws {
    guard try await admits(device, of: app, secret: secret, proof: proof) else {
      throw ServiceError.deviceSecretNeeded
    }
  }

  /// Whether the request may act for the device. Keeps the secret, or replaces the kept one, where the rules say so.
  func admits(
    _ device: String, of app: App, secret: DeviceSecret?, proof: AccountProof?
  ) async throws -> Bool {
    let kept = try await DeviceSecretRows.decode(
      pool.query(DeviceSecretRows.select(device, bundleID: app.bundleID)))
    guard let secret else {
      if kept == nil { return true }
      guard let proof else { return false }
      return try await forgetUnproven(device, in: app, proof)
    }
    if let kept {
      if secret.matches(kept) { return true }
      if proof == nil { return false }
    }
    return try await set(secret, of: device, in: app, proof: proof)
  }

  /// Forgets the secret of a device that has nothing on record, where an app that sends none shows a proof. Else a stranger
  /// could lock an old build out by setting a secret before its first purchase.
  /// - Returns: whether the request may act for the device.
  private func forgetUnproven(_ device: String, in app: App, _ proof: AccountProof) async throws -> Bool {
    let instant = clock.now()
    return try await pool.withTransaction { connection in
      let answers = try await connection.pipeline([
        CustomerFollowUp.lock([.device(device)]),
        DeviceSecretRows.record(of: device, in: app, proof: proof),
      ])
      guard try DeviceRecord(answers[1]).isEmpty else { return false }
      _ = try await connection.pipeline([
        DeviceSecretRows.delete(device, bundleID: app.bundleID),
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
      // The lock under which a trial starts, a child is paired and a purchase is bound: the record stands still.
      let answers = try await connection.pipeline([
        CustomerFollowUp.lock([.device(device)]),
        DeviceSecretRows.select(device, bundleID: app.bundleID),
        DeviceSecretRows.record(of: device, in: app, proof: proof),
      ])
      let kept = try DeviceSecretRows.decode(answers[1])
      let record = try DeviceRecord(answers[2])
      if let kept {
        if secret.matches(kept) { return true }
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

/// The record of a device in the database, compared with a proof.
struct DeviceRecord: Sendable {
  /// Neither a trial, a purchase, a grant nor a paired device.
  let isEmpty: Bool
  /// Whether the proof is of the account of its trial or of one of its purchases.
  let matchesSome: Bool
  /// Whether its trial and its purchases are all of the proof's account, and there is at least one.
  let matchesAll: Bool

  /// - Parameter rows: the answer to ``DeviceSecretRows/record(of:in:proof:)``.
  init(_ rows: Rows) throws {
    let row = rows[0]
    isEmpty = try row.decode(0)
    matchesSome = try row.decode(1)
    matchesAll = try row.decode(2)
  }
}
