import AppStore
import AppStoreSimulator
import Foundation
import HTTP
import Postgres
import Testing

@testable import ReceiptService

extension Harness {
  /// The year of the tests. It is in the future, so that certificates are valid and no day has passed.
  var storyYear: Int { Calendar(identifier: .gregorian).component(.year, from: Date()) + 1 }

  /// A day of that year, such as `02-20`.
  func day(_ monthAndDay: String) throws -> Day { try #require(Day("\(storyYear)-\(monthAndDay)")) }

  /// Sets the clock to that day, at ten o'clock by default.
  func becomes(_ monthAndDay: String, hour: Double = 10) throws {
    clock.set(try day(monthAndDay).start + hour * 3600)
  }

  /// Counts all days that are due, as the job does.
  /// - Returns: the days.
  @discardableResult
  func countWhatIsDue() async throws -> [Day] {
    var days: [Day] = []
    while true {
      let turn = try await service.kpiJob.run { _ in }
      if turn.isEmpty { return days }
      days += turn
    }
  }

  /// The numbers of a row of `kpi_daily` other than 0; empty without such a row.
  func numbers(
    _ monthAndDay: String, tier: String?, of bundleID: String = ScreenTime.bundleID
  ) async throws -> [String: String] {
    let rows = try await pool.query(
      """
      SELECT number.key, number.value::text
      FROM kpi_daily k
      CROSS JOIN LATERAL jsonb_each(to_jsonb(k) - '{day,bundle_id,tier,as_of}'::text[]) AS number
      WHERE k.day::text = \(day(monthAndDay).description) AND k.bundle_id = \(bundleID)
        AND k.tier IS NOT DISTINCT FROM \(tier)::text AND number.value NOT IN ('0', 'null', '{}')
      """)
    return Dictionary(
      uniqueKeysWithValues: try rows.map {
        (try $0.decode("key", as: String.self), try $0.decode("value", as: String.self))
      })
  }

  /// All counted rows in order, without their times of counting.
  func everythingCounted() async throws -> [String] {
    let rows = try await pool.query(
      """
      SELECT row FROM (
        SELECT 'figures ' || f::text AS row FROM kpi_daily_figures f
        UNION ALL SELECT 'money ' || m::text FROM kpi_daily_money m
        UNION ALL SELECT 'events ' || e::text FROM kpi_events_daily e) AS counted ORDER BY row
      """)
    return try rows.map { try $0.decode("row", as: String.self) }
  }

  /// An Apple Account buys, and the notification arrives.
  @discardableResult
  func account(
    _ account: String, buys productID: String, of bundleID: String = ScreenTime.bundleID,
    offer: StoreOffer? = nil, in environment: AppStore.Environment = .production
  ) async throws -> SignedOutcome {
    let request = PurchaseRequest(
      bundleID: bundleID, productID: productID, accountID: account, offer: offer)
    let bought = try store.buy(request, in: environment)
    try await arrives(bought)
    return bought
  }

  /// Sets the store's price of a product.
  func sell(
    _ productID: String, at price: Int64, _ currency: String, of bundleID: String = ScreenTime.bundleID
  ) throws {
    var app = try #require(store.app(bundleID))
    app.products[productID]?.price = price
    app.products[productID]?.currency = currency
    store.put(app)
  }
}
