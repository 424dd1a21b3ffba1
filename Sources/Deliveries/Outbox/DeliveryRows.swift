import Customers
import Foundation
import Postgres
import Work

/// The queries on outbox rows for CloudKit, webhooks and forwarded notifications.
enum DeliveryRows {
  /// A row that was claimed.
  struct Claimed: Sendable {
    var id: Int64
    var key: String
    var change: Int64
    var createdAt: Date
    var attempts: Int
    /// The digest of the content that the destination had before this claim.
    var deliveredDigest: [UInt8]?
    /// Whether the row tells that its customer was erased.
    var isErased: Bool
    /// The number of consecutive failures of the destination as a whole.
    var destinationFailures: Int

    init(_ row: Row) throws {
      id = try row.decode("id")
      key = try row.decode("key")
      change = try row.decode("change")
      createdAt = try row.decode("created_at")
      attempts = try row.decode("attempts")
      deliveredDigest = try row.decode("known_digest")
      isErased = try row.decode("is_erased")
      destinationFailures = try row.decode("destination_failures")
    }
  }

  /// The update of a claimed row after its delivery.
  struct RowUpdate: Sendable {
    var id: Int64
    /// The change that was sent. If the row has a later change, the row is due at once.
    var change: Int64
    var isDone = false
    var isDead = false
    var digest: [UInt8]?
    var countsAsAttempt = true
    /// When the row is due again; for a delivered row: when its state changes with time.
    var nextAttemptAt: Date
    var error: String?

    /// What the attempt came to.
    var result: WorkOutcome.Result {
      isDone ? .done : isDead ? .givenUp : countsAsAttempt ? .retry : .givenBack
    }
  }

  /// The queue of deliveries. A delivered row stays in it: its state may change with time.
  static let table = WorkTable(
    "outbox", key: "id", isOpen: "dead_at IS NULL",
    lease: .columns(holder: "claimed_by", end: "claimed_until"))

  /// Leases the rows of a destination that are due. A paused destination gives no
  /// row. A destination that failed last gives one row, as a probe.
  ///
  /// A delivered row is due again when its state changes with time (a trial ends, a grant begins). It starts over then.
  ///
  /// A webhook that receives lifecycle events alone gets no states, also none from before its configuration was
  /// changed.
  ///
  /// The claim clears the delivered digest and the outcome sets it again, because the response to a request can be
  /// lost.
  static func claim(
    _ destination: OutboxDestination, erasuresOnly: Bool, _ lease: WorkLease, limit: Int
  ) -> Query {
    let failures: Query = """
      FROM outbox_destinations
      WHERE destination = \(destination.kind.rawValue) AND bundle_id = \(destination.bundleID)
        AND endpoint = \(destination.endpoint) AND disabled_at IS NULL
        AND (paused_until IS NULL OR paused_until <= \(lease.start))
      """
    return table.claim(
      lease,
      where: """
        destination = \(destination.kind.rawValue) AND bundle_id = \(destination.bundleID)
        AND endpoint = \(destination.endpoint) AND (NOT \(erasuresOnly) OR payload ? 'erased')
        """,
      limit: "coalesce((SELECT CASE WHEN failures > 0 THEN 1 ELSE \(limit)::bigint END \(failures)), 0)",
      keeping: ", delivered_digest AS known_digest",
      setting: """
        , delivered_digest = NULL, done_at = NULL,
          change = CASE WHEN done_at IS NULL THEN change ELSE nextval('outbox_changes') END,
          created_at = CASE WHEN done_at IS NULL THEN created_at ELSE \(lease.start) END,
          attempts = CASE WHEN done_at IS NULL THEN attempts ELSE 0 END,
          attempted_digest = CASE WHEN done_at IS NULL THEN attempted_digest END
        """,
      returning: """
        id, key, change, created_at, attempts, (SELECT known_digest FROM work WHERE work_key = id) AS known_digest,
          payload ? 'erased' AS is_erased,
          (SELECT failures \(failures)) AS destination_failures
        """)
  }

  /// The content that is about to be sent for a change.
  struct Attempt: Sendable {
    var id: Int64
    var change: Int64
    var digest: [UInt8]
  }

  /// The change under which a row is sent.
  struct RecordedChange: Sendable {
    var id: Int64
    var change: Int64
    var createdAt: Date

    init(_ row: Row) throws {
      id = try row.decode("id")
      change = try row.decode("change")
      createdAt = try row.decode("created_at")
    }
  }

  /// Records the digests of the contents that claimed rows are about to send.
  ///
  /// A change has one content for good, because a receiver drops an event whose id it has seen. If the content differs
  /// from the one of former attempts (time has passed, the configuration was changed), the row gets a new change
  /// number.
  ///
  /// - Returns: a ``RecordedChange`` for each row; none for a row with a change after the claim, whose content is
  ///   unknown.
  static func record(_ attempts: [Attempt], by claim: UUID, at instant: Date) -> Query {
    let ids = attempts.map(\.id)
    return """
      WITH locked AS MATERIALIZED (
        SELECT id, coalesce(attempted_digest = sent.digest, attempts = 0) AS is_same, sent.digest
        FROM outbox JOIN unnest(\(ids)::bigint[], \(attempts.map(\.change))::bigint[],
          \(attempts.map(\.digest))::bytea[]) AS sent (outbox_id, change, digest)
          ON outbox.id = sent.outbox_id AND outbox.change = sent.change
        WHERE claimed_by = \(claim)
        ORDER BY destination, key, bundle_id, endpoint FOR UPDATE OF outbox)
      UPDATE outbox SET attempted_digest = locked.digest,
        change = CASE WHEN is_same THEN change ELSE nextval('outbox_changes') END,
        created_at = CASE WHEN is_same THEN created_at ELSE \(instant) END
      FROM locked WHERE outbox.id = locked.id
      RETURNING outbox.id, change, created_at
      """
  }

  /// Ends the claims and writes the outcomes, in one transaction. A row whose claim has expired is left alone.
  static func release(_ rows: [RowUpdate], by claim: UUID, at instant: Date) -> [Query] {
    let ids = rows.map(\.id)
    return [
      // In the order in which ``CustomerChanges`` locks them.
      """
      SELECT id FROM outbox WHERE id = ANY(\(ids)) ORDER BY destination, key, bundle_id, endpoint FOR UPDATE
      """,
      """
      UPDATE outbox SET claimed_by = NULL, claimed_until = NULL, delivered_digest = updated.digest,
        done_at = CASE WHEN outbox.change = updated.change AND is_done THEN \(instant)::timestamptz END,
        dead_at = CASE WHEN outbox.change = updated.change AND is_dead THEN \(instant)::timestamptz END,
        attempts = CASE WHEN outbox.change = updated.change THEN attempts + counted ELSE attempts END,
        next_attempt_at = CASE WHEN outbox.change = updated.change THEN next ELSE next_attempt_at END,
        last_error = CASE WHEN outbox.change = updated.change THEN error END
      FROM unnest(\(ids)::bigint[], \(rows.map(\.change))::bigint[], \(rows.map(\.isDone))::boolean[],
        \(rows.map(\.isDead))::boolean[], \(rows.map(\.digest))::bytea[],
        \(rows.map { $0.countsAsAttempt ? 1 : 0 })::bigint[], \(rows.map(\.nextAttemptAt))::timestamptz[],
        \(rows.map(\.error))::text[])
        AS updated (id, change, is_done, is_dead, digest, counted, next, error)
      WHERE outbox.id = updated.id AND claimed_by = \(claim)
      """,
      // The destination knows of the erasure, or of the last state of a device with nothing on record. The state of a
      // customer who came back follows; otherwise the id has no further use.
      """
      UPDATE outbox SET payload = '{}', change = nextval('outbox_changes'), created_at = \(instant), attempts = 0,
        next_attempt_at = \(instant), done_at = NULL, attempted_digest = NULL, delivered_digest = NULL
      WHERE id = ANY(\(ids)) AND payload ? 'returned' AND done_at IS NOT NULL
      """,
      "DELETE FROM outbox WHERE id = ANY(\(ids)) AND payload ?| '{erased,last}' AND done_at IS NOT NULL",
    ]
  }

  /// Deletes those of these rows that are delivered. A row that was queued again meanwhile stays.
  static func deleteDelivered(_ rows: [RowUpdate]) -> Query {
    "DELETE FROM outbox WHERE id = ANY(\(rows.filter(\.isDone).map(\.id))) AND done_at IS NOT NULL"
  }
}

/// The queries on `outbox_destinations`.
enum DestinationRows {
  /// A row if a destination is known.
  static func isRegistered(_ destination: OutboxDestination) -> Query {
    """
    SELECT FROM outbox_destinations
    WHERE destination = \(destination.kind.rawValue) AND bundle_id = \(destination.bundleID)
      AND endpoint = \(destination.endpoint)
    """
  }

  /// Adds a destination, unless it is known.
  static func register(_ destination: OutboxDestination, at instant: Date) -> Query {
    """
    INSERT INTO outbox_destinations (destination, bundle_id, endpoint, first_seen_at)
    VALUES (\(destination.kind.rawValue), \(destination.bundleID), \(destination.endpoint), \(instant))
    ON CONFLICT DO NOTHING
    """
  }

  /// Deletes at most `limit` states of a destination that receives none any more. What tells of an erasure stays.
  static func deleteStates(of destination: OutboxDestination, limit: Int) -> Query {
    """
    DELETE FROM outbox WHERE id IN (
      SELECT id FROM outbox
      WHERE destination = \(destination.kind.rawValue) AND bundle_id = \(destination.bundleID)
        AND endpoint = \(destination.endpoint) AND dead_at IS NULL AND NOT payload ? 'erased'
      ORDER BY next_attempt_at LIMIT \(limit) FOR UPDATE SKIP LOCKED)
    """
  }

  static func pause(_ destination: OutboxDestination, until end: Date, because reason: String) -> Query {
    """
    UPDATE outbox_destinations SET failures = failures + 1, paused_until = \(end), last_error = \(reason)
    WHERE destination = \(destination.kind.rawValue) AND bundle_id = \(destination.bundleID)
      AND endpoint = \(destination.endpoint)
    """
  }

  static func disable(_ destination: OutboxDestination, because reason: String, at instant: Date) -> Query {
    """
    UPDATE outbox_destinations SET disabled_at = \(instant), last_error = \(reason)
    WHERE destination = \(destination.kind.rawValue) AND bundle_id = \(destination.bundleID)
      AND endpoint = \(destination.endpoint) AND disabled_at IS NULL
    """
  }

  /// Ends the pause of a destination that answered.
  static func recover(_ destination: OutboxDestination) -> Query {
    """
    UPDATE outbox_destinations SET failures = 0, paused_until = NULL, last_error = NULL
    WHERE destination = \(destination.kind.rawValue) AND bundle_id = \(destination.bundleID)
      AND endpoint = \(destination.endpoint) AND failures > 0
    """
  }
}
