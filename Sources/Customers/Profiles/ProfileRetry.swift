import Configuration
import CoreMetrics
import Foundation
import Identifiers
import Logging
import Platform
import Postgres
import Subscriptions
import Work

/// A background job that retries premium statuses that the app's own tables refused.
///
/// The outbox holds only user ids. Each attempt writes the status at that instant, so a late attempt never writes an
/// older status.
struct ProfileRetry: Sendable {
  let catalog: AppCatalog
  /// Counts the failed writes.
  let failures: Counter
  let work: WorkContext

  private var pool: PostgresPool { work.pool }
  private var clock: ServiceClock { work.clock }
  private var logger: Logger { work.logger }

  private static let batch = 32
  /// The timeout of a statement that failed before: a trigger of the app, or megabytes in a row, may take longer than a
  /// request waits.
  private static let longerTimeout: Duration = .milliseconds(2_500)
  /// How soon a status is tried again whose table no configured app writes to: another configuration may be read at any
  /// time.
  private static let configurationWait: TimeInterval = 60
  /// How soon a status is tried again whose customer's lock another transaction holds.
  private static let lockWait: TimeInterval = 2

  /// Writes all statuses that are due, every two seconds.
  var job: BackgroundJob {
    BackgroundJob("profile retry", every: .seconds(2)) { while try await run() == Self.batch {} }
  }

  /// Retries at most one batch of due statuses.
  /// - Returns: the number of statuses that were due.
  @discardableResult
  func run() async throws -> Int {
    var count = 0
    while count < Self.batch, try await runOne(at: clock.now()) { count += 1 }
    return count
  }

  /// Retries one status in its own transaction: a transaction that locked one customer after another could deadlock
  /// with another server. It does not wait for a customer's lock, and an error that ends it postpones this status: the
  /// others go on.
  /// - Returns: whether a status was due.
  private func runOne(at instant: Date) async throws -> Bool {
    var taken: (id: Int64, attempts: Int)?
    do {
      return try await runOne(at: instant, &taken)
    } catch {
      guard let taken else { throw error }
      failures.increment()
      work.metrics.attempted(.profiles, .retry)
      let next = instant + Backoff.delivery.seconds(afterFailures: taken.attempts + 1)
      do {
        _ = try await pool.query(
          ProfileRetryRows.table.retry(
            taken.id, of: nil, at: next, because: "\(error)", isAttempt: true))
      } catch let unavailable as PostgresError where unavailable.isUnavailable {
        throw error
      }
      return true
    }
  }

  private func runOne(at instant: Date, _ taken: inout (id: Int64, attempts: Int)?) async throws -> Bool {
    let result = try await pool.withTransaction { connection async throws -> WorkOutcome.Result? in
      let due = try await connection.query(ProfileRetryRows.due(at: instant))
      guard let row = due.first else { return nil }
      let id = try row.decode("id", as: Int64.self)
      let attempts = try row.decode("attempts", as: Int.self)
      taken = (id, attempts)
      let user = UUID(rfc9562: try row.decode("key", as: String.self))
      let decided = Set(try row.decode("decided", as: [String].self))
      let named = try row.decode("tables", as: [String].self)
      // A row from before tables were named is for all.
      let tables = ProfileTable.all.filter { named.isEmpty || named.contains($0.destination.rawValue) }
      let unserved = named.isEmpty ? nil : unserved(tables)
      if let user,
        try await !connection.query(AdvisoryLock.tryAcquire(.customer, user.uuidString))[0].decode(
          "is_taken", as: Bool.self)
      {
        _ = try await connection.query(
          ProfileRetryRows.table.retry(
            id, of: nil, at: instant + Self.lockWait, because: nil, isAttempt: false))
        return .waits
      }
      if let user,
        let reason = try await tryWriting(
          user, to: tables, decided: decided, isFirst: attempts == 0, connection) ?? unserved
      {
        failures.increment()
        let next =
          instant
          + (unserved == nil ? Backoff.delivery.seconds(afterFailures: attempts + 1) : Self.configurationWait)
        _ = try await connection.query(
          ProfileRetryRows.table.retry(id, of: nil, at: next, because: reason, isAttempt: true))
        return unserved == nil ? .retry : .waits
      }
      _ = try await connection.query(ProfileRetryRows.done(id))
      return .done
    }
    guard let result else { return false }
    work.metrics.attempted(.profiles, result)
    return true
  }

  /// Why a status for one of these tables waits: no configured app writes to it, as in a server that has not read a new
  /// configuration yet.
  private func unserved(_ tables: [ProfileTable]) -> String? {
    let writer = ProfileWriter(catalog: catalog, clock: clock, logger: logger)
    return tables.first { writer.apps(writingTo: $0).isEmpty }.map {
      "\($0.destination.rawValue): no configured app writes to it"
    }
  }

  /// An unreadable row fails this user's status only; the queue goes on.
  /// - Returns: the reason why the status could not be written.
  private func tryWriting(
    _ user: UUID, to tables: [ProfileTable], decided: Set<String>, isFirst: Bool,
    _ connection: PostgresConnection
  ) async throws -> String? {
    do {
      return try await write(user, to: tables, decided: decided, isFirst: isFirst, connection)
    } catch let error as UnreadableRow {
      logger.error("a subscription's row cannot be read", metadata: ["column": "\(error.column)"])
      return "subscriptions: the column \(error.column) cannot be read"
    }
  }

  /// - Parameter decided: the tables in which the status replaces every claim. The transaction holds the customer's
  ///   lock.
  private func write(
    _ user: UUID, to tables: [ProfileTable], decided: Set<String>, isFirst: Bool,
    _ connection: PostgresConnection
  ) async throws -> String? {
    var reads = Statements()
    let recordReads = AllCustomerRecordReads(users: [user], in: &reads)
    let customerRecords = try recordReads.records(in: await connection.answers(to: reads))
    let changes = catalog.apps.map { CustomerChange(bundleID: $0.bundleID, customer: .user(user)) }
    var reason: String?
    for isDecided in [true, false] {
      let writer = ProfileWriter(
        catalog: catalog, clock: clock, logger: logger,
        tables: tables.filter { decided.contains($0.destination.rawValue) == isDecided },
        timeout: isFirst ? ProfileWriter.timeout : Self.longerTimeout)
      let unwritten = try await writer.write(
        changes, customerRecords: customerRecords, former: isDecided ? [user] : [], on: connection)
      reason = reason ?? unwritten[user]
    }
    return reason
  }
}

/// The queries on outbox rows of premium statuses. A row is written in the transaction that changes the status.
package enum ProfileRetryRows {
  /// The destination of premium statuses that could not be written to the app's own tables.
  package static let destination = "profiles"

  /// Adds rows for users whose status must be written again. A user with a waiting row that says the same gets no
  /// second one.
  /// - Parameter users: each with the tables that the status is for, and those in which it replaces every claim.
  static func insert(
    _ users: [(id: UUID, tables: [StatusDestination], decided: [StatusDestination])], at instant: Date
  ) -> Query {
    func list(_ tables: [StatusDestination]) -> String {
      tables.map { "\"\($0.rawValue)\"" }.joined(separator: ", ")
    }
    let payloads = users.map { user in
      let decided = user.decided.isEmpty ? "" : ", \"decided\": [\(list(user.decided))]"
      return "{\"tables\": [\(list(user.tables))]\(decided)}"
    }
    return """
      INSERT INTO outbox (destination, key, payload, created_at, next_attempt_at)
      SELECT \(destination)::text, waiting.key, waiting.payload::jsonb, \(instant)::timestamptz,
        \(instant)::timestamptz + interval '1 second'
      FROM unnest(\(users.map { $0.id.uuidString.lowercased() })::text[], \(payloads)::text[]) AS waiting (key, payload)
      WHERE NOT EXISTS (
        SELECT FROM outbox WHERE destination = \(destination) AND outbox.key = waiting.key
          AND done_at IS NULL AND dead_at IS NULL AND outbox.payload @> waiting.payload::jsonb)
      """
  }

  /// The queue of premium statuses. No row is leased: the transaction that writes the status has locked it.
  static let table = WorkTable(
    "outbox", key: "id", isOpen: "destination = 'profiles' AND done_at IS NULL AND dead_at IS NULL")

  /// The row that is due first, locked until the transaction ends.
  static func due(at instant: Date) -> Query {
    table.due(
      at: instant, limit: "1",
      selecting: """
        id, key, attempts, ARRAY(SELECT jsonb_array_elements_text(payload -> 'decided')) AS decided,
          ARRAY(SELECT jsonb_array_elements_text(coalesce(payload -> 'tables', payload -> 'decided'))) AS tables
        """)
  }

  /// Deletes a delivered row, because the app's own table has the status.
  static func done(_ id: Int64) -> Query { "DELETE FROM outbox WHERE id = \(id)" }
}
