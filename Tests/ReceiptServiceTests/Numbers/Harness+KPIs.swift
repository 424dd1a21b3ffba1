import AppStore
import AppStoreSimulator
import Foundation
import HTTP
import Postgres
import Testing
import Text

@testable import Numbers
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
      let turn = try await service.numbers.kpiJob.run { _ in }
      if turn.isEmpty { return days }
      days += turn
    }
  }

  /// The numbers of an app's tier in `kpi_daily` other than 0, added up over its products; empty without a row.
  /// `NumbersYearTests` covers the columns that are left out here.
  func numbers(
    _ monthAndDay: String, tier: String?, of bundleID: String = ScreenTime.bundleID
  ) async throws -> [String: String] {
    let rows = try await pool.query(
      """
      WITH daily AS (
        SELECT * FROM kpi_daily WHERE day::text = \(day(monthAndDay).description) AND bundle_id = \(bundleID)
          AND tier IS NOT DISTINCT FROM \(tier)::text
      ), money AS (
        SELECT currency, sum(revenue) AS revenue, sum(refunds) AS refunds, sum(mrr) AS mrr,
          round(sum(mrr) / nullif(sum(paying), 0), receiptd_currency_digits(currency)) AS revenue_per_user
        FROM kpi_revenue_daily WHERE day::text = \(day(monthAndDay).description) AND bundle_id = \(bundleID)
          AND tier IS NOT DISTINCT FROM \(tier)::text
        GROUP BY currency
      )
      SELECT key, sum(value::text::numeric)::text AS value
      FROM daily CROSS JOIN LATERAL jsonb_each(to_jsonb(daily) - '{paying,in_trial,lifetime,non_renewing,
        paying_start,lost,churn,churn_month_1,churn_month_3,churn_month_6}'::text[])
      WHERE jsonb_typeof(value) = 'number' AND value <> '0'
      GROUP BY key
      UNION ALL
      SELECT 'churn_month_' || months, round(sum(ages.lost) / nullif(sum(ages.cohort), 0), 4)::text
      FROM daily CROSS JOIN LATERAL (
        VALUES (1, month_1_lost, month_1_cohort), (3, month_3_lost, month_3_cohort), (6, month_6_lost, month_6_cohort)
      ) AS ages (months, lost, cohort)
      GROUP BY months HAVING sum(ages.lost) > 0
      UNION ALL
      SELECT column_name, jsonb_object_agg(currency, amount)::text
      FROM money CROSS JOIN LATERAL (
        VALUES ('revenue', revenue), ('refunds', refunds), ('mrr', mrr), ('revenue_per_user', revenue_per_user)
      ) AS amounts (column_name, amount)
      WHERE amount <> 0 GROUP BY column_name
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
        UNION ALL SELECT 'cohorts ' || c::text FROM kpi_daily_cohorts c
        UNION ALL SELECT 'trials ' || t::text FROM kpi_daily_trials t
        UNION ALL SELECT 'value ' || v::text FROM kpi_daily_value v
        UNION ALL SELECT 'prices ' || p::text FROM kpi_daily_prices p
        UNION ALL SELECT 'losses ' || l::text FROM kpi_losses_daily l
        UNION ALL SELECT 'events ' || e::text FROM kpi_events_daily e) AS counted ORDER BY row
      """)
    return try rows.map { try $0.decode("row", as: String.self) }
  }

  /// All rows of all views of KPIs in order, without their times of counting.
  func everythingShown() async throws -> [String] {
    let rows = try await pool.query(
      """
      SELECT row FROM (
        SELECT 'daily ' || (to_jsonb(d) - 'as_of')::text AS row FROM kpi_daily d
        UNION ALL SELECT 'revenue ' || r::text FROM kpi_revenue_daily r
        UNION ALL SELECT 'cohorts ' || c::text FROM kpi_cohorts c
        UNION ALL SELECT 'trials ' || t::text FROM kpi_trial_cohorts t
        UNION ALL SELECT 'value ' || v::text FROM kpi_lifetime_value v
        UNION ALL SELECT 'prices ' || p::text FROM kpi_price_changes p) AS shown ORDER BY row
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

  /// Sets the store's price of a product in a country.
  func sell(
    _ productID: String, at price: Int64, _ currency: String, of bundleID: String = ScreenTime.bundleID,
    in country: String = "USA"
  ) throws {
    var app = try #require(store.app(bundleID))
    app.products[productID]?.price = price
    app.products[productID]?.currency = currency
    app.products[productID]?.storefront = country
    store.put(app)
  }
}
