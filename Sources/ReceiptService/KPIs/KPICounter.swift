import Actions
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

/// Counts the KPIs: the current day every few minutes, each day soon after its end, and again for a week because facts may
/// come late. One server counts at a time.
struct KPIJob: Sendable {
  let counter: KPICounter

  /// The pause after a backfilled day, as a multiple of the time that it took. Counting a day takes seconds with a million
  /// subscriptions, and requests need the database too.
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

extension Service {
  /// Counts days again, for `receiptd kpi`.
  ///
  /// - Parameter report: called after each day, with the number of its rows.
  /// - Throws: ``SupportRefusal`` for a range that ends before it begins or in the future, and errors of the database. The
  ///   days before an error are counted.
  package func countKPIs(from first: Day, through last: Day, report: (Day, Int) -> Void) async throws {
    guard first <= last else { throw SupportRefusal.invalid("the last day is before the first") }
    guard last <= Day(of: clock.now()) else { throw SupportRefusal.invalid("\(last) is in the future") }
    var day = first
    while day <= last {
      report(day, try await kpiCounter.count(day))
      day = day.advanced(by: 1)
    }
  }
}
