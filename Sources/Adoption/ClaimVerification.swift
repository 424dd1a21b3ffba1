import Customers
import Foundation
import Logging
import Platform
import Postgres
import Requests
import Subscriptions
import Work

/// A background job that verifies the claims which old builds of clients write to `profiles`.
///
/// A claim that the App Store confirms binds the purchase to the user, if it has no owner. A false one gives nothing.
struct ClaimVerification: Sendable {
  let modes: ClientWriteModes
  let check: ClaimCheck
  let logKey: LogKey
  let work: WorkContext

  var pool: PostgresPool { work.pool }
  var clock: ServiceClock { work.clock }
  var logger: Logger { work.logger }

  /// The waits before the App Store is asked again about a transaction that it did not know: it may learn of a purchase
  /// a little later than the client.
  private static let unknownWaits: [TimeInterval] = [60, 300, 1_800, 21_600, 86_400]

  /// The shortest and the longest wait before the App Store is asked again after a failure.
  private static let failureWaits: ClosedRange<TimeInterval> = 30...3_600

  private var queue: WorkQueue<ClientWriteRows.Claim> {
    WorkQueue(
      ClientWriteRows.claims, work, batch: 16, lease: 300, kind: { _ in .clientClaim }, key: \.id,
      endsRun: isDatabaseUnavailable, read: ClientWriteRows.Claim.init)
  }

  /// Verifies all claims that are due, every five seconds.
  var job: BackgroundJob {
    BackgroundJob("claims of clients", every: .seconds(5)) {
      while try await run() == queue.batch {}
    }
  }

  /// Verifies one batch of due claims.
  /// - Returns: the number of claims that were due.
  @discardableResult
  func run() async throws -> Int {
    // Without a key the claims wait: it may be configured later.
    let apps = modes.apps(writingTo: .profiles).filter { modes.appsWithKey.contains($0.bundleID) }
    guard !apps.isEmpty else { return 0 }
    return try await queue.run(ClientWriteRows.claimDue) { try await verify($0, $1, in: apps) }
  }

  private func verify(
    _ claim: ClientWriteRows.Claim, _ lease: WorkLease, in apps: [App]
  ) async throws -> WorkOutcome {
    let decided = try await check.decide(
      claim.transactionID, for: .user(claim.userID), isContested: claim.isContested,
      in: apps.startingWithSeller(of: claim.productID))
    let instant = clock.now()
    if decided.verdict == .failed {
      // A failure is no answer, so it uses up none of the questions. The waits grow with the time that has passed.
      let wait = instant.timeIntervalSince(claim.waitsSince)
      let next =
        instant
        + min(max(wait, Self.failureWaits.lowerBound), Self.failureWaits.upperBound) * .random(in: 0.5...1)
      return WorkOutcome(.retry, [ClientWriteRows.put(off: claim, lease, until: next)])
    }
    let isAskedAgain = decided.verdict == .unknown && Self.unknownWaits.indices.contains(claim.attempts)
    let next = isAskedAgain ? instant + Self.unknownWaits[claim.attempts] : nil
    let end = ClientWriteRows.put(off: claim, lease, until: next, with: decided.verdict, at: instant)
    return WorkOutcome(isAskedAgain ? .waits : .done, [end]) {
      guard decided.verdict != .bound else { return }
      var metadata: Logger.Metadata = [
        "purchase": "\(claim.transactionID)", "outcome": "\(decided.verdict.rawValue)",
      ]
      metadata["customer"] = logKey.hash(of: claim.userID.uuidString.lowercased()).map { "\($0)" }
      logger.notice(
        "a client wrote a premium status that the App Store does not confirm", metadata: metadata)
    }
  }
}

extension [App] {
  /// The apps, first those that sell a product.
  func startingWithSeller(of productID: String?) -> [App] {
    guard let productID else { return self }
    return filter { $0.product(named: productID) != nil } + filter { $0.product(named: productID) == nil }
  }
}

/// Statements on the table `client_writes`. Triggers insert its rows.
package enum ClientWriteRows {
  /// A noted claim that names a transaction.
  struct Claim: Sendable {
    var id: Int64
    var userID: UUID
    var transactionID: String
    var productID: String?
    /// The answers of the App Store before this one.
    var attempts: Int
    /// The client's last write, or the App Store's last answer.
    var waitsSince: Date
    /// Whether another user claims the transaction too.
    var isContested: Bool

    init(_ row: Row) throws {
      id = try row.decode("id")
      userID = try row.decode("user_id")
      transactionID = try row.decode("original_transaction_id")
      productID = try row.decode("product_id")
      attempts = try row.decode("attempts")
      waitsSince = try row.decode("waits_since")
      isContested = try row.decode("is_contested")
    }
  }

  /// The client writes of one table within the last 30 days.
  package struct Recent: Sendable {
    package var table: String
    package var writes: Int
    package var users: Int
    /// The users among them whose claim was verified and bound.
    package var bound: Int
    package var last: Date?

    package init(_ row: Row) throws {
      table = try row.decode("table_name")
      writes = try row.decode("writes")
      users = try row.decode("users")
      bound = try row.decode("bound")
      last = try row.decode("last_at")
    }
  }

  private static let window = 2_000

  /// The queue of claims. `outcome` says what is known of one.
  static let claims = WorkTable(
    "client_writes", key: "id", isOpen: "next_attempt_at IS NOT NULL AND table_name = 'profiles'",
    lastError: nil)

  /// The record names no purchase: the claim may name another customer's.
  package static let requeuable = RequeuableQueue(
    "client_writes", only: "a claim that waits, or whose transaction the App Store did not know"
  ) { key, instant in
    guard let id = Int64(key: key) else { return nil }
    return """
      \(claims.requeue(id, at: instant)) AND table_name = 'profiles' AND original_transaction_id <> ''
        AND (next_attempt_at IS NOT NULL OR outcome = \(ClaimVerdict.unknown.rawValue))
      RETURNING NULL::text AS bundle_id, NULL::text AS original_transaction_id
      """
  }

  /// Leases due claims.
  ///
  /// Each user has a turn: a claim comes after those of users who had fewer answers within an hour. A client can invent
  /// ids, which take the App Store longest. Of many due claims the oldest and the newest are ranked, ``window`` of
  /// each: however many clients have invented, the statement ends, and a new claim is not behind all of them.
  static func claimDue(_ lease: WorkLease, limit: Int) -> Query {
    let instant = lease.start
    return claims.claim(
      lease,
      inTurns: """
        (WITH seen AS (
          (SELECT id, user_id, next_attempt_at FROM client_writes
           WHERE next_attempt_at <= \(instant) AND table_name = 'profiles' ORDER BY next_attempt_at LIMIT \(window))
          UNION
          (SELECT id, user_id, next_attempt_at FROM client_writes
           WHERE next_attempt_at <= \(instant) AND table_name = 'profiles' ORDER BY next_attempt_at DESC LIMIT \(window))
        ), ranked AS (
          SELECT id, user_id, next_attempt_at,
            row_number() OVER (PARTITION BY user_id ORDER BY next_attempt_at, id) AS place FROM seen
        ), answered AS (
          SELECT user_id, count(*) AS answers FROM client_writes
          WHERE user_id IN (SELECT user_id FROM ranked) AND table_name = 'profiles'
            AND verified_at > \(instant)::timestamptz - interval '1 hour'
          GROUP BY user_id)
        SELECT ranked.id AS turn_key, place + coalesce(answers, 0) AS turn FROM ranked LEFT JOIN answered USING (user_id)
        -- More than are taken, because other servers may hold some.
        ORDER BY turn, next_attempt_at LIMIT \(4 * limit)) AS turns
        """, limit: "\(limit)",
      returning: """
        id, user_id, original_transaction_id, product_id, attempts, greatest(last_at, verified_at) AS waits_since,
          EXISTS (SELECT FROM client_writes other
            WHERE other.original_transaction_id = client_writes.original_transaction_id
              AND other.user_id <> client_writes.user_id)
          OR EXISTS (SELECT FROM profiles other
            WHERE other.premium_original_transaction_id = client_writes.original_transaction_id
              AND other.id <> client_writes.user_id) AS is_contested
        """)
  }

  /// Writes when to ask about a claim again, and what is decided so far.
  /// - Parameters:
  ///   - next: `nil` for never.
  ///   - verdict: `nil` without an answer.
  static func put(
    off claim: Claim, _ lease: WorkLease, until next: Date?, with verdict: ClaimVerdict? = nil,
    at instant: Date? = nil
  ) -> Query {
    let decision: Query =
      verdict.map { ", outcome = \($0.rawValue), verified_at = \(instant)::timestamptz" } ?? ""
    return claims.retry(
      claim.id, of: lease, at: next, because: nil, isAttempt: verdict != nil, setting: decision)
  }

  /// Counts the writes of the last 30 days, for each table in `client_write_modes`.
  ///
  /// Older days of a row that was written lately do not count; see the column `daily_writes`.
  package static func recent(at instant: Date) -> Query {
    """
    SELECT m.table_name, coalesce(sum(days.writes), 0)::bigint AS writes, count(DISTINCT w.user_id) AS users,
      count(DISTINCT w.user_id) FILTER (WHERE w.outcome = 'bound') AS bound,
      (SELECT max(last_at) FROM client_writes any_time WHERE any_time.table_name = m.table_name) AS last_at
    FROM client_write_modes m
    LEFT JOIN client_writes w ON w.table_name = m.table_name
      AND w.last_at > \(instant)::timestamptz - interval '30 days'
    LEFT JOIN LATERAL (
      SELECT sum(day.writes) AS writes FROM unnest(w.daily_writes) WITH ORDINALITY AS day (writes, ago)
      WHERE (w.last_at AT TIME ZONE 'UTC')::date - (ago - 1)::integer
        > (\(instant)::timestamptz AT TIME ZONE 'UTC')::date - 30) AS days ON true
    GROUP BY m.table_name ORDER BY m.table_name
    """
  }
}
