import FoundationEssentials
import Postgres
import Subscriptions

/// Counts the business of a day, as often as one likes: a day's rows are replaced by what the facts say now.
struct Numbers: Sendable {
  private let prices: PriceList
  private let pool: PostgresPool
  private let clock: ServiceClock

  /// Events are kept so long; a day before that keeps what was counted of them.
  static let daysOfEvents = 90
  /// Events may come so many days late.
  private static let daysOfLateEvents = Int(EventReport.maximumAge / 86_400) + 1
  /// Counting reads whatever is active; a query of a request has less.
  private static let patience = Duration.seconds(300)
  /// Whoever counts holds it: one server at a time.
  private static let lock = "kpi_daily"
  private static let deletedAtOnce = 10_000

  init(catalog: AppCatalog, pool: PostgresPool, clock: ServiceClock) {
    prices = PriceList(catalog)
    self.pool = pool
    self.clock = clock
  }

  /// Counts a day anew, whoever else is counting.
  /// - Returns: the number of rows, one for each app and tier.
  func count(_ day: Day) async throws -> Int {
    try await pool.withTransaction { connection in
      let lock = AdvisoryLock.acquire(.figures, [Self.lock])
      _ = try await connection.query(lock, timeout: Self.patience)
      return try await count(day, eventsSince: day, at: clock.now(), connection)
    }
  }

  /// Whether a day is older than those that are counted again.
  func isMadeUpFor(_ day: Day) -> Bool {
    day < Day(of: clock.now()).advanced(by: -DayRows.daysCountedAgain)
  }

  /// Counts the day that is due, unless another server is counting.
  /// - Returns: the day, or `nil` where there was nothing to do here.
  func countDue() async throws -> Day? {
    try await pool.withTransaction { connection in
      let lock = try await connection.query(AdvisoryLock.tryAcquire(.figures, Self.lock))
      guard try lock.first?.decode(0, as: Bool.self) == true else { return nil }
      let instant = clock.now()
      let due = try await connection.query(DayRows.due(at: instant), timeout: Self.patience)
      guard let row = due.first, let day = Day(try row.decode(0, as: String.self)) else { return nil }
      let today = Day(of: instant)
      let isNightly = day == today.advanced(by: -1)
      let since = isNightly ? today.advanced(by: -Self.daysOfLateEvents) : day
      _ = try await count(day, eventsSince: since, at: instant, connection)
      return day
    }
  }

  /// Deletes events that were counted long ago, and what was charged for the days before them.
  /// - Returns: how many events.
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

  /// - Parameter first: the first of the days, up to this one, whose events are counted as well.
  private func count(
    _ day: Day, eventsSince first: Day, at instant: Date, _ connection: PostgresConnection
  ) async throws -> Int {
    let asOf = min(day.end, instant)
    // It takes longer to compile this statement than to run it; and a day long ago needs another plan than today.
    _ = try await connection.pipeline(
      [
        "SET LOCAL jit = off", "SET LOCAL plan_cache_mode = force_custom_plan", "SET LOCAL work_mem = '64MB'",
      ] + FiguresRows.forget(day))
    let figures = FiguresRows.count(day, asOf: asOf, prices)
    let rows = try await connection.query(figures, timeout: Self.patience).affected
    let oldest = Day(of: instant).advanced(by: -Self.daysOfEvents)
    if day >= oldest {
      _ = try await connection.query(EventRows.forgetCounts(from: first, through: day))
      _ = try await connection.query(EventRows.count(from: first, through: day), timeout: Self.patience)
    }
    _ = try await connection.query(DayRows.note(day, asOf: asOf, at: instant))
    return rows
  }
}
