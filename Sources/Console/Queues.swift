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
              QueueRows.statuses,
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
  /// Whether a queue may have more rows than are counted.
  let isCountCut: Bool
  /// The filter in words; `nil` for all.
  let shown: String?
  let work: [Work]
  /// Whether more may be open than are shown.
  let isCut: Bool
  let notifications: [Notification]
  let statuses: [Status]
  /// Whether more may wait than are shown.
  let areStatusesCut: Bool

  /// A premium status that the app's own table refused.
  struct Status: Sendable {
    let row: String
    let user: String
    let path: String
    let tables: String
    let since: Moment
    let attempts: Int
    let next: Moment
    let failure: String
    let retryPath: String
  }

  struct Group: Sendable {
    let kind: String
    let app: String
    let state: String
    let level: String
    /// Their number, such as `1000 or more`.
    let rows: String
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
    /// The value of its checkbox.
    let row: String
    /// The form that tries it again, and its name.
    let retryPath: String
    let retryWords: String
    /// Whether the form of selected rows takes it.
    let isSelectable: Bool
  }

  struct Notification: Sendable {
    let why: String
    let app: String?
    let type: String
    let rows: String
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
        kind: kind, app: app, state: state, level: Self.level(state),
        rows: Self.words(try row.decode("rows")),
        oldest: Moment(try row.decode("oldest"), from: now),
        path: link("/console/queues", ["state": state, "destination": kind]),
        requeuePath: state == "dead" && !app.isEmpty
          ? link("/console/act/requeue-all", ["bundleID": app]) : nil)
    }
    let counted = try answers[0].reduce(0) { try $0 + $1.decode("rows", as: Int.self) }
    isCountCut = counted >= QueueRows.mostCounted
    shown =
      state == nil && kind == nil ? nil : [state, kind].compactMap(\.self).joined(separator: ", ")
    isCut = answers[1].count == QueueRows.mostRows
    work = try answers[1].map { row in
      let state: String = try row.decode("state")
      let queue: String = try row.decode("queue")
      let name = "\(queue):\(try row.decode("id", as: String.self))"
      // The command of one extension learned no end. It is repeated with its days.
      let purchase: String? = try row.decode("purchase")
      let isRepeated = queue == "renewal_extensions" && purchase != nil
      let subject: String? = try row.decode("subject")
      func moment(_ column: String) throws -> Moment? {
        try row.decode(column, as: Date?.self).map { Moment($0, from: now) }
      }
      return Work(
        kind: try row.decode("kind"), what: try row.decode("what"), subject: subject,
        path: subject.map(Console.customerPath), state: state, level: Self.level(state),
        since: Moment(try row.decode("since"), from: now), attempts: try row.decode("attempts"),
        next: try moment("next_attempt_at"), deadline: try moment("deadline"),
        failure: try row.decode("last_error", as: String?.self).map(Self.cut),
        row: name,
        retryPath: isRepeated
          ? link("/console/act/extend-renewal", ["originalTransactionID": purchase])
          : link("/console/act/requeue", ["rows": name]),
        retryWords: isRepeated ? "Extend again" : "Try again", isSelectable: !isRepeated)
    }
    areStatusesCut = answers[3].count == QueueRows.mostStatuses
    statuses = try answers[3].map { row in
      let name = "outbox:\(try row.decode("id", as: Int64.self))"
      let user: String = try row.decode("key")
      return Status(
        row: name, user: user, path: Console.customerPath(user),
        tables: try row.decode("tables", as: [String].self).joined(separator: ", "),
        since: Moment(try row.decode("created_at"), from: now), attempts: try row.decode("attempts"),
        next: Moment(try row.decode("next_attempt_at"), from: now),
        failure: Self.cut(try row.decode("last_error")),
        retryPath: link("/console/act/requeue", ["rows": name]))
    }
    notifications = try answers[2].map { row in
      let subtype: String? = try row.decode("subtype")
      return Notification(
        why: try row.decode("why"), app: try row.decode("bundle_id"),
        type: (try row.decode("type", as: String?.self) ?? "unknown") + (subtype.map { " · \($0)" } ?? ""),
        rows: Self.words(try row.decode("notifications")),
        oldest: Moment(try row.decode("oldest"), from: now),
        failure: try row.decode("failure"),
        uuids: try row.decode("uuids", as: [String].self).map {
          Notification.Waiting(uuid: $0, path: link("/console/act/replay", ["notificationUUID": $0]))
        })
    }
  }

  /// The beginning of an error, so that a page of long ones is small. The customer's page has all of it.
  private static func cut(_ failure: String) -> String {
    failure.count > 160 ? failure.prefix(160) + "…" : failure
  }

  private static func words(_ count: Int) -> String {
    count >= QueueRows.mostCounted ? "\(count) or more" : "\(count)"
  }

  private static func level(_ state: String) -> String {
    switch state {
    case "dead", "disabled", "stopped": "bad"
    default: ""
    }
  }
}

/// The statements of *Queues*. Each reads a bounded number of rows of each table by an index, however many are open: a
/// view over all queues would read them all before its limit.
private enum QueueRows {
  /// Each queue is counted to this number. The deliveries that wait are one queue, whatever their destinations.
  static let mostCounted = 1_000

  static let summary: Postgres.Query = """
    SELECT kind, coalesce(app, '') AS app, state, count(*) AS rows, min(since) AS oldest FROM (
      (SELECT destination AS kind, bundle_id AS app, 'dead' AS state, created_at AS since FROM outbox
       WHERE done_at IS NULL AND dead_at IS NOT NULL ORDER BY created_at LIMIT \(mostCounted))
      UNION ALL
      (SELECT destination, bundle_id, 'waiting', created_at FROM outbox
       WHERE done_at IS NULL AND dead_at IS NULL AND destination <> 'profiles' ORDER BY next_attempt_at LIMIT \(mostCounted))
      UNION ALL
      (SELECT destination, bundle_id, 'waiting', created_at FROM outbox
       WHERE destination = 'profiles' AND bundle_id IS NULL AND endpoint = '' AND done_at IS NULL AND dead_at IS NULL
       LIMIT \(mostCounted))
      UNION ALL
      (SELECT kind, bundle_id, 'waiting', asked_at FROM store_calls WHERE settled_at IS NULL LIMIT \(mostCounted))
      UNION ALL
      (SELECT kind, bundle_id, 'dead', asked_at FROM store_calls
       WHERE outcome IN ('refused', 'unknown') AND deadline > now() LIMIT \(mostCounted))
      UNION ALL
      (SELECT kind, bundle_id, state, since FROM support_work WHERE queue = 'renewal_extensions' LIMIT \(mostCounted))
      UNION ALL
      (SELECT 'client_claim', NULL, 'waiting', last_at FROM client_writes
       WHERE next_attempt_at IS NOT NULL AND table_name = 'profiles' LIMIT \(mostCounted))
      UNION ALL
      (SELECT 'old_proof', bundle_id, 'waiting', old_proof_marked_at FROM subscriptions
       WHERE old_proof_due_at IS NOT NULL ORDER BY old_proof_due_at LIMIT \(mostCounted))) AS open
    GROUP BY 1, 2, 3 ORDER BY 3, 4 DESC LIMIT 100
    """

  static let mostRows = 80

  /// The open work: first what was given up, which waits for a person; then what is due first.
  static func work(state: String?, kind: String?) -> Postgres.Query {
    let isAsked: Postgres.Query = """
      (\(kind)::text IS NULL OR kind = \(kind)) AND (\(state)::text IS NULL
        OR CASE WHEN \(state) = 'waiting' THEN state IN ('waiting', 'under way') ELSE state = \(state) END)
      """
    return """
      SELECT queue, kind, id, what, coalesce(customer, purchase) AS subject, purchase, state, since, attempts, next_attempt_at,
        deadline, last_error
      FROM (
        \(deliveries(kind, state))
        UNION ALL
        (SELECT 'store_calls', c.kind, c.id::text, c.request_reason, coalesce(c.user_id::text, s.user_id::text, s.device_id),
           c.original_transaction_id, CASE WHEN c.settled_at IS NULL THEN 'waiting' ELSE 'dead' END, c.asked_at, c.attempts,
           CASE WHEN c.settled_at IS NULL THEN c.next_attempt_at END, c.deadline, c.last_error
         FROM (
           (SELECT * FROM store_calls WHERE settled_at IS NULL AND (\(kind)::text IS NULL OR kind = \(kind))
            ORDER BY next_attempt_at LIMIT \(mostRows))
           UNION ALL
           (SELECT * FROM store_calls WHERE outcome IN ('refused', 'unknown') AND deadline > now()
              AND (\(kind)::text IS NULL OR kind = \(kind)) ORDER BY deadline LIMIT \(mostRows))) AS c
         LEFT JOIN subscriptions s USING (original_transaction_id))
        UNION ALL
        (SELECT queue, kind, id, what, customer, original_transaction_id, state, since, attempts, next_attempt_at, deadline, last_error
         FROM support_work WHERE queue = 'renewal_extensions' ORDER BY since LIMIT \(mostRows))
        UNION ALL
        (SELECT 'client_writes', 'client_claim', id::text, product_id, user_id::text, original_transaction_id, 'waiting', last_at,
           attempts, next_attempt_at, NULL, CASE outcome WHEN 'unknown' THEN 'the App Store does not know the transaction' END
         FROM client_writes WHERE next_attempt_at IS NOT NULL AND table_name = 'profiles'
         ORDER BY next_attempt_at LIMIT \(mostRows))
        UNION ALL
        (SELECT 'subscriptions', 'old_proof', original_transaction_id, product_id, coalesce(user_id::text, device_id),
           original_transaction_id, 'waiting', old_proof_marked_at, NULL, old_proof_due_at, NULL,
           CASE WHEN old_proof_unknown_at IS NOT NULL THEN 'the App Store does not know the purchase' END
         FROM subscriptions WHERE old_proof_due_at IS NOT NULL ORDER BY old_proof_due_at LIMIT \(mostRows))
      ) AS open (queue, kind, id, what, customer, purchase, state, since, attempts, next_attempt_at, deadline, last_error)
      WHERE \(isAsked)
      ORDER BY state <> 'dead', next_attempt_at NULLS FIRST, since LIMIT \(mostRows)
      """
  }

  /// The deliveries that were given up and those that are due first. Statuses that an app's table refused have a list
  /// of their own.
  private static func deliveries(_ kind: String?, _ state: String?) -> Postgres.Query {
    """
    (SELECT 'outbox', destination, id::text, coalesce(event, nullif(endpoint, '')), customer, NULL::text, state, created_at, attempts,
       next_attempt_at, NULL::timestamptz, coalesce(last_error, place_error)
     FROM support_outbox WHERE id = ANY(ARRAY(
       (SELECT id FROM outbox WHERE dead_at IS NOT NULL AND done_at IS NULL
          AND (\(kind)::text IS NULL OR destination = \(kind)) ORDER BY created_at LIMIT \(mostRows))
       UNION ALL
       (\(kind == nil && state != "disabled" ? dueFirst : dueFirstByPlace(kind, state))))))
    """
  }

  private static let dueFirst: Postgres.Query = """
    SELECT id FROM outbox WHERE dead_at IS NULL AND done_at IS NULL AND destination <> 'profiles'
    ORDER BY next_attempt_at LIMIT \(mostRows)
    """

  /// By the index of each destination: among all open rows, those of one kind may be rare.
  private static func dueFirstByPlace(_ kind: String?, _ state: String?) -> Postgres.Query {
    """
    SELECT id FROM (
      SELECT found.* FROM (
        SELECT destination, bundle_id, endpoint FROM outbox_destinations
        WHERE (\(kind)::text IS NULL OR destination = \(kind))
          AND (\(state)::text IS DISTINCT FROM 'disabled' OR disabled_at IS NOT NULL) LIMIT 200) AS place
      CROSS JOIN LATERAL (
        SELECT id, next_attempt_at FROM outbox
        WHERE destination = place.destination AND bundle_id = place.bundle_id AND endpoint = place.endpoint
          AND dead_at IS NULL AND done_at IS NULL
        ORDER BY next_attempt_at LIMIT \(mostRows)) AS found
      UNION ALL
      -- Without an order, so that the planner does not search the index of all due rows for them.
      (SELECT id, next_attempt_at FROM outbox
       WHERE destination = 'profiles' AND \(kind)::text = 'profiles' AND bundle_id IS NULL AND endpoint = '' AND dead_at IS NULL
         AND done_at IS NULL LIMIT 1000)) AS due
    ORDER BY next_attempt_at LIMIT \(mostRows)
    """
  }

  static let mostStatuses = 30

  /// The premium statuses that the app's own tables refused, those that wait longest first.
  static let statuses: Postgres.Query = """
    SELECT id, key, created_at, attempts, next_attempt_at, last_error,
      ARRAY(SELECT jsonb_array_elements_text(coalesce(payload -> 'tables', payload -> 'decided', '[]'))) AS tables
    FROM (
      SELECT * FROM outbox
      WHERE destination = 'profiles' AND bundle_id IS NULL AND endpoint = '' AND dead_at IS NULL AND done_at IS NULL
        AND last_error IS NOT NULL
      LIMIT 1000) AS refused
    ORDER BY created_at LIMIT \(mostStatuses)
    """

  /// As `support_waiting_notifications`.
  static let notifications: Postgres.Query = """
    SELECT outcome AS why, bundle_id, type, subtype, count(*) AS notifications, min(received_at) AS oldest, failure,
      (array_agg(notification_uuid::text ORDER BY received_at))[1:10] AS uuids
    FROM (
      SELECT outcome, bundle_id, environment, type, subtype, received_at, failure, notification_uuid FROM notifications
      WHERE processed_at IS NULL ORDER BY received_at LIMIT \(mostCounted)) AS waiting
    GROUP BY outcome, bundle_id, environment, type, subtype, failure ORDER BY oldest LIMIT 50
    """
}
