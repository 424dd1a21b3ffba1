import Actions
import Deliveries
import Foundation
import HTTP
import Identifiers
import Postgres

extension Console {
  /// *Queues*: what waits for delivery, for another attempt, or for an operator.
  static func queues(_ parts: Parts) -> ConsoleScreen {
    ConsoleScreen(
      entry: "Queues", path: "/console/queues", operation: .requeue,
      pages: [
        ConsolePage(path: "/console/queues", operation: .requeue) { request in
          let (state, destination) = (request.value("state"), request.value("destination"))
          let answers = try await parts.pool.withConnection { connection in
            try await connection.pipeline([
              QueueRows.summary, QueueRows.deliveries(state: state, destination: destination),
              QueueRows.notifications, QueueRows.storeCalls, QueueRows.extensions,
            ])
          }
          return .page(
            ConsoleContent(
              title: "Queues", template: "queues",
              content: try QueueContent(
                answers, state: state, destination: destination, from: request.instant),
              refreshes: true))
        }
      ],
      templates: ["queues": PackageResources.queues_mustache])
  }
}

private struct QueueContent: Sendable {
  let summary: [Group]
  /// The filter in words; `nil` for all.
  let shown: String?
  let deliveries: [Delivery]
  /// Whether more may be open than are shown.
  let isCut: Bool
  let notifications: [Notification]
  let calls: [Call]
  let extensions: [Extension]

  struct Group: Sendable {
    let destination: String
    let app: String
    let state: String
    let level: String
    let rows: Int
    let oldest: Moment
    let path: String
    let requeuePath: String?
  }

  struct Delivery: Sendable {
    let id: Int64
    let destination: String
    let app: String?
    let endpoint: String
    let customer: String?
    let customerPath: String?
    let state: String
    let level: String
    let created: Moment
    let attempts: Int
    let next: Moment?
    let failure: String?
    let requeuePath: String
  }

  struct Notification: Sendable {
    let why: String
    let app: String?
    let type: String
    let rows: Int
    let oldest: Moment
    let failure: String?
    let uuids: [Waiting]

    struct Waiting: Sendable {
      let uuid: String
      let path: String
    }
  }

  struct Call: Sendable {
    let kind: String
    let app: String
    let purchase: String
    let path: String
    let deadline: Moment
    let attempts: Int
    let failure: String?
  }

  struct Extension: Sendable {
    let what: String
    let app: String
    let days: Int
    let by: String
    let requested: Moment
    let failure: String?
  }

  init(_ answers: [Rows], state: String?, destination: String?, from now: Date) throws {
    summary = try answers[0].map { row in
      let (destination, state): (String, String) = (try row.decode("destination"), try row.decode("state"))
      let app: String = try row.decode("app")
      return Group(
        destination: destination, app: app, state: state, level: Self.level(state),
        rows: try row.decode("rows"),
        oldest: Moment(try row.decode("oldest"), from: now),
        path: link("/console/queues", ["state": state, "destination": destination]),
        requeuePath: state == "dead" && !app.isEmpty
          ? link("/console/act/requeue-all", ["bundleID": app]) : nil)
    }
    shown =
      state == nil && destination == nil
      ? nil : [state, destination].compactMap(\.self).joined(separator: ", ")
    isCut = answers[1].count == QueueRows.mostDeliveries
    deliveries = try answers[1].map { row in
      let state: String = try row.decode("state")
      let id: Int64 = try row.decode("id")
      let customer: String? = try row.decode("customer")
      return Delivery(
        id: id, destination: try row.decode("destination"), app: try row.decode("bundle_id"),
        endpoint: try row.decode("endpoint"), customer: customer,
        customerPath: customer.map(Console.customerPath),
        state: state, level: Self.level(state), created: Moment(try row.decode("created_at"), from: now),
        attempts: try row.decode("attempts"),
        next: try row.decode("next_attempt_at", as: Date?.self).map { Moment($0, from: now) },
        failure: try row.decode("error"), requeuePath: link("/console/act/requeue", ["outbox": "\(id)"]))
    }
    notifications = try answers[2].map { row in
      let subtype: String? = try row.decode("subtype")
      return Notification(
        why: try row.decode("why"), app: try row.decode("bundle_id"),
        type: (try row.decode("type", as: String?.self) ?? "unknown") + (subtype.map { " · \($0)" } ?? ""),
        rows: try row.decode("notifications"), oldest: Moment(try row.decode("oldest"), from: now),
        failure: try row.decode("failure"),
        uuids: try row.decode("uuids", as: [String].self).map {
          Notification.Waiting(uuid: $0, path: link("/console/act/replay", ["notificationUUID": $0]))
        })
    }
    calls = try answers[3].map { row in
      let purchase: String = try row.decode("original_transaction_id")
      return Call(
        kind: try row.decode("kind"), app: try row.decode("bundle_id"), purchase: purchase,
        path: Console.customerPath(purchase), deadline: Moment(try row.decode("deadline"), from: now),
        attempts: try row.decode("attempts"), failure: try row.decode("last_error"))
    }
    extensions = try answers[4].map { row in
      Extension(
        what: try row.decode("what"), app: try row.decode("bundle_id"), days: try row.decode("days"),
        by: try row.decode("by"), requested: Moment(try row.decode("requested_at"), from: now),
        failure: try row.decode("last_error"))
    }
  }

  private static func level(_ state: String) -> String {
    switch state {
    case "dead", "disabled": "bad"
    case "delivered": "good"
    default: ""
    }
  }
}

/// The statements of *Queues*. Each ends at a number of rows.
private enum QueueRows {
  static let summary: Postgres.Query = """
    SELECT destination, coalesce(bundle_id, '') AS app, state, count(*) AS rows, min(created_at) AS oldest FROM (
      SELECT destination, bundle_id, created_at, CASE WHEN dead_at IS NOT NULL THEN 'dead' ELSE 'waiting' END AS state
      FROM outbox WHERE done_at IS NULL ORDER BY created_at LIMIT 10000) AS open
    GROUP BY 1, 2, 3 ORDER BY 3, 4 DESC LIMIT 100
    """

  static let mostDeliveries = 100

  /// The open deliveries: first those that were given up, which wait for a person.
  static func deliveries(state: String?, destination: String?) -> Postgres.Query {
    """
    SELECT * FROM (\(open(state: state, destination: destination, isDead: true))) AS dead
    UNION ALL SELECT * FROM (\(open(state: state, destination: destination, isDead: false))) AS others
    LIMIT \(mostDeliveries)
    """
  }

  private static func open(state: String?, destination: String?, isDead: Bool) -> Postgres.Query {
    """
    SELECT id, destination, bundle_id, endpoint, customer, state, created_at, attempts, next_attempt_at,
      coalesce(last_error, place_error) AS error
    FROM support_outbox WHERE done_at IS NULL AND (dead_at IS NOT NULL) = \(isDead)
      AND (\(state)::text IS NULL OR CASE WHEN \(state) = 'waiting' THEN state IN ('waiting', 'under way') ELSE state = \(state) END)
      AND (\(destination)::text IS NULL OR destination = \(destination))
    ORDER BY created_at LIMIT \(mostDeliveries)
    """
  }

  static let notifications: Postgres.Query = """
    SELECT why, bundle_id, type, subtype, notifications, oldest, failure, notification_uuids::text[] AS uuids
    FROM support_waiting_notifications ORDER BY oldest LIMIT 50
    """

  static let storeCalls: Postgres.Query = """
    SELECT kind, bundle_id, original_transaction_id, deadline, attempts, last_error FROM store_calls
    WHERE settled_at IS NULL ORDER BY deadline LIMIT 50
    """

  static let extensions: Postgres.Query = """
    SELECT coalesce(original_transaction_id, 'all of ' || product_id) AS what, bundle_id, days, by, requested_at, last_error
    FROM renewal_extensions WHERE completed_at IS NULL ORDER BY requested_at DESC LIMIT 50
    """
}
