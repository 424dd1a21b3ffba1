import Authentication
import CoreMetrics
import Customers
import Foundation
import HTTP
import HTTPTypes
import Identifiers
import Postgres
import PrometheusText
import Requests
import Subscriptions
import Text
import Work

/// `POST /api/v1/events`: clients' events of their purchase funnels.
///
/// Events have no proof, so they are counted and decide nothing. Four limits keep a flood from filling the disk and one
/// customer's records: a lower rate for each address, a smaller body without a token, and a daily number of bytes for
/// each app and for each customer.
package struct EventIntake: Sendable {
  let apps: AppOfRequest
  let authenticator: Authenticator
  let charges: DayCharges
  let rateLimits: ClientRateLimits
  let clock: ServiceClock
  let metrics: EventMetrics

  init(
    apps: AppOfRequest, authenticator: Authenticator, charges: DayCharges, rateLimits: ClientRateLimits,
    clock: ServiceClock, metrics: EventMetrics
  ) {
    self.apps = apps
    self.authenticator = authenticator
    self.charges = charges
    self.rateLimits = rateLimits
    self.clock = clock
    self.metrics = metrics
  }

  /// The longest body of a request without a valid token.
  static let maximumAnonymousLength = 8 << 10

  private struct Answer: Encodable {
    let success = true
    /// The number of new events.
    var accepted: Int
  }

  package func respond(to request: Request) async throws -> Response {
    try rateLimits.admitEvents(of: request)
    try request.requireJSON()
    // This comes before a long body is decoded.
    if request.headers[.authorization] == nil { try Self.checkAnonymousLength(of: request) }
    let report = try request.decodeJSON(EventReport.self)
    let app = try apps.app(of: request, named: report.bundleID)
    let customer = try await customer(named: report.customerID, of: app, request)
    let instant = clock.now()
    // In the order of the primary key, so that two requests with the same events cannot deadlock.
    let records = try report.records(of: customer.name, inApp: app.bundleID, at: instant)
      .sorted { $0.id < $1.id }
    let row = try await charges.query(
      EventRows.insert(records, of: app, by: customer, at: instant), of: app, at: instant)[0]
    guard try row.decode("is_charged", as: Bool.self) else {
      let isOfCustomer = try row.decode("is_of_customer", as: Bool.self)
      // Events in one customer's name are no reason to warn the operator.
      if !isOfCustomer { metrics.refused(of: app) }
      throw ServiceError.noEventBytesLeft(
        isOfCustomer: isOfCustomer, .seconds(Day(of: instant).end.timeIntervalSince(instant)))
    }
    let kept = try EventRows.Kept(row)
    metrics.kept(kept, of: app)
    return try .json(.accepted, Answer(accepted: kept.count))
  }

  private static func checkAnonymousLength(of request: Request) throws(Problem) {
    guard request.body.count <= maximumAnonymousLength else {
      throw .payloadTooLarge(maximum: maximumAnonymousLength)
    }
  }

  /// The customer that the client names, and whether a token proves it. A token of another user is an error.
  /// - Throws: 400 `invalid_request`, 401 `unauthenticated`, 403 `forbidden`, 413 `payload_too_large`,
  ///   429 `rate_limited`.
  private func customer(
    named name: String, of app: App, _ request: Request
  ) async throws -> (name: String, isProven: Bool) {
    let name = try DeviceID(name, named: "customerID").name
    guard app.customer == .user else {
      // Devices have no tokens, so a token of the request proves nothing.
      try Self.checkAnonymousLength(of: request)
      return (name, false)
    }
    let named = UUID(rfc9562: name)
    let user = try await authenticator.user(of: request, in: app)
    if let user {
      guard user == named else { throw ServiceError.notTheTokensUser }
      try rateLimits.admit(user: user)
    }
    // One user is one customer, in whatever case the client writes the UUID.
    return (named?.uuidString.lowercased() ?? name, user != nil)
  }
}

/// The metrics of clients' events.
package struct EventMetrics: Sendable {
  private let events: MetricFamily<Counter, String, String>
  private let refused: MetricFamily<Counter, String>

  package init(_ registry: PrometheusRegistry) {
    events = registry.counters(
      "receiptd_events_total", "Events that clients reported, by app and name; a retried event counts once.",
      "app", "name")
    refused = registry.counters(
      "receiptd_events_refused_total",
      "Requests with events that were refused because the app's daily bytes are used up.", "app")
  }

  /// Creates the counters of these apps with value 0, so that an alert sees the first increase.
  package func expect(_ apps: [App]) {
    for app in apps {
      _ = refused[app.bundleID]
      for name in EventRows.Kept.names { _ = events[app.bundleID, name] }
    }
  }

  /// Counts new events of clients. Names other than the usual ones are `other`: a client's text does not become a
  /// label.
  func kept(_ kept: EventRows.Kept, of app: App) {
    for (name, count) in kept.byName { events[app.bundleID, name].increment(by: count) }
  }

  /// Counts a request with events that was refused because the app's daily bytes are used up.
  func refused(of app: App) { refused[app.bundleID].increment() }
}
