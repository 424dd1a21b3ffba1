import Actions
import Configuration
import Foundation
import JSON
import Postgres
import Subscriptions
import Work

/// The queues, for the support of them all.
package struct WorkDesk: Sendable {
  package let outbox: Outbox
  /// The other queues.
  let queues: [RequeuableQueue]

  package init(outbox: Outbox, queues: [RequeuableQueue]) {
    self.outbox = outbox
    self.queues = queues
  }

  /// Makes a row due now, and records it.
  /// - Returns: whether there is such a row that may be queued again.
  fileprivate func requeue(_ row: WorkRow, by author: SupportAuthor, isDryRun: Bool) async throws -> Bool {
    if row.queue == WorkRow.outbox {
      guard let id = Int64(key: row.id) else { return false }
      return try await outbox.requeue(id: id, by: author, isDryRun: isDryRun)
    }
    let instant = outbox.clock.now()
    guard let queue = queues.first(where: { $0.name == row.queue }),
      let statement = queue.requeue(row.id, at: instant)
    else { return false }
    return try await outbox.pool.withTransaction(isDryRun: isDryRun) { connection in
      guard let changed = try await connection.query(statement).first else { return false }
      let action = SupportAction(
        name: RequeueRequest.operation.rawValue, bundleID: try changed.decode("bundle_id"),
        originalTransactionID: try changed.decode("original_transaction_id"),
        details: ["queue": .string(row.queue), "id": .string(row.id)])
      _ = try await connection.query(SupportActionRows.insert([action], by: author, at: instant))
      return true
    }
  }

  /// Why a row was not queued again.
  fileprivate func refusal(of row: WorkRow) -> String {
    guard row.queue != WorkRow.outbox else { return "The outbox has no row \(row.id)." }
    guard let queue = queues.first(where: { $0.name == row.queue }) else {
      let known = ([WorkRow.outbox] + queues.map(\.name)).joined(separator: ", ")
      return "There is no queue '\(row.queue)'; there are \(known)."
    }
    return
      "'\(row)' is not queued again: \(row.queue) has no such row, or not one that can be. Only \(queue.rule)."
  }
}

/// A row of `support_work` as text: its queue and its id with a colon between; an id alone is of the outbox.
package struct WorkRow: Hashable, Sendable, Codable, CustomStringConvertible {
  static let outbox = "outbox"

  let queue: String
  let id: String

  /// - Returns: `nil` for an empty part.
  package init?(_ text: String) {
    let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
    guard parts.allSatisfy({ !$0.isEmpty }), text.utf8.count <= 200 else { return nil }
    (queue, id) = parts.count == 2 ? (parts[0], parts[1]) : (Self.outbox, parts[0])
  }

  package init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    guard let row = WorkRow(try container.decode(String.self)) else {
      throw DecodingError.dataCorruptedError(
        in: container, debugDescription: "a row is a queue and an id, such as store_calls:17")
    }
    self = row
  }

  package func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    try container.encode(description)
  }

  package var description: String { "\(queue):\(id)" }
}

/// Makes rows of the queues due now, a row of the outbox in whatever state it is, and reopens its destination if it was
/// disabled; or all rows of an app's outbox that were given up.
package struct RequeueRequest: SupportRequest {
  package static let operation = SupportOperation.requeue
  /// Each row is a transaction of its own.
  package static let maximumRows = 200

  /// The id in `support_outbox`.
  var outbox: Int64?
  /// The app.
  var bundleID: String?
  /// Rows of `support_work`, each as its queue and its id.
  var rows: [WorkRow]?

  package init(outbox: Int64) {
    self.outbox = outbox
  }

  package init(bundleID: String) {
    self.bundleID = bundleID
  }

  package init(rows: [WorkRow]) {
    self.rows = rows
  }

  package func run(at desk: WorkDesk, by author: SupportAuthor, isDryRun: Bool) async throws -> RequeueResult
  {
    switch (outbox, bundleID, rows) {
    case (let id?, nil, nil):
      guard try await desk.outbox.requeue(id: id, by: author, isDryRun: isDryRun) else {
        throw SupportRefusal.notFound("The outbox has no row \(id).")
      }
      return RequeueResult(requeued: 1, isDryRun: isDryRun)
    case (nil, let bundleID?, nil):
      let app = try desk.outbox.catalog.app(named: bundleID)
      return RequeueResult(
        requeued: try await desk.outbox.requeueDead(of: app, by: author, isDryRun: isDryRun),
        isDryRun: isDryRun)
    case (nil, nil, let rows?): return try await run(rows, at: desk, by: author, isDryRun: isDryRun)
    default: throw SupportRefusal.invalid("Exactly one of 'outbox', 'rows' and 'bundleID' is needed.")
    }
  }

  /// Rows that have ended meanwhile do not stop the others.
  private func run(
    _ rows: [WorkRow], at desk: WorkDesk, by author: SupportAuthor, isDryRun: Bool
  ) async throws -> RequeueResult {
    guard (1...Self.maximumRows).contains(rows.count) else {
      throw SupportRefusal.invalid("'rows' has 1 to \(Self.maximumRows) rows.")
    }
    var result = RequeueResult(requeued: 0, isDryRun: isDryRun)
    for row in rows.enumerated().filter({ rows.firstIndex(of: $1) == $0 }).map(\.element) {
      if try await desk.requeue(row, by: author, isDryRun: isDryRun) {
        result.requeued += 1
        result.rows.append(row)
      } else {
        result.refused.append(desk.refusal(of: row))
      }
    }
    guard result.requeued > 0 else { throw SupportRefusal.notFound(result.refused.joined(separator: " ")) }
    return result
  }
}

/// The result of `receiptd requeue`.
package struct RequeueResult: Encodable, Sendable, CustomStringConvertible {
  /// The number of rows.
  package fileprivate(set) var requeued: Int
  /// Those that the request named.
  package fileprivate(set) var rows: [WorkRow] = []
  /// Why others that it named were not queued again, a sentence each.
  package fileprivate(set) var refused: [String] = []
  /// Whether nothing was written.
  let isDryRun: Bool

  init(requeued: Int, isDryRun: Bool) {
    self.requeued = requeued
    self.isDryRun = isDryRun
  }

  /// A line, and one for each row that was not queued again.
  package var description: String {
    let areDeliveries = rows.allSatisfy { $0.queue == WorkRow.outbox }
    let noun =
      switch (areDeliveries, requeued == 1) {
      case (true, true): "delivery"
      case (true, false): "deliveries"
      case (false, true): "row"
      case (false, false): "rows"
      }
    let names = rows.count < 2 ? "" : ": " + rows.map(\.description).joined(separator: ", ")
    return (["\(requeued) \(noun) requeued\(names)"] + refused).joined(separator: "\n")
  }
}

extension Outbox {
  /// Makes a row due now in whatever state it is, and reopens its destination. Recorded in `support_actions`.
  /// - Returns: whether there is such a row.
  func requeue(id: Int64, by author: SupportAuthor, isDryRun: Bool) async throws -> Bool {
    let instant = clock.now()
    return try await pool.withTransaction(isDryRun: isDryRun) { connection in
      let rows = try await connection.query(OutboxRows.requeue(id, at: instant))
      guard let row = rows.first else { return false }
      // A row without an app is the premium status of a user.
      let bundleID = try row.decode("bundle_id", as: String?.self)
      let kind: CustomerKind? = if let bundleID { catalog[bundleID]?.customer } else { .user }
      _ = try await connection.pipeline([
        OutboxRows.reopenDestination(of: id),
        OutboxRows.insertAction(id, kind: kind, by: author, at: instant),
      ])
      return true
    }
  }

  /// Makes all rows of an app due that were given up.
  /// - Returns: the number of rows.
  func requeueDead(of app: App, by author: SupportAuthor, isDryRun: Bool) async throws -> Int {
    let dead = try await pool.query(OutboxRows.dead(of: app.bundleID))
    var count = 0
    for row in dead where try await requeue(id: row.decode("id"), by: author, isDryRun: isDryRun) {
      count += 1
    }
    return count
  }
}

extension OutboxRows {
  static func requeue(_ id: Int64, at instant: Date) -> Query {
    let reopened: Query = """
      , change = nextval('outbox_changes'), created_at = \(instant), done_at = NULL, dead_at = NULL,
        delivered_digest = NULL, attempted_digest = NULL
      """
    return "\(DeliveryRows.table.requeue(id, at: instant, setting: reopened)) RETURNING bundle_id"
  }

  static func reopenDestination(of id: Int64) -> Query {
    """
    UPDATE outbox_destinations AS known SET disabled_at = NULL, paused_until = NULL
    FROM outbox
    WHERE outbox.id = \(id) AND known.destination = outbox.destination AND known.bundle_id = outbox.bundle_id
      AND known.endpoint = outbox.endpoint
    """
  }

  /// Records that support queued a row again. The record stays, so it does not name a customer who was erased.
  static func insertAction(
    _ id: Int64, kind: CustomerKind?, by author: SupportAuthor, at instant: Date
  ) -> Query {
    """
    INSERT INTO support_actions (action, bundle_id, to_customer, customer_kind, by, actor, person_id, reason, details, at)
    SELECT 'requeue', bundle_id, CASE WHEN names_customer THEN key END,
      CASE WHEN names_customer THEN \(kind?.rawValue)::text END,
      \(author.by), \(author.actor.kind), \(author.actor.personID)::bigint, \(author.reason),
      jsonb_build_object('outbox', id, 'destination', destination, 'endpoint', endpoint)
        || CASE WHEN is_state THEN '{}' ELSE jsonb_build_object('key', key) END, \(instant)
    FROM outbox, LATERAL (SELECT destination NOT IN ('event', 'notification') AS is_state) AS kind,
      LATERAL (SELECT is_state AND NOT payload ? 'erased' AS names_customer) AS customer
    WHERE id = \(id)
    """
  }

  static func dead(of bundleID: String) -> Query {
    """
    SELECT id FROM outbox WHERE done_at IS NULL AND dead_at IS NOT NULL AND bundle_id = \(bundleID) ORDER BY id
    """
  }
}
