import Configuration
import Foundation
import Postgres
import Subscriptions
import Work

/// Counts the KPIs of a day. Counting a day again replaces its rows by the current facts.
struct KPICounter: Sendable {
  private let prices: PriceList
  private let pool: PostgresPool
  private let clock: ServiceClock

  /// For how many days events are kept. Their counts are kept longer.
  static let daysOfEvents = 90
  /// The number of days by which events may be late.
  private static let daysOfLateEvents = Int(EventReport.maximumAge / 86_400) + 1
  /// Longer than the timeout of requests, because counting reads all active purchases.
  private static let timeout = Duration.seconds(300)
  /// The name of the advisory lock that lets one server count at a time.
  private static let lock = "kpi_daily"
  private static let deletedAtOnce = 10_000

  init(catalog: AppCatalog, pool: PostgresPool, clock: ServiceClock) {
    prices = PriceList(catalog)
    self.pool = pool
    self.clock = clock
  }

  /// Counts a day; waits for another server that is counting.
  /// - Returns: the number of rows, one for each app and tier.
  func count(_ day: Day) async throws -> Int {
    try await pool.withTransaction { connection in
      let lock = AdvisoryLock.acquire(.figures, [Self.lock])
      _ = try await connection.query(lock, timeout: Self.timeout)
      return try await count(day, eventsSince: day, at: clock.now(), connection)
    }
  }

  /// Whether a day is older than the days that are counted again after midnight.
  func isBackfill(_ day: Day) -> Bool {
    day < Day(of: clock.now()).advanced(by: -DayRows.daysCountedAgain)
  }

  /// Counts the day that is due, unless another server is counting.
  /// - Returns: the day; `nil` if no day is due, or another server is counting.
  func countDue() async throws -> Day? {
    try await pool.withTransaction { connection in
      let lock = try await connection.query(AdvisoryLock.tryAcquire(.figures, Self.lock))
      guard try lock.first?.decode("pg_try_advisory_xact_lock", as: Bool.self) == true else { return nil }
      let instant = clock.now()
      _ = try await connection.query(DayRows.takeLateFacts, timeout: Self.timeout)
      let due = try await connection.query(DayRows.due(at: instant), timeout: Self.timeout)
      guard let row = due.first, let day = Day(try row.decode("day", as: String.self)) else { return nil }
      let today = Day(of: instant)
      let isNightly = day == today.advanced(by: -1)
      let since = isNightly ? today.advanced(by: -Self.daysOfLateEvents) : day
      _ = try await count(day, eventsSince: since, at: instant, connection)
      return day
    }
  }

  /// Deletes events that were counted long ago, and the charges of the days before them.
  /// - Returns: the number of events.
  func deleteOldEvents() async throws -> Int {
    let first = Day(of: clock.now()).advanced(by: -Self.daysOfEvents)
    _ = try await pool.query(EventRows.deleteCharges(before: first))
    var count = 0
    while !Task.isCancelled {
      let deleted = try await pool.query(EventRows.delete(before: first.start, limit: Self.deletedAtOnce))
        .affected
      count += deleted
      if deleted < Self.deletedAtOnce { break }
    }
    return count
  }

  /// - Parameter first: the first of the days, up to this one, whose events are counted too.
  private func count(
    _ day: Day, eventsSince first: Day, at instant: Date, _ connection: PostgresConnection
  ) async throws -> Int {
    let asOf = min(day.end, instant)
    // JIT compilation takes longer than the statement, and a day long ago needs another plan than today.
    _ = try await connection.pipeline(
      [
        "SET LOCAL jit = off", "SET LOCAL plan_cache_mode = force_custom_plan", "SET LOCAL work_mem = '64MB'",
      ] + KPIRows.delete(day))
    let count = KPIRows.count(day, asOf: asOf, prices)
    let rows = try await connection.query(count, timeout: Self.timeout).affected
    let oldest = Day(of: instant).advanced(by: -Self.daysOfEvents)
    if day >= oldest {
      _ = try await connection.query(EventRows.deleteCounts(from: first, through: day))
      _ = try await connection.query(EventRows.count(from: first, through: day), timeout: Self.timeout)
    }
    _ = try await connection.query(DayRows.record(day, asOf: asOf, at: instant))
    return rows
  }
}
