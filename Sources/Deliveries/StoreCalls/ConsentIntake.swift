import Authentication
import Customers
import Foundation
import HTTP
import HTTPTypes
import Ledger
import Postgres
import Requests
import Subscriptions
import Work

/// `POST /api/v1/consent`: a customer allows, or no longer allows, to tell the App Store about the use of a purchase.
struct ConsentIntake: Sendable {
  let apps: AppOfRequest
  let authenticator: Authenticator
  let deviceAuthenticator: DeviceAuthenticator
  let transactions: CustomerTransactions
  let rateLimits: ClientRateLimits
  let clock: ServiceClock

  init(
    apps: AppOfRequest, authenticator: Authenticator, deviceAuthenticator: DeviceAuthenticator,
    transactions: CustomerTransactions, rateLimits: ClientRateLimits, clock: ServiceClock
  ) {
    self.apps = apps
    self.authenticator = authenticator
    self.deviceAuthenticator = deviceAuthenticator
    self.transactions = transactions
    self.rateLimits = rateLimits
    self.clock = clock
  }

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
    let instant = clock.now()
    let rows: Rows
    if let deviceID = body.deviceID {
      let device = try DeviceID(deviceID).name
      let statements = Self.statements(body.consent, of: .device(device), app, at: instant)
      // A device id is a name that others may know: a consent needs the secret, also of a device that has none yet.
      guard let secret else { throw ServiceError.deviceSecretNeeded }
      rows = try await deviceAuthenticator.change(device, of: app, secret: secret, firstSecret: .needed) {
        connection, _ in
        try await connection.pipeline(statements)[0]
      }
    } else {
      let user = try await user(of: request, in: app)
      rows = try await transactions.run(
        locking: [Customer.user(user).lockName],
        Self.statements(body.consent, of: .user(user), app, at: instant)
      ) { _, answers in
        guard let written = answers.first else { throw ServiceError.internalError }
        return written
      }
    }
    return try .json(
      .ok,
      Answer(
        consent: body.consent, since: rows.first?.decode("changed_at") ?? instant, serverTime: instant))
  }

  private static func statements(
    _ isGiven: Bool, of customer: Customer, _ app: App, at instant: Date
  ) -> [Postgres.Query] {
    let written = ConsentRows.write(isGiven, of: customer, bundleID: app.bundleID, at: instant)
    // A question about a refund may wait for the consent, and its time may be almost over.
    return isGiven ? [written, StoreCallRows.wake(customer, of: app.bundleID, at: instant)] : [written]
  }

  /// The one app for which the user's token is valid. `nil` where the body names an app or a device, or several apps
  /// take the token.
  private func tokenApp(of request: Request, _ body: Body) async throws -> App? {
    guard body.bundleID == nil, body.deviceID == nil else { return nil }
    return try await authenticator.onlyApp(of: request)
  }

  /// The app as on the other routes.
  private func namedApp(of request: Request, _ body: Body) throws -> App {
    try apps.app(of: request, named: body.bundleID, customers: body.deviceID == nil ? .user : .device)
  }

  private func user(of request: Request, in app: App) async throws -> UUID {
    guard let user = try await authenticator.user(of: request, in: app) else {
      throw ServiceError.unauthenticated
    }
    try rateLimits.admit(user: user)
    return user
  }
}

/// Statements on the table `consents`.
enum ConsentRows {
  /// Writes a customer's word; a repeated one keeps its time.
  static func write(
    _ isGiven: Bool, of customer: Customer, bundleID: String, at instant: Date
  ) -> Postgres.Query {
    """
    INSERT INTO consents AS known (bundle_id, customer, is_given, changed_at, given_at, withdrawn_at)
    VALUES (\(bundleID), \(customer.id), \(isGiven), \(instant),
      CASE WHEN \(isGiven) THEN \(instant)::timestamptz END, CASE WHEN NOT \(isGiven) THEN \(instant)::timestamptz END)
    ON CONFLICT (bundle_id, customer) DO UPDATE SET is_given = excluded.is_given,
      changed_at = CASE WHEN known.is_given = excluded.is_given THEN known.changed_at ELSE excluded.changed_at END,
      given_at = CASE WHEN excluded.is_given AND NOT known.is_given THEN excluded.changed_at ELSE known.given_at END,
      withdrawn_at = CASE WHEN known.is_given AND NOT excluded.is_given THEN excluded.changed_at
        ELSE known.withdrawn_at END
    RETURNING changed_at
    """
  }
}
