import FoundationEssentials
import HTTP
import HTTPTypes
import Identifiers
import Postgres
import Subscriptions

/// `POST /api/v1/events`: what clients tell of their funnels.
///
/// Nobody proves any of it: it is counted, and nothing else follows from it.
struct EventIntake: Sendable {
  let catalog: AppCatalog
  let authenticator: Authenticator
  let pool: PostgresPool
  let traffic: TrafficLimits
  let clock: ServiceClock

  private struct Answer: Encodable {
    let success = true
    /// How many were new.
    var accepted: Int
  }

  func respond(to request: Request) async throws -> Response {
    try request.requireJSON()
    let report = try request.decodeJSON(EventReport.self)
    guard let app = catalog[report.bundleID] else {
      throw ServiceError.wrongApp("No app with this 'bundleID' is configured.")
    }
    let customer = try await customer(named: report.customerID, of: app, request)
    let instant = clock.now()
    // In the order of the key: who sends the same events twice at once must not wait for himself in a circle.
    let records = try report.records(of: customer, at: instant).sorted { $0.id < $1.id }
    let rows = try await pool.query(EventRows.insert(records, at: instant))
    return try .json(.accepted, Answer(accepted: rows.affected))
  }

  /// The client's word, which a token, where there is one, must not contradict.
  /// - Throws: 400 `invalid_request`, 401 `unauthenticated`, 403 `forbidden`, 429 `rate_limited`.
  private func customer(named name: String, of app: App, _ request: Request) async throws -> String {
    let name = try DeviceID(name, named: "customerID").name
    guard app.customer == .user else { return name }
    let named = UUID(rfc9562: name)
    if let user = try await authenticator.user(of: request, in: app) {
      guard user == named else { throw ServiceError.notTheTokensUser }
      try traffic.admit(user: user)
    }
    // One user is one customer, however a client spells it.
    return named?.uuidString.lowercased() ?? name
  }
}
