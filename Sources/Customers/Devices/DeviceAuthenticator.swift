import Actions
import AppStore
import Configuration
import Crypto
import Foundation
import HTTP
import HTTPTypes
import Postgres
import Requests
import Subscriptions
import Work

/// Decides whether a request may act for the device that it names. The device id alone is not a secret.
///
/// - A device without a stored secret needs none: older builds of the apps send none.
/// - A device with a stored secret needs that secret. Exception: while the device has no record (trial, purchase, grant
///   or paired device, or a purchase that another device took within 30 days), a request with a proof and no secret
///   deletes the stored secret, unless it only joins a trial.
/// - The first secret is stored at once while the device has no record. Otherwise the request must also have a proof of
///   the Apple Account of the whole record, and nothing may be without an account. An attacker can bind a trial or a
///   purchase of another account to a device that has no secret yet, and must not take over the device with it.
/// - After support's reset the account that support named decides about the first secret.
/// - A different secret replaces the stored one if the request has a proof of an account on record. Everything bound
///   since the first secret was bound with that secret. A secret that was kept after a reset came later than some of the
///   record, so earlier parts do not count. ``DeviceRecord`` has both rules.
/// - A secret that is replaced or deleted so ends the pairings that it confirmed, unless the proof is of the
///   Apple Account with which the device joined.
package struct DeviceAuthenticator: Sendable {
  let catalog: AppCatalog
  let pool: PostgresPool
  let transactions: CustomerTransactions
  let charges: DayCharges
  let clock: ServiceClock

  package init(
    catalog: AppCatalog, pool: PostgresPool, transactions: CustomerTransactions, charges: DayCharges,
    clock: ServiceClock
  ) {
    self.catalog = catalog
    self.pool = pool
    self.transactions = transactions
    self.charges = charges
    self.clock = clock
  }

  /// Throws unless the request may act for the device.
  /// - Throws: 401 `unauthenticated`.
  @discardableResult
  package func require(
    _ device: String, of app: App, secret: DeviceSecret?, proof: AccountProof? = nil
  ) async throws -> DeviceAdmission {
    guard let admission = try await admission(of: device, in: app, secret: secret, proof: proof) else {
      throw ServiceError.deviceSecretNeeded
    }
    return admission
  }

  /// Stores or replaces the secret by the rules above.
  /// - Parameter isOfJoin: whether the request joins a parent. Then a first secret is stored by the join itself, and
  ///   only the device's own account replaces a secret: any client can make codes.
  /// - Parameter isOfTrial: whether the request starts or joins a trial. One that joins it forgets no secret.
  /// - Returns: `nil` if the request may not act for the device.
  package func admission(
    of device: String, in app: App, secret: DeviceSecret?, proof: AccountProof?, isOfJoin: Bool = false,
    isOfTrial: Bool = false
  ) async throws -> DeviceAdmission? {
    let rows = try await pool.query(DeviceSecretRows.select(device, bundleID: app.bundleID))
    let stored = try DeviceSecretRows.decode(rows)
    func admitted(by hash: [UInt8]?) -> DeviceAdmission {
      DeviceAdmission(device: device, bundleID: app.bundleID, storedHash: hash)
    }
    guard let secret else {
      if stored == nil { return admitted(by: nil) }
      guard let proof, try await forgetUnproven(device, in: app, proof, isOfTrial: isOfTrial)
      else { return nil }
      return admitted(by: nil)
    }
    if let stored {
      if secret.matches(stored) {
        if let account = proof?.accountHash, try DeviceSecretRows.wantsAccount(rows) {
          try await transactions.run(
            locking: [Customer.device(device).lockName],
            [DeviceSecretRows.prove(device, bundleID: app.bundleID, with: secret, accountHash: account)]
          ) { _, _ in }
        }
        return admitted(by: stored)
      }
      if proof == nil { return nil }
    } else if isOfJoin {
      return admitted(by: nil)
    }
    switch try await set(secret, of: device, in: app, proof: proof, isOfJoin: isOfJoin) {
    case .stored: return admitted(by: secret.hash)
    case .notKept: return admitted(by: nil)
    case .refused: return nil
    }
  }

  /// Runs a transaction that changes something of the device: under its lock, and with the secret by which the request
  /// was admitted.
  /// - Parameters:
  ///   - rule: what becomes of the first secret of a device.
  ///   - isOfTrial: whether it starts or joins a trial.
  ///   - names: further names to lock, such as the Apple Account.
  ///   - queries: statements whose results `body` gets; they run under the lock.
  /// - Throws: 401 `unauthenticated`; errors of `body` and of the database.
  package nonisolated(nonsending) func change<R>(
    _ device: String, of app: App, secret: DeviceSecret?, proof: AccountProof? = nil,
    firstSecret rule: FirstSecret = .optional, isOfTrial: Bool = false, alsoLocking names: [String] = [],
    reading queries: [Postgres.Query] = [],
    _ body: nonisolated(nonsending) (PostgresConnection, ArraySlice<Rows>) async throws -> R
  ) async throws -> R {
    try await DeviceSecretChanged.retrying {
      guard
        let admission = try await admission(
          of: device, in: app, secret: secret, proof: proof, isOfJoin: rule == .paid,
          isOfTrial: isOfTrial)
      else { throw ServiceError.deviceSecretNeeded }
      // The secret that this transaction stores.
      let first = admission.storedHash == nil && rule == .paid ? secret : nil
      guard rule == .optional || admission.storedHash != nil || first != nil else {
        throw ServiceError.deviceSecretNeeded
      }
      let instant = clock.now()
      let stored = DeviceSecretRows.select(device, bundleID: app.bundleID)
      let record = DeviceRecord.select(device, in: app, proof: proof, at: instant)
      return try await transactions.run(
        locking: Set([Customer.device(device).lockName] + names),
        [stored] + (first == nil ? [] : [record]) + queries
      ) { connection, answers in
        var answers = answers[...]
        try admission.check(answers.popFirst())
        if let first {
          guard let record = answers.popFirst(), try DeviceRecord(record[0]).isEmpty else {
            throw ServiceError.deviceSecretNeeded
          }
          _ = try await connection.query(
            DeviceSecretRows.insert(first, of: device, in: app, at: instant))
        }
        return try await body(connection, answers)
      }
    }
  }

  /// What becomes of the first secret of a device in ``change(_:of:secret:proof:firstSecret:alsoLocking:reading:_:)``.
  package enum FirstSecret {
    /// It is stored where the app's day has room. Otherwise the device has none and needs none.
    case optional
    /// It is stored where the app's day has room. Otherwise the request is refused.
    case needed
    /// The change's own transaction stores it, or the request is refused. The app's day is not charged, because the
    /// change uses up something of which a customer has only a few, such as a pairing code.
    case paid
  }

  /// What became of a secret that differs from the stored one.
  private enum NewSecret {
    /// It is the device's secret now.
    case stored
    /// The device has no secret, also not this one, and needs none.
    case notKept
    /// The request may not act for the device.
    case refused
  }

  /// Deletes the secret of a device without a record, for a request that has a proof and no secret. Otherwise an
  /// attacker could lock out an older build of the app by storing a secret before its first purchase.
  ///
  /// A trial that another device began needs the secret: a stranger could join any device to a trial that has ended.
  /// - Returns: whether the request may act for the device.
  private func forgetUnproven(_ device: String, in app: App, _ proof: AccountProof, isOfTrial: Bool)
    async throws -> Bool
  {
    let instant = clock.now()
    return try await charges.charging(app, at: instant) { isCharged in
      try await transactions.run(
        locking: [Customer.device(device).lockName],
        [
          DeviceRecord.select(device, in: app, proof: proof, at: instant),
          DeviceSecretRows.hasTrial(proof, in: app),
        ]
      ) { connection, answers in
        guard let record = answers.first, try DeviceRecord(record[0]).isEmpty,
          try !isOfTrial || answers.last?[0].decode("has_trial") != true
        else { return false }
        guard let isCharged else { throw DayChargeNeeded(most: DeviceSecretRows.notesPerDay) }
        try await connection.endConfirmedPairings(of: device, in: app, catalog, at: instant)
        _ = try await connection.query(DeviceSecretRows.delete(device, bundleID: app.bundleID, at: instant))
        if isCharged { try await note("forget-device-secret", of: device, in: app, at: instant, connection) }
        return true
      }
    }
  }

  private func set(
    _ secret: DeviceSecret, of device: String, in app: App, proof: AccountProof?, isOfJoin: Bool
  ) async throws -> NewSecret {
    let instant = clock.now()
    return try await charges.charging(app, at: instant) { isCharged in
      try await set(
        secret, of: device, in: app, proof: proof, isOfJoin: isOfJoin, isCharged: isCharged, at: instant)
    }
  }

  /// - Parameter isCharged: whether the app's day was charged; `nil` if the transaction has not asked for it.
  private nonisolated(nonsending) func set(
    _ secret: DeviceSecret, of device: String, in app: App, proof: AccountProof?, isOfJoin: Bool,
    isCharged: Bool?, at instant: Date
  ) async throws -> NewSecret {
    // Trials, pairings and purchases take the same lock, so the record does not change meanwhile.
    try await transactions.run(
      locking: [Customer.device(device).lockName],
      [
        DeviceSecretRows.select(device, bundleID: app.bundleID),
        DeviceRecord.select(device, in: app, proof: proof, at: instant),
      ]
    ) { connection, answers in
      guard let secrets = answers.first, let records = answers.last else { return .refused }
      let record = try DeviceRecord(records[0])
      if let stored = try DeviceSecretRows.decode(secrets) {
        if secret.matches(stored) { return .stored }
        guard proof != nil, !isOfJoin && record.isEmpty || record.matchesSome else {
          return .refused
        }
        let replaced = try await connection.query(
          DeviceSecretRows.replace(
            secret, of: device, bundleID: app.bundleID, renews: !record.isCharged,
            keepsAccount: record.isAccountOfJoin, at: instant))
        if !record.isAccountOfJoin {
          try await connection.endConfirmedPairings(of: device, in: app, catalog, at: instant)
        }
        let count = try replaced.first?.decode("replacements", as: Int.self) ?? 1
        guard count <= DeviceSecretRows.notedReplacements else { return .stored }
        if record.isCharged, isCharged == nil { throw DayChargeNeeded(most: DeviceSecretRows.notesPerDay) }
        if !record.isCharged || isCharged == true {
          try await note("replace-device-secret", of: device, in: app, at: instant, connection)
        }
        return .stored
      }
      guard record.isEmpty || record.provesFirst else { return .notKept }
      // Clients can invent devices, so those with nothing on record are charged to the app's day.
      if record.isEmpty {
        guard let isCharged else {
          throw DayChargeNeeded(most: DeviceSecretRows.newPerDay(isProven: proof != nil))
        }
        // A device whose secret was not kept needs none.
        guard isCharged else { return .notKept }
      }
      // A device with nothing on record is anyone's, also after a reset.
      let isAfterReset = record.isReset && !record.isEmpty
      _ = try await connection.query(
        DeviceSecretRows.insert(
          secret, of: device, in: app, isAfterReset: isAfterReset,
          accountHash: isAfterReset ? proof?.accountHash : nil, at: instant))
      return .stored
    }
  }

  /// Writes to `support_actions` what the rules did with a secret.
  ///
  /// Clients can invent devices, so the rows about devices without a trial, purchase or grant are charged to the app's
  /// day before.
  private func note(
    _ action: String, of device: String, in app: App, at instant: Date, _ connection: PostgresConnection
  ) async throws {
    _ = try await connection.query(
      SupportActionRows.insert(
        [SupportAction(name: action, bundleID: app.bundleID, to: .device(device))], by: .accountProof,
        at: instant))
  }
}

/// The secret that a device sends in the header `Receiptd-Device-Secret`: 32 random bytes. Only a hash is stored.
package struct DeviceSecret: Sendable {
  /// SHA-256 without salt or stretching is enough, because the bytes are random.
  private let digest: SHA256Digest

  /// The bytes for the column `secret_hash`.
  package var hash: [UInt8] { Array(digest) }

  /// - Returns: `nil` for a request without a secret.
  /// - Throws: 400 `invalid_request` for a malformed one.
  package init?(of request: Request) throws(Problem) {
    guard let name = Self.field, let text = request.headers[name] else { return nil }
    guard let bytes = Base64.decode(text, .url), bytes.count == 32 else {
      throw .invalidRequest("'Receiptd-Device-Secret' must be 32 bytes in base64url without padding.")
    }
    digest = SHA256.hash(data: bytes)
  }

  /// Compares in constant time.
  package func matches(_ hash: [UInt8]) -> Bool { digest == hash }

  private static let field = HTTPField.Name("Receiptd-Device-Secret")
}

extension SupportAuthor {
  /// The author if a device replaces its own secret.
  fileprivate static let accountProof = SupportAuthor(
    rule: "policy", reason: "a signed proof of the device's Apple Account came with another secret")
}
