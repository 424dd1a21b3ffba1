import AppStore
import Configuration
import Foundation
import HTTP
import HTTPTypes
import JSON
import Postgres
import Requests
import Subscriptions
import Text
import Work

/// `POST …/devices/{deviceID}/pairing-codes` and `…/devices/{deviceID}/parent`: a child's device joins a parent's with a code.
///
/// The parent shows the code, and the child's device sends it with its own secret: both consent, so the child has no
/// trial of its own from then on. Only the parent ends the pairing.
struct Joining: Sendable {
  let apps: AppOfRequest
  let pool: PostgresPool
  let authenticator: DeviceAuthenticator
  let pairing: Pairing
  let verifier: SignedDataVerifier
  let rateLimits: ClientRateLimits
  let clock: ServiceClock

  private struct CodeAnswer: Encodable {
    let success = true
    var code: String
    var expiresAt: Date
    var serverTime: Date
  }

  private struct Body: Decodable {
    var pairingCode: String
    var name: String?
    /// By its Apple Account the device gets a new secret after a loss, and no other device does.
    var signedAppTransaction: String?
  }

  private struct Answer: JSONWritable {
    var pairing: PairingResponse?
    var serverTime: Date

    func write(to json: inout JSONWriter) {
      json.object { json in
        json.member("pairing", ifPresent: pairing)
        json.member("serverTime", serverTime)
        json.member("success", true)
      }
    }
  }

  /// Makes a code for the parent's device.
  func makeCode(_ request: Request) async throws -> Response {
    let (app, device) = try pairing.customer(of: request)
    let secret = try DeviceSecret(of: request)
    let instant = clock.now()
    let code = PairingCode()
    try await authenticator.charges.charging(app, at: instant) { isCharged in
      try await authenticator.change(
        device, of: app, secret: secret,
        reading: [DeviceSecretRows.chargesPairing(of: device, in: app)]
      ) { connection, answers in
        // Clients can invent devices, so the codes of those with nothing on record are charged to the app's day.
        if try answers.first?[0].decode("is_charged", as: Bool.self) == true {
          guard isCharged != false else {
            throw ServiceError.noPairingsLeft(wait: Day(of: instant).end.timeIntervalSince(instant))
          }
          if isCharged == nil { throw DayChargeNeeded(most: DeviceSecretRows.newPerDay(isProven: false)) }
        }
        _ = try await connection.pipeline(
          PairingCodeRows.insert(code, of: device, in: app.bundleID, at: instant))
      }
    }
    return try .json(
      .created,
      CodeAnswer(code: code.shown, expiresAt: instant + PairingCode.lifetime, serverTime: instant))
  }

  /// Joins the child's device to the parent's of the code.
  func join(_ request: Request) async throws -> Response {
    try request.requireJSON()
    let (app, child) = try pairing.customer(of: request)
    let secret = try DeviceSecret(of: request)
    let body = try request.decodeJSON(Body.self)
    let name = try body.name.map(Pairing.checkName)
    let proof = try body.signedAppTransaction.flatMap {
      AccountProof(try verifier.appTransaction($0, of: app))
    }
    let instant = clock.now()
    let (code, row) = try await find(body.pairingCode, in: app, request)
    guard try row.decode("expires_at", as: Date.self) > instant else { throw ServiceError.expiredPairingCode }
    let parent = try row.decode("device_id", as: String.self)
    guard parent != child else {
      throw Problem.invalidRequest("The code was made on this device: enter it on the child's device.")
    }
    let isNew = try await authenticator.change(
      child, of: app, secret: secret, proof: proof, firstSecret: .paid,
      alsoLocking: [Customer.device(parent).lockName]
    ) { connection, _ in
      // Another device may have used it meanwhile.
      guard try await !connection.query(PairingCodeRows.use(code, in: app.bundleID, at: instant)).isEmpty
      else {
        throw ServiceError.invalidPairingCode
      }
      if let hash = proof?.accountHash {
        _ = try await connection.query(
          DeviceSecretRows.join(child, bundleID: app.bundleID, accountHash: hash))
      }
      return try await pairing.add(
        child, name: name, to: parent, of: app, isConfirmed: true,
        isCharged: false,
        at: instant, connection)
    }
    return try await state(of: child, in: app, isNew ? .created : .ok)
  }

  /// Looks up a code that was not used.
  /// - Returns: the code, and its row of ``PairingCodeRows/select(_:in:)``.
  /// - Throws: 404 `pairing_code_invalid`, 429 `rate_limited`.
  private func find(_ text: String, in app: App, _ request: Request) async throws -> (PairingCode, Row) {
    try rateLimits.beginCode(of: app.bundleID, request)
    guard let code = PairingCode(text) else { throw ServiceError.invalidPairingCode }
    let row: Row?
    do {
      row = try await pool.query(PairingCodeRows.select(code, in: app.bundleID)).first
    } catch {
      rateLimits.endCode(of: app.bundleID, request)
      throw error
    }
    guard let row, try !row.decode("is_used", as: Bool.self) else { throw ServiceError.invalidPairingCode }
    rateLimits.endCode(of: app.bundleID, request)
    return (code, row)
  }

  /// Tells the child's device whether it has a parent.
  func get(_ request: Request) async throws -> Response {
    let (app, child) = try pairing.customer(of: request)
    try await authenticator.require(child, of: app, secret: DeviceSecret(of: request))
    return try await state(of: child, in: app, .ok)
  }

  private func state(of child: String, in app: App, _ status: HTTPResponse.Status) async throws -> Response {
    let instant = clock.now()
    let access = try await pool.access(of: child, in: app, at: instant)
    return .json(
      status, Answer(pairing: access.childState.map(PairingResponse.init), serverTime: instant))
  }
}
