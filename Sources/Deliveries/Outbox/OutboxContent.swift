import Configuration
import Customers
import Foundation
import Identifiers
import JSON
import Ledger
import Postgres
import Subscriptions

/// What a row of the outbox delivers.
package enum OutboxContent: Sendable {
  case state(CustomerState)
  case event(StoredLifecycleEvent)
  case notification(ForwardedNotification)

  /// When the content changes with time alone, so that it must be sent again; `nil` for never.
  var changesAt: Date? {
    if case .state(let state) = self { state.entitlements.validUntil } else { nil }
  }
}

/// Reads what the rows of a destination deliver, right before they are sent.
struct OutboxReader: Sendable {
  let app: App
  let pool: PostgresPool

  /// The content of each row, in the same order; `nil` where the row names nothing that exists.
  func contents(
    of rows: [DeliveryRows.Claimed], for kind: OutboxDestination.Kind, at instant: Date
  ) async throws -> [OutboxContent?] {
    switch kind {
    case .cloudkit, .webhook: try await states(of: rows, at: instant)
    case .event: try await events(of: rows, at: instant)
    case .notification: try await notifications(of: rows)
    }
  }

  /// Why a row cannot be delivered.
  static func missing(_ kind: OutboxDestination.Kind) -> String {
    switch kind {
    case .cloudkit, .webhook: "the row's key is not the id of a customer of the app"
    case .event: "the event is older than 90 days and was deleted, or its customer was erased"
    case .notification: "the notification was deleted, or its customer was erased"
    }
  }

  private func states(
    of rows: [DeliveryRows.Claimed], at instant: Date
  ) async throws -> [OutboxContent?] {
    let customers = rows.map { Customer(id: $0.key, of: app) }
    // A child's device has what its parent's has.
    let access = try await pool.withConnection { connection in
      try await connection.access(of: customers.compactMap { $0?.deviceID }, in: app, at: instant)
    }
    let customerRecords = try await pool.customerRecords(users: customers.compactMap { $0?.userID })
    return zip(rows, customers).map { row, customer in
      customer.map { customer in
        let own =
          customer.deviceID.flatMap { access[$0]?.records }
          ?? customerRecords.customerRecords(of: customer, in: app, at: instant)
        return .state(
          CustomerState(
            of: customer, in: app, customerRecords: own,
            entitlements: customer.deviceID.flatMap { access[$0]?.entitlements }, isErased: row.isErased,
            at: instant))
      }
    }
  }

  private func events(
    of rows: [DeliveryRows.Claimed], at instant: Date
  ) async throws -> [OutboxContent?] {
    let ids = rows.compactMap { UUID(rfc9562: $0.key) }
    let answers = try await pool.transaction(
      pipeline: LifecycleEventRows.fix(ids, at: instant) + [LifecycleEventRows.select(ids)])
    let events = try Dictionary(
      answers[answers.count - 1].map(StoredLifecycleEvent.init).map { ($0.id, $0) },
      uniquingKeysWith: { first, _ in first })
    return rows.map { row in UUID(rfc9562: row.key).flatMap { events[$0] }.map { .event($0) } }
  }

  private func notifications(of rows: [DeliveryRows.Claimed]) async throws -> [OutboxContent?] {
    var contents: [OutboxContent?] = []
    for row in rows {
      guard let uuid = UUID(rfc9562: row.key),
        let kept = try await pool.query(NotificationRows.payload(of: uuid)).first
      else {
        contents.append(nil)
        continue
      }
      let payload = try KeptPayload(kept)
      // Its row goes with the signature; this one was claimed before.
      contents.append(
        payload.isErased
          ? nil : .notification(ForwardedNotification(uuid: uuid, signedPayload: payload.signedPayload)))
    }
    return contents
  }
}

/// The entitlements and the subscription of a customer of one app at one instant, for delivery.
package struct CustomerState: Sendable {
  package var app: App
  package var customer: Customer
  package var entitlements: Entitlements
  /// The purchase that gives the access; the latest one if none does.
  package var subscription: Subscription?
  /// The time of the state.
  package var instant: Date
  /// Whether the customer was erased: the destination is told that, and no state.
  package var isErased: Bool

  init(
    of customer: Customer, in app: App, customerRecords: CustomerRecords, entitlements: Entitlements? = nil,
    isErased: Bool = false, at instant: Date
  ) {
    self.isErased = isErased
    self.app = app
    self.customer = customer
    self.instant = instant
    self.entitlements = entitlements ?? app.entitlements(of: customerRecords, for: customer, at: instant)
    if case .subscription(let subscription) = self.entitlements.source {
      self.subscription = subscription
    } else {
      subscription = customerRecords.subscriptions.max { $0.current.purchaseDate < $1.current.purchaseDate }
    }
  }
}

/// A notification of the App Store on its way to the app's second server.
package struct ForwardedNotification: Sendable {
  /// Apple's `notificationUUID`, or the UUID made of it.
  package var uuid: UUID
  /// Exactly as the App Store posted it. Never log it: it names a customer.
  package var signedPayload: String
}

extension ForwardedNotification: JSONWritable {
  /// The body that the App Store posts.
  package func write(to json: inout JSONWriter) {
    json.object { $0.member("signedPayload", signedPayload) }
  }
}
