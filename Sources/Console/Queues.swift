import Actions
import Deliveries
import Foundation
import HTTP
import Identifiers
import Postgres

extension Console {
  /// *Queues*: what waits for an attempt, or for an operator.
  static func queues(_ parts: Parts) -> ConsoleScreen {
    ConsoleScreen(
      entry: "Queues", path: "/console/queues", operation: .requeue,
      pages: [
        ConsolePage(path: "/console/queues", operation: .requeue) { request in
          let (state, kind) = (request.value("state"), request.value("destination"))
          let answers = try await parts.pool.withConnection { connection in
            try await connection.pipeline([
              QueueRows.summary, QueueRows.work(state: state, kind: kind), QueueRows.notifications,
            ])
          }
          return .page(
            ConsoleContent(
              title: "Queues", template: "queues",
              content: try QueueContent(
                answers, state: state, kind: kind, from: request.instant),
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
  let work: [Work]
  /// Whether more may be open than are shown.
  let isCut: Bool
  let notifications: [Notification]

  struct Group: Sendable {
    let kind: String
    let app: String
    let state: String
    let level: String
    let rows: Int
    let oldest: Moment
    let path: String
    let requeuePath: String?
  }

  struct Work: Sendable {
    let kind: String
    let what: String?
    /// The customer, or else the purchase.
    let subject: String?
    let path: String?
    let state: String
    let level: String
    let since: Moment
    let attempts: Int?
    let next: Moment?
    let deadline: Moment?
    let failure: String?
    /// `nil` for work that is no delivery.
    let requeuePath: String?
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

  init(_ answers: [Rows], state: String?, kind: String?, from now: Date) throws {
    summary = try answers[0].map { row in
      let (kind, state): (String, String) = (try row.decode("kind"), try row.decode("state"))
      let app: String = try row.decode("app")
      return Group(
        kind: kind, app: app, state: state, level: Self.level(state), rows: try row.decode("rows"),
        oldest: Moment(try row.decode("oldest"), from: now),
        path: link("/console/queues", ["state": state, "destination": kind]),
        requeuePath: state == "dead" && !app.isEmpty
          ? link("/console/act/requeue-all", ["bundleID": app]) : nil)
    }
    shown =
      state == nil && kind == nil ? nil : [state, kind].compactMap(\.self).joined(separator: ", ")
    isCut = answers[1].count == QueueRows.mostRows
    work = try answers[1].map { row in
      let state: String = try row.decode("state")
      let id: String = try row.decode("id")
      let subject: String? = try row.decode("subject")
      func moment(_ column: String) throws -> Moment? {
        try row.decode(column, as: Date?.self).map { Moment($0, from: now) }
      }
      return Work(
        kind: try row.decode("kind"), what: try row.decode("what"), subject: subject,
        path: subject.map(Console.customerPath), state: state, level: Self.level(state),
        since: Moment(try row.decode("since"), from: now), attempts: try row.decode("attempts"),
        next: try moment("next_attempt_at"), deadline: try moment("deadline"),
        failure: try row.decode("last_error"),
        requeuePath: try row.decode("queue", as: String.self) == "outbox"
          ? link("/console/act/requeue", ["outbox": id]) : nil)
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
  }

  private static func level(_ state: String) -> String {
    switch state {
    case "dead", "disabled", "stopped": "bad"
    default: ""
    }
  }
}

/// The statements of *Queues*. Each ends at a number of rows.
private enum QueueRows {
  static let summary: Postgres.Query = """
    SELECT kind, coalesce(bundle_id, '') AS app, state, count(*) AS rows, min(since) AS oldest FROM (
      (SELECT destination AS kind, bundle_id, CASE WHEN dead_at IS NOT NULL THEN 'dead' ELSE 'waiting' END AS state,
         created_at AS since FROM outbox WHERE done_at IS NULL ORDER BY created_at LIMIT 10000)
      UNION ALL
      (SELECT kind, bundle_id, state, since FROM support_work WHERE queue <> 'outbox' LIMIT 10000)) AS open
    GROUP BY 1, 2, 3 ORDER BY 3, 4 DESC LIMIT 100
    """

  static let mostRows = 100

  /// The open work: first what was given up, which waits for a person.
  static func work(state: String?, kind: String?) -> Postgres.Query {
    """
    SELECT * FROM (\(open(state: state, kind: kind, isDead: true))) AS dead
    UNION ALL SELECT * FROM (\(open(state: state, kind: kind, isDead: false))) AS others
    LIMIT \(mostRows)
    """
  }

  private static func open(state: String?, kind: String?, isDead: Bool) -> Postgres.Query {
    """
    SELECT queue, kind, id, what, coalesce(customer, original_transaction_id) AS subject, state, since, attempts,
      next_attempt_at, deadline, last_error
    FROM support_work WHERE (state = 'dead') = \(isDead)
      AND (\(state)::text IS NULL OR CASE WHEN \(state) = 'waiting' THEN state IN ('waiting', 'under way') ELSE state = \(state) END)
      AND (\(kind)::text IS NULL OR kind = \(kind))
    ORDER BY since LIMIT \(mostRows)
    """
  }

  static let notifications: Postgres.Query = """
    SELECT why, bundle_id, type, subtype, notifications, oldest, failure, notification_uuids::text[] AS uuids
    FROM support_waiting_notifications ORDER BY oldest LIMIT 50
    """
}
