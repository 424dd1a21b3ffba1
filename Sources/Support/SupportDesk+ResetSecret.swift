import Actions
import Configuration
import Customers
import Foundation
import JSON
import Postgres
import Subscriptions
import Work

/// Deletes the secret of a device whose app lost it and cannot prove the Apple Account.
///
/// After that the device needs no secret until its app sends a new one. For seven days a proof of the customer's account
/// is enough, whatever else is on record of the device. Where the record has one account, it is that one; otherwise
/// support names it, because a stranger can bind a purchase or a trial to a device without a secret. A consent of the
/// device ends with its secret, and so do the pairings with parents that it confirmed with a code.
package struct ResetDeviceSecretRequest: SupportRequest {
  package static let operation = SupportOperation.resetDeviceSecret

  /// The device.
  var deviceID: String
  /// The app.
  var bundleID: String
  /// Whose proof keeps the next secret: the original transaction id of a purchase on the device's record, `trial` for the
  /// account of its trial, or `none` where the customer has a grant alone, and no proof is needed. Needed where more than
  /// one of them is possible.
  var proof: String?

  package init(deviceID: String, bundleID: String, proof: String? = nil) {
    self.deviceID = deviceID
    self.bundleID = bundleID
    self.proof = proof
  }

  package func run(
    at desk: SupportDesk, by author: SupportAuthor, isDryRun: Bool
  ) async throws -> DeviceSecretResetResult {
    try await desk.resetDeviceSecret(self, by: author, isDryRun: isDryRun)
  }
}

extension SupportDesk {
  fileprivate func resetDeviceSecret(
    _ request: ResetDeviceSecretRequest, by author: SupportAuthor, isDryRun: Bool
  ) async throws -> DeviceSecretResetResult {
    let bundleID = request.bundleID
    let app = try app(named: bundleID)
    let customer = try app.customer(named: request.deviceID)
    guard case .device(let device) = customer else {
      throw SupportRefusal.invalid("\(bundleID) has no device secrets: its customers are users.")
    }
    let instant = clock.now()
    return try await customerTransactions.run(
      locking: [customer.lockName], isDryRun: isDryRun,
      [
        DeviceReset.latest(of: device, bundleID: bundleID, at: instant),
        DeviceReset.proofs(of: device, in: app, at: instant),
        DeviceSecretRows.delete(device, bundleID: bundleID, at: instant),
      ]
    ) { connection, answers in
      var answers = answers
      let former = try answers.popFirst()?.first?.decode("proof", as: String.self)
      let known = try (answers.popFirst().map { Array($0) } ?? []).map(KnownProof.init)
      let hadSecret = (answers.popFirst()?.affected ?? 0) > 0
      let proof = try request.proof(of: known)
      let hadPairings = try await connection.endConfirmedPairings(of: device, in: app, catalog, at: instant)
      if !hadSecret, !hadPairings, known.isEmpty {
        try await checkSeen(customer, of: app, isForced: false, on: connection)
      }
      let isChanged = former != proof || hadPairings || hadSecret
      var details = ["proof": JSONValue.string(proof)]
      details["proofAccount"] = known.first { $0.proof == proof }?.digest.map { .string($0) }
      if isChanged {
        _ = try await connection.query(
          SupportActionRows.insert(
            [
              SupportAction(name: DeviceReset.action, bundleID: bundleID, to: customer, details: details)
            ],
            by: author, at: instant))
      }
      return DeviceSecretResetResult(
        deviceID: device, bundleID: bundleID, proof: proof, isChanged: isChanged, isDryRun: isDryRun)
    }
  }
}

extension ResetDeviceSecretRequest {
  /// The proof that is asked for, or the only possible one.
  /// - Parameter known: what fits the device's record.
  /// - Throws: ``SupportRefusal`` `invalid` where it does not fit, or must be named.
  fileprivate func proof(of known: [KnownProof]) throws(SupportRefusal) -> String {
    let words = known.map(\.proof).joined(separator: ", ")
    if let proof {
      guard known.contains(where: { $0.proof == proof }) || known.isEmpty && proof == DeviceReset.noProof
      else {
        throw .invalid(
          "'proof' is one on record of '\(deviceID)': \(known.isEmpty ? DeviceReset.noProof : words)")
      }
      return proof
    }
    guard Set(known.map(\.account)).count <= 1 else {
      throw .invalid(
        "'\(deviceID)' has a record of several accounts. Find out which is the customer's, and name it in 'proof' "
          + "(--proof): \(words)")
    }
    return known.first?.proof ?? DeviceReset.noProof
  }
}

/// A row of ``DeviceReset/proofs(of:in:at:)``.
private struct KnownProof {
  let proof: String
  let account: String
  let digest: String?

  init(_ row: Row) throws {
    proof = try row.decode("proof")
    account = try row.decode("account")
    digest = try row.decode("digest")
  }
}

/// The result of ``ResetDeviceSecretRequest``.
package struct DeviceSecretResetResult: Encodable, Sendable, CustomStringConvertible {
  /// The device.
  let deviceID: String
  /// The app.
  let bundleID: String
  /// Whose proof keeps the next secret, as in the request.
  let proof: String
  /// Whether the device had a secret or a pairing that it confirmed, or no reset within seven days has this proof.
  let isChanged: Bool
  /// Whether nothing was written.
  let isDryRun: Bool

  /// One line.
  package var description: String {
    guard isChanged else { return "\(deviceID): the device had no secret" }
    let needed =
      switch proof {
      case DeviceReset.noProof: "no proof"
      case DeviceReset.trial: "a proof of the trial's account"
      default: "a proof of the account of purchase \(proof)"
      }
    return "\(deviceID): the secret is reset; for 7 days the next one needs \(needed)"
  }
}
