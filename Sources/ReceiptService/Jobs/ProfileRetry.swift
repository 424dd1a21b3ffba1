import CoreMetrics
import FoundationEssentials
import Identifiers
import Logging
import Postgres
import Subscriptions

/// Writes premium statuses again that the app's own tables did not take at first, until they do.
///
/// The outbox holds only whose they are: what is written is the status of that moment, so a late attempt
/// never puts back an older one.
struct ProfileRetry: Sendable {
  let pool: PostgresPool
  let catalog: AppCatalog
  let clock: ServiceClock
  let logger: Logger
  let metrics: ServiceMetrics

  private static let pause = Duration.seconds(2)
  private static let batch = 32

  /// Tries until the task is cancelled.
  func runForever() async {
    while !Task.isCancelled {
      do {
        while try await run() == Self.batch {}
      } catch {
        logger.warning("statuses could not be tried again", metadata: ["reason": "\(error)"])
      }
      try? await Task.sleep(for: Self.pause * Double.random(in: 0.75...1.25))
    }
  }

  /// Tries what is due, at most one batch of it.
  /// - Returns: how many were due.
  @discardableResult
  func run() async throws -> Int {
    var count = 0
    while count < Self.batch, try await runOne(at: clock.now()) { count += 1 }
    return count
  }

  /// Each in a transaction of its own: holding one customer while waiting for the next is how two servers
  /// come to wait for each other.
  /// - Returns: whether there was one.
  private func runOne(at instant: Date) async throws -> Bool {
    try await pool.withTransaction { connection in
      let due = try await connection.query(
        OutboxRows.due(for: OutboxRows.profiles, at: instant, limit: 1))
      guard let row = due.first else { return false }
      let id = try row.decode(0, as: Int64.self)
      let attempts = try row.decode(2, as: Int.self)
      let user = UUID(rfc9562: try row.decode(1, as: String.self))
      let isWritten = if let user { try await tryWriting(user, at: instant, connection) } else { true }
      if !isWritten { metrics.outcomes.profileWriteFailures.increment() }
      let next = instant + Backoff.delay(afterAttempts: attempts, jitter: .random(in: 0...1))
      _ = try await connection.query(
        isWritten
          ? OutboxRows.done(id)
          : OutboxRows.postpone(id, until: next, because: "the table did not take it"))
      return true
    }
  }

  /// A row that cannot be read is this user's trouble alone: those who wait behind must get their turn.
  private func tryWriting(
    _ user: UUID, at instant: Date, _ connection: PostgresConnection
  ) async throws -> Bool {
    do {
      return try await write(user, at: instant, connection)
    } catch let error as UnreadableRow {
      logger.error("a subscription's row cannot be read", metadata: ["column": "\(error.column)"])
      return false
    }
  }

  private func write(
    _ user: UUID, at instant: Date, _ connection: PostgresConnection
  ) async throws -> Bool {
    let answers = try await connection.pipeline(
      [AdvisoryLock.acquire(.customer, [user.uuidString])] + HoldingsRows.select(users: [user], devices: []))
    let holdings = try HoldingsRows.decode(answers.dropFirst())
    let writer = ProfileWriter(catalog: catalog, clock: clock, logger: logger)
    let changes = catalog.apps.map { CustomerChange(bundleID: $0.bundleID, customer: .user(user)) }
    return try await writer.write(changes, holdings: holdings, on: connection).isEmpty
  }
}
