import Foundation
import HTTP
import HTTPTypes
import Postgres
import Subscriptions

/// `POST /api/v1/consent`: a customer allows, or no longer allows, to tell the App Store about the use of a purchase.
struct ConsentIntake: Sendable {
  let apps: AppOfRequest
  let authenticator: Authenticator
  let deviceAuthenticator: DeviceAuthenticator
  let pool: PostgresPool
  let traffic: ClientRateLimits
  let clock: ServiceClock

  private struct Body: Decodable {
    var consent: Bool
    var bundleID: String?
    var deviceID: String?
  }

  private struct Answer: Encodable {
    let success = true
    var consent: Bool
    /// Since when.
    var since: Date
    var serverTime: Date
  }

  func respond(to request: Request) async throws -> Response {
    try request.requireJSON()
    let body = try request.decodeJSON(Body.self)
    let secret = try DeviceSecret(of: request)
    let app = try await tokenApp(of: request, body) ?? namedApp(of: request, body)
    let customer = try await customer(body.deviceID, secret, of: app, request)
    let instant = clock.now()
    let written = ConsentRows.write(body.consent, of: customer, bundleID: app.bundleID, at: instant)
    // A question about a refund may wait for the consent, and its time may be almost over.
    let answers = try await pool.transaction(
      pipeline: [written]
        + (body.consent ? [StoreCallRows.wake(customer, of: app.bundleID, at: instant)] : []))
    let rows = answers[0]
    return try .json(
      .ok,
      Answer(
        consent: body.consent, since: rows.first?.decode("changed_at") ?? instant, serverTime: instant))
  }

  /// The one app for which the user's token is valid. `nil` where the body names an app or a device, or several apps take the
  /// token.
  private func tokenApp(of request: Request, _ body: Body) async throws -> App? {
    guard body.bundleID == nil, body.deviceID == nil else { return nil }
    return try await authenticator.onlyApp(of: request)
  }

  /// The app as on the other routes.
  private func namedApp(of request: Request, _ body: Body) throws -> App {
    try apps.app(of: request, named: body.bundleID, customers: body.deviceID == nil ? .user : .device)
  }

  private func customer(
    _ deviceID: String?, _ secret: DeviceSecret?, of app: App, _ request: Request
  ) async throws -> Customer {
    if let deviceID {
      let device = try DeviceID(deviceID).name
      // A device id is a name that others may know: a consent needs the secret, also of a device that has none yet.
      guard let secret else { throw ServiceError.deviceSecretNeeded }
      try await deviceAuthenticator.require(device, of: app, secret: secret)
      let stored = try await DeviceSecretRows.decode(
        pool.query(DeviceSecretRows.select(device, bundleID: app.bundleID)))
      guard let stored, secret.matches(stored) else { throw ServiceError.deviceSecretNeeded }
      return .device(device)
    }
    guard let user = try await authenticator.user(of: request, in: app) else {
      throw ServiceError.unauthenticated
    }
    try traffic.admit(user: user)
    return .user(user)
  }
}
