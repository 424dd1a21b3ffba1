import FoundationEssentials
import Postgres

/// Rows of the outbox that are delivered lane by lane.
enum DeliveryRows {
  /// A row that was claimed.
  struct Claimed: Sendable {
    var id: Int64
    var key: String
    var change: Int64
    var createdAt: Date
    var attempts: Int
    /// The digest of what stood there before this claim.
    var deliveredDigest: [UInt8]?
    /// How often in a row the lane as a whole was in trouble.
    var laneFailures: Int
  }

  /// What becomes of a claimed row.
  struct Settlement: Sendable {
    var id: Int64
    /// The change that was sent; if there was another since, the row is due at once.
    var change: Int64
    var isDone = false
    var isDead = false
    var digest: [UInt8]?
    var countsAsAttempt = true
    /// When it is due again; for what is done: when it stops being true by itself.
    var nextAttemptAt: Date
    var error: String?
  }

  /// Claims what is due. Nobody else gets it before `end`; a lane that rests gives nothing, and one
  /// that was in trouble a single row, to see whether it is well again.
  ///
  /// What was delivered is due again when it stops being true by itself (a trial ends, a grant begins). It
  /// comes anew then.
  ///
  /// After the claim the receiver's state is unknown, since the answer to a request can be lost. So the claim clears the
  /// delivered digest, and the outcome sets it again.
  static func claim(
    _ lane: OutboxLane, by claim: UUID, limit: Int, at instant: Date, until end: Date
  ) -> Query {
    """
    WITH lane AS (
      SELECT failures FROM outbox_lanes
      WHERE destination = \(lane.destination.rawValue) AND bundle_id = \(lane.bundleID)
        AND endpoint = \(lane.endpoint) AND disabled_at IS NULL
        AND (paused_until IS NULL OR paused_until <= \(instant))),
    due AS MATERIALIZED (
      SELECT id, delivered_digest FROM outbox
      WHERE destination = \(lane.destination.rawValue) AND bundle_id = \(lane.bundleID)
        AND endpoint = \(lane.endpoint) AND dead_at IS NULL
        AND next_attempt_at <= \(instant) AND (claimed_until IS NULL OR claimed_until <= \(instant))
        AND EXISTS (SELECT FROM lane)
      ORDER BY next_attempt_at, id
      LIMIT (SELECT CASE WHEN failures > 0 THEN 1 ELSE \(limit)::bigint END FROM lane)
      FOR UPDATE SKIP LOCKED)
    UPDATE outbox SET claimed_by = \(claim), claimed_until = \(end), delivered_digest = NULL, done_at = NULL,
      change = CASE WHEN done_at IS NULL THEN change ELSE nextval('outbox_changes') END,
      created_at = CASE WHEN done_at IS NULL THEN created_at ELSE \(instant) END,
      attempts = CASE WHEN done_at IS NULL THEN attempts ELSE 0 END,
      attempted_digest = CASE WHEN done_at IS NULL THEN attempted_digest END
    FROM due WHERE outbox.id = due.id
    RETURNING outbox.id, key, change, created_at, attempts, due.delivered_digest, (SELECT failures FROM lane)
    """
  }

  static func decode(_ row: Row) throws -> Claimed {
    Claimed(
      id: try row.decode(0), key: try row.decode(1), change: try row.decode(2),
      createdAt: try row.decode(3), attempts: try row.decode(4), deliveredDigest: try row.decode(5),
      laneFailures: try row.decode(6))
  }

  /// A change as it goes out.
  struct Attempt: Sendable {
    var id: Int64
    var change: Int64
    var digest: [UInt8]
  }

  /// Writes down what claimed rows are about to send, before it is sent: a change has one content for good, since a
  /// receiver drops what comes under an id that it has seen, whatever it answered then. Where the content is not that of
  /// the attempts before (time has passed, the configuration was changed), it is another change from now on.
  ///
  /// - Returns: rows of id, change and the instant of the change; none where a change came after the claim: what was read
  ///   may be of either.
  static func note(_ attempts: [Attempt], by claim: UUID, at instant: Date) -> Query {
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

  /// Settles claimed rows, in one transaction. Whose claim has run out meanwhile belongs to somebody else.
  static func settle(_ rows: [Settlement], by claim: UUID, at instant: Date) -> [Query] {
    let ids = rows.map(\.id)
    return [
      // In the order in which changes lock them.
      """
      SELECT id FROM outbox WHERE id = ANY(\(ids)) ORDER BY destination, key, bundle_id, endpoint FOR UPDATE
      """,
      """
      UPDATE outbox SET claimed_by = NULL, claimed_until = NULL, delivered_digest = settled.digest,
        done_at = CASE WHEN outbox.change = settled.change AND is_done THEN \(instant)::timestamptz END,
        dead_at = CASE WHEN outbox.change = settled.change AND is_dead THEN \(instant)::timestamptz END,
        attempts = CASE WHEN outbox.change = settled.change THEN attempts + counted ELSE attempts END,
        next_attempt_at = CASE WHEN outbox.change = settled.change THEN next ELSE next_attempt_at END,
        last_error = CASE WHEN outbox.change = settled.change THEN error END
      FROM unnest(\(ids)::bigint[], \(rows.map(\.change))::bigint[], \(rows.map(\.isDone))::boolean[],
        \(rows.map(\.isDead))::boolean[], \(rows.map(\.digest))::bytea[],
        \(rows.map { $0.countsAsAttempt ? 1 : 0 })::bigint[], \(rows.map(\.nextAttemptAt))::timestamptz[],
        \(rows.map(\.error))::text[])
        AS settled (id, change, is_done, is_dead, digest, counted, next, error)
      WHERE outbox.id = settled.id AND claimed_by = \(claim)
      """,
    ]
  }
}

/// The table `outbox_lanes`.
enum LaneRows {
  /// - Returns: a row if the lane was not known before.
  static func register(_ lane: OutboxLane, at instant: Date) -> Query {
    """
    INSERT INTO outbox_lanes (destination, bundle_id, endpoint, first_seen_at)
    VALUES (\(lane.destination.rawValue), \(lane.bundleID), \(lane.endpoint), \(instant))
    ON CONFLICT DO NOTHING RETURNING true
    """
  }

  static func pause(_ lane: OutboxLane, until end: Date, because reason: String) -> Query {
    """
    UPDATE outbox_lanes SET failures = failures + 1, paused_until = \(end), last_error = \(reason)
    WHERE destination = \(lane.destination.rawValue) AND bundle_id = \(lane.bundleID)
      AND endpoint = \(lane.endpoint)
    """
  }

  static func disable(_ lane: OutboxLane, because reason: String, at instant: Date) -> Query {
    """
    UPDATE outbox_lanes SET disabled_at = \(instant), last_error = \(reason)
    WHERE destination = \(lane.destination.rawValue) AND bundle_id = \(lane.bundleID)
      AND endpoint = \(lane.endpoint) AND disabled_at IS NULL
    """
  }

  /// It is well again.
  static func recover(_ lane: OutboxLane) -> Query {
    """
    UPDATE outbox_lanes SET failures = 0, paused_until = NULL, last_error = NULL
    WHERE destination = \(lane.destination.rawValue) AND bundle_id = \(lane.bundleID)
      AND endpoint = \(lane.endpoint) AND failures > 0
    """
  }
}
