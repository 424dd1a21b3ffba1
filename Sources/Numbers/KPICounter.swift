import Actions
import Configuration
import Foundation
import Postgres
import Subscriptions
import Text
import Work

/// Counts the KPIs of a day. Counting a day again replaces its rows by the current facts.
package struct KPICounter: Sendable {
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
  package func count(_ day: Day) async throws -> Int {
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
      guard try lock.first?.decode("is_taken", as: Bool.self) == true else { return nil }
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

  /// Deletes events that were counted long ago, the charges of the days before them, and the charges of customers of
  /// the days before yesterday: the clocks of the servers differ.
  /// - Returns: the number of events.
  func deleteOldEvents() async throws -> Int {
    let today = Day(of: clock.now())
    let first = today.advanced(by: -Self.daysOfEvents)
    _ = try await pool.query(EventRows.deleteCharges(before: first))
    _ = try await deleteInBatches {
      EventRows.deleteCustomerCharges(before: today.advanced(by: -1), limit: $0)
    }
    return try await deleteInBatches { EventRows.delete(before: first.start, limit: $0) }
  }

  /// - Parameter query: deletes at most as many rows as its argument.
  private func deleteInBatches(_ query: (Int) -> Query) async throws -> Int {
    var count = 0
    while !Task.isCancelled {
      let deleted = try await pool.query(query(Self.deletedAtOnce)).affected
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

/// The products and prices of the configuration as rows, one for each name of a product.
struct PriceList: Sendable {
  struct ListedProduct: Sendable, Hashable {
    var bundleID: String
    /// The product id or an alias.
    var name: String
    /// The product id.
    var productID: String
    var tier: String
    var accessDays: Int32?
  }

  struct ListedPrice: Sendable, Hashable {
    var bundleID: String
    var name: String
    var currency: String
    var milliunits: Int64
    /// Whether it is used for a transaction without a currency: USD, else the first by alphabet.
    var isDefault: Bool
  }

  private(set) var products: [ListedProduct] = []
  private(set) var prices: [ListedPrice] = []

  init(_ catalog: AppCatalog) {
    for app in catalog.apps {
      for product in app.products.values.sorted(by: { $0.id < $1.id }) {
        for name in [product.id] + product.aliases {
          products.append(
            ListedProduct(
              bundleID: app.bundleID, name: name, productID: product.id, tier: product.tier,
              accessDays: product.accessDays.map { Int32(clamping: $0) }))
          let usual = product.prices["USD"] != nil ? "USD" : product.prices.keys.min()
          for (currency, milliunits) in product.prices.sorted(by: { $0.key < $1.key }) {
            prices.append(
              ListedPrice(
                bundleID: app.bundleID, name: name, currency: currency, milliunits: milliunits,
                isDefault: currency == usual))
          }
        }
      }
    }
  }
}

/// Counts the KPIs: the current day every few minutes, each day soon after its end, and again for a week because facts
/// may come late. One server counts at a time.
struct KPIJob: Sendable {
  let counter: KPICounter

  init(counter: KPICounter) {
    self.counter = counter
  }

  /// The pause after a backfilled day, as a multiple of the time that it took. Counting a day takes seconds with a
  /// million subscriptions, and requests need the database too.
  static let pauseFactor = 19

  /// Counts the days that are due, every minute.
  var job: BackgroundJob { BackgroundJob("kpi", every: .seconds(60)) { _ = try await run() } }

  /// Counts the days that are due, then deletes old events.
  /// - Parameter pause: waits after a backfilled day; tests pass their own.
  /// - Returns: the days, in the order in which they were counted.
  @discardableResult
  func run(
    pause: (Duration) async throws -> Void = { try await Task.sleep(for: $0) }
  ) async throws -> [Day] {
    var days: [Day] = []
    while !Task.isCancelled {
      let start = ContinuousClock.now
      guard let day = try await counter.countDue() else {
        _ = try await counter.deleteOldEvents()
        break
      }
      days.append(day)
      // The latest days are counted without a pause.
      if counter.isBackfill(day) { try await pause((ContinuousClock.now - start) * Self.pauseFactor) }
    }
    return days
  }
}

/// The queries on `kpi_days`, which has the days that were counted.
enum DayRows {
  /// The App Store retries a notification for six and a half days.
  static let daysCountedAgain = 7
  /// The age at which the current day is counted again, in seconds.
  static let interval: TimeInterval = 300
  /// Late notifications arrive just after midnight, so counting waits this many seconds.
  static let pauseAfterMidnight: TimeInterval = 600
  /// The age at which a day with late facts is counted again, in seconds.
  static let staleInterval: TimeInterval = 3_600
  /// The day on which the App Store opened. Earlier dates are wrong.
  static let firstDay = "2008-07-10"

  /// Records that a day was counted.
  static func record(_ day: Day, asOf: Date, at instant: Date) -> Query {
    """
    INSERT INTO kpi_days (day, as_of, computed_at)
    VALUES (\(day.description)::text::date, \(asOf), \(instant))
    ON CONFLICT (day) DO UPDATE SET
      as_of = excluded.as_of, computed_at = excluded.computed_at, is_stale = false
    """
  }

  /// Takes the late facts and marks their counted days. Days whose transactions retention may have deleted stay as they
  /// are.
  static var takeLateFacts: Query {
    """
    WITH late AS (DELETE FROM kpi_late_facts RETURNING first_day, last_day)
    UPDATE kpi_days SET is_stale = true
    WHERE NOT is_stale AND EXISTS (SELECT FROM late WHERE kpi_days.day BETWEEN first_day AND last_day)
      AND day >= coalesce((
        SELECT (forgotten_before AT TIME ZONE 'UTC')::date FROM retention_positions
        WHERE relation = 'transactions'), '-infinity')
    """
  }

  /// The day to count next.
  ///
  /// The current day is due every few minutes, the last seven days once after each midnight, a day with late facts once
  /// an hour, and every day since the first purchase that was never counted. Before the first purchase, trial or event
  /// the current day alone is due. A time of counting that lies in the future was written by a wrong clock and is
  /// ignored.
  static func due(at instant: Date) -> Query {
    let today = Day(of: instant)
    let settled = today.start + pauseAfterMidnight
    return """
      WITH facts AS (
        SELECT least(
          (SELECT min(purchase_date) FROM transactions WHERE environment = 'Production'),
          (SELECT min(started_at) FROM trials), (SELECT min(at) FROM events)) AS first
      )
      SELECT to_char(days.day, 'YYYY-MM-DD') AS day
      FROM facts CROSS JOIN LATERAL generate_series(
        greatest(
          coalesce((facts.first AT TIME ZONE 'UTC')::date, \(today.description)::text::date),
          \(unescaped: "'\(firstDay)'::date"))::timestamp,
        \(today.description)::text::timestamp, interval '1 day') AS days (day)
      LEFT JOIN kpi_days k ON k.day = days.day::date
      WHERE k.day IS NULL
        OR k.computed_at > \(instant + ServiceClock.serverTolerance)
        OR k.is_stale AND k.computed_at <= \(instant - staleInterval)
        OR CASE
          WHEN days.day = \(today.description)::text::timestamp THEN k.computed_at <= \(instant - interval)
          WHEN days.day >= \(today.advanced(by: -daysCountedAgain).description)::text::timestamp
            THEN k.computed_at < \(settled) AND \(instant >= settled)
          ELSE k.as_of < (days.day + interval '1 day') AT TIME ZONE 'UTC'
        END
      -- The latest days first, then days that were never counted, then the one whose count is the oldest.
      ORDER BY days.day < \(today.advanced(by: -daysCountedAgain).description)::text::timestamp,
        CASE WHEN days.day < \(today.advanced(by: -daysCountedAgain).description)::text::timestamp
          THEN k.computed_at END NULLS FIRST, days.day DESC
      LIMIT 1
      """
  }
}
