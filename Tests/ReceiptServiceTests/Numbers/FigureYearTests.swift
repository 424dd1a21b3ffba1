import Foundation
import Postgres
import Testing
import Text

@testable import Numbers
@testable import ReceiptService

/// The figures of the console's charts, cards and report, beside those that a reader adds up from the rows of the
/// views.
@Suite struct FigureYearTests {
  @Test func `every figure of every chart over a simulated year is the one that its definition gives`()
    async throws
  {
    try await withScreenTime { harness in
      var year = StoryYear(harness, seed: 3)
      try await year.play(customers: 70)
      try await harness.countWhatIsDue()
      try await Self.addEventsAndCosts(harness)
      let views = try await Views(harness.pool)
      let figures = harness.service.numbers.figures
      var cells = 0
      for (number, scope) in Self.scopes.enumerated() {
        // Also a day in the middle of a month, which is over.
        let day = try harness.day(number % 2 == 0 ? "12-31" : "11-17").advanced(by: number % 2)
        let calendar = try #require(
          try await FigureCalendar.read(scope.period, upTo: day, in: harness.pool))
        let page = try await figures.page(
          FigureChart.allCases, scope, calendar, month: FigureMonth(of: day).advanced(by: -1))
        let check = FigureCheck(views: views, scope: scope, calendar: calendar)
        cells += try check.charts(page)
        cells += try check.months(page.months)
        cells += try check.parts(try #require(page.parts), FigureMonth(of: day).advanced(by: -1))
        #expect(page.meanings.values.allSatisfy { $0.count > 3 })
        for column in FigureChart.allCases.flatMap(\.definitions)
          + MonthFigure.allCases.flatMap(\.definitions)
        {
          #expect(page.meanings[column.qualifiedName] != nil, "\(column.qualifiedName)")
        }
      }
      #expect(cells > 5_000, "\(cells)")
    }
  }

  @Test func `the running day, week and month are marked as not over`() async throws {
    try await withScreenTime { harness in
      try harness.becomes("03-18")
      try await harness.account("ann", buys: ScreenTime.individual)
      try harness.becomes("05-20")
      try await harness.countWhatIsDue()
      let figures = harness.service.numbers.figures
      for period in FigurePeriod.allCases {
        let calendar = try #require(try await figures.calendar(period))
        #expect(calendar.lastDay == (try harness.day("05-20")) && !calendar.isLastDayOver)
        #expect(calendar.isLastFlowPartial && calendar.isLastMonthPartial)
      }
      let march = try #require(try await figures.calendar(of: FigureMonth(of: harness.day("03-01"))))
      #expect(march.lastDay == (try harness.day("03-31")) && march.isLastDayOver && !march.isLastMonthPartial)
      #expect(try await figures.calendar(of: FigureMonth(of: harness.day("01-01"))) == nil)
    }
  }

  @Test func `a product beyond the seventh is part of (other), which keeps the sum`() async throws {
    try await withScreenTime { harness in
      let pool = harness.pool
      _ = try await pool.query(
        """
        INSERT INTO kpi_days (day, as_of, computed_at) SELECT day::date, day + interval '1 day', now()
        FROM generate_series('2026-01-01'::timestamptz, '2026-03-31', '1 day') AS day
        """)
      _ = try await pool.query(
        """
        INSERT INTO kpi_daily_money
        SELECT day, 'app', 'pro', 'product ' || n, 'USD', 1, n, 0, 1, n, n, 0, 0, 0, 0, 0
        FROM kpi_days CROSS JOIN generate_series(1, 10) AS n
        """)
      let last = try #require(Day("2026-03-31"))
      let calendar = try #require(try await FigureCalendar.read(.month, upTo: last, in: pool))
      let scope = FigureScope(currency: "USD", period: .month)
      let page = try await BusinessFigures(pool: pool, clock: harness.service.numbers.clock)
        .page([.mrr], scope, calendar)
      let table = try #require(page.tables[.mrr])
      #expect(
        table.columns.map(\.name) == ["day"] + (4...10).reversed().map { "product \($0)" } + ["(other)"])
      #expect(table.rows.count == 31 && table.rows.allSatisfy { $0.last == "6" })
      #expect(!table.isLastPartial)
    }
  }

  @Test func `the choices are the names with figures, and the currency with the most charges comes first`()
    async throws
  {
    try await withScreenTime { harness in
      try harness.becomes("02-10")
      #expect(try await harness.service.numbers.figures.calendar(.year) == nil)
      try await harness.account("ann", buys: ScreenTime.individual)
      try await harness.account("ben", buys: ScreenTime.family)
      try harness.sell(ScreenTime.individual, at: 8_490, "EUR")
      try await harness.account("cid", buys: ScreenTime.individual)
      try harness.becomes("02-11")
      try await harness.countWhatIsDue()
      let figures = harness.service.numbers.figures
      let calendar = try #require(try await figures.calendar(.month))
      let choices = try await figures.choices(calendar)
      #expect(choices.apps == [ScreenTime.bundleID])
      #expect(choices.tiers == ["family", "individual"])
      #expect(choices.products == [ScreenTime.family, ScreenTime.individual].sorted())
      #expect(choices.currencies == ["USD", "EUR"])
    }
  }

  private static let scopes: [FigureScope] = [
    FigureScope(currency: "USD", breakdown: .product, period: .year),
    FigureScope(currency: "EUR", breakdown: .app, period: .year),
    FigureScope(bundleID: ScreenTime.bundleID, currency: "USD", breakdown: .tier, period: .twoYears),
    FigureScope(bundleID: ScreenTime.bundleID, currency: "JPY", breakdown: .product, period: .quarter),
    FigureScope(tier: "pro", currency: "KWD", breakdown: .product, period: .twoYears),
    FigureScope(productID: StoryYear.annual, currency: "EUR", breakdown: .app, period: .month),
    FigureScope(
      bundleID: ScreenTime.heatlab, tier: "pro", currency: "USD", breakdown: .app, period: .quarter),
    FigureScope(bundleID: "com.example.unknown", currency: "USD", breakdown: .app, period: .year),
  ]

  private static func addEventsAndCosts(_ harness: Harness) async throws {
    _ = try await harness.pool.query(
      """
      INSERT INTO kpi_events_daily (day, bundle_id, name, events, customers)
      SELECT day, bundle_id, name, 3 + extract(day FROM day)::integer, 2
      FROM kpi_days CROSS JOIN (VALUES ('com.heatlab.app'), (\(ScreenTime.bundleID)::text)) AS app (bundle_id)
      CROSS JOIN (VALUES ('paywall_shown'), ('purchase_initiated')) AS event (name)
      ON CONFLICT DO NOTHING
      """)
    _ = try await harness.pool.query(
      """
      INSERT INTO kpi_acquisition_costs (month, bundle_id, channel, currency, amount)
      SELECT DISTINCT date_trunc('month', day::timestamp)::date, bundle_id, 'search', currency, 125.5
      FROM kpi_daily_money WHERE currency IN ('USD', 'EUR')
      """)
  }
}

/// All rows of the views, as texts.
private struct Views {
  typealias Line = [String: String]
  private var rows: [String: [Line]] = [:]

  init(_ pool: PostgresPool) async throws {
    for view in [
      "kpi_daily", "kpi_revenue_daily", "kpi_losses_daily", "kpi_cohorts", "kpi_trial_cohorts",
      "kpi_lifetime_value",
      "kpi_acquisition", "kpi_price_changes", "kpi_daily_trials", "kpi_days", "kpi_daily_cohorts",
    ] {
      let text = try await pool.query(
        Query(
          unescaped: """
            SELECT coalesce(jsonb_agg((SELECT jsonb_object_agg(key, value) FROM jsonb_each_text(to_jsonb(v))
              WHERE value IS NOT NULL)), '[]')::text AS rows FROM \(view) v
            """))[0].decode("rows", as: String.self)
      rows[view] = try JSONDecoder().decode([Line].self, from: Data(text.utf8))
    }
  }

  func all(_ view: String, _ isIncluded: (Line) -> Bool = { _ in true }) -> [Line] {
    (rows[view] ?? []).filter(isIncluded)
  }
}

extension [String: String] {
  fileprivate func number(_ name: String) -> Decimal { self[name].flatMap { Decimal(string: $0) } ?? 0 }
}

extension [[String: String]] {
  fileprivate func sum(_ name: String) -> Decimal { reduce(0) { $0 + $1.number(name) } }
}

/// Compares figures with those of the views' rows.
private struct FigureCheck {
  let views: Views
  let scope: FigureScope
  let calendar: FigureCalendar

  private func isChosen(_ row: Views.Line) -> Bool {
    (scope.bundleID == nil || row["bundle_id"] == scope.bundleID)
      && (scope.tier == nil || row["tier"] == scope.tier)
      && (scope.productID == nil || row["product_id"] == scope.productID)
  }

  /// The rows of a view that are chosen, of the currency if it has one.
  private func chosen(_ view: String) -> [Views.Line] {
    views.all(view) { isChosen($0) && ($0["currency"] == nil || $0["currency"] == scope.currency) }
  }

  private var first: String { calendar.firstDay.description }
  private var last: String { calendar.lastDay.description }
  private var firstMonth: String { scope.period.firstMonth(to: calendar.lastDay).firstDay.description }

  private func name(_ row: Views.Line) -> String {
    switch scope.breakdown {
    case .app: row["bundle_id"] ?? ""
    case .tier: row["tier"] ?? "(none)"
    case .product: row["product_id"] ?? "(none)"
    }
  }

  /// The first day of the part of the period that a day lies in.
  private func place(_ day: String, _ grain: FigureGrain) -> String {
    guard let date = Day(day) else { return day }
    switch grain {
    case .day: return day
    case .month: return FigureMonth(of: date).firstDay.description
    case .week:
      // 1 January 1970 was a Thursday; weeks begin with Monday.
      let serial = Int(date.start.timeIntervalSince1970 / 86_400)
      return date.advanced(by: -((serial + 3) % 7)).description
    }
  }

  private func round(_ value: Decimal, _ digits: Int) -> Decimal {
    var (value, rounded) = (value, Decimal())
    NSDecimalRound(&rounded, &value, digits, .plain)
    return rounded
  }

  private func ratio(_ part: Decimal, _ whole: Decimal) -> Decimal? {
    whole == 0 ? nil : round(part / whole, 4)
  }

  private var digits: Int { ["JPY": 0, "KWD": 3][scope.currency] ?? 2 }

  /// - Returns: the number of values that were compared.
  private func compare(
    _ table: FigureTable, row: [String?], _ column: String, _ expected: Decimal?, _ what: String
  ) -> Int {
    guard let place = table.columns.firstIndex(where: { $0.name == column }) else {
      #expect(expected == nil || expected == 0, "\(what): no column \(column) for \(expected ?? 0)")
      return 0
    }
    let found = row[place].flatMap { Decimal(string: $0) }
    #expect(found == expected, "\(what), \(row[0] ?? "all"), \(column), \(scope)")
    return 1
  }

  // MARK: Charts

  func charts(_ page: BusinessFigures.Page) throws -> Int {
    var cells = 0
    for chart in FigureChart.allCases {
      let table = try #require(page.tables[chart])
      switch chart {
      case .mrr: cells += mrr(table)
      case .subscribers: cells += subscribers(table)
      case .movement, .revenue: cells += money(table, chart)
      case .churn: cells += churn(table)
      case .trials, .paywall: cells += funnel(table, chart)
      case .retention: cells += retention(table)
      case .cancellations: cells += losses(table, "cancelled")
      case .ends: cells += losses(table, "expired")
      case .refunds: cells += losses(table, "refunded")
      case .lifetimeValue: cells += lifetimeValue(table)
      }
    }
    let changes = chosen("kpi_price_changes").filter { first <= $0["day"] ?? "" && $0["day"] ?? "" <= last }
    if scope.tier == nil { #expect(page.priceChanges.rows.count == min(changes.count, 100)) }
    return cells
  }

  /// The last counted day of each part of the period.
  private func stateDays() -> [String] {
    let days = views.all("kpi_days").compactMap { $0["day"] }.filter { first <= $0 && $0 <= last }
    // The year has the ends of its weeks and those of its months.
    let grains: [FigureGrain] =
      [FigurePeriod.year: [.week, .month], .twoYears: [.month]][scope.period] ?? [.day]
    return Set(
      grains.flatMap { grain in
        Dictionary(grouping: days) { place($0, grain) }.values.compactMap { $0.max() }
      }
    ).sorted()
  }

  private func mrr(_ table: FigureTable) -> Int {
    #expect(table.rows.map { $0[0] } == stateDays())
    var cells = 0
    let rows = Dictionary(grouping: chosen("kpi_revenue_daily")) { $0["day"] ?? "" }
    let names = Set(stateDays().flatMap { rows[$0] ?? [] }.map(name))
    #expect(Set(table.columns.dropFirst().map(\.name)) == names)
    for row in table.rows {
      for name in names {
        let amount = (rows[row[0] ?? ""] ?? []).filter { self.name($0) == name }.sum("mrr")
        cells += compare(table, row: row, name, amount, "mrr")
      }
    }
    return cells
  }

  private func subscribers(_ table: FigureTable) -> Int {
    #expect(table.rows.map { $0[0] } == stateDays())
    let rows = Dictionary(grouping: chosen("kpi_daily")) { $0["day"] ?? "" }
    var cells = 0
    for row in table.rows {
      for name in ["paying", "in_trial", "lifetime", "non_renewing"] {
        cells += compare(table, row: row, name, (rows[row[0] ?? ""] ?? []).sum(name), "subscribers")
      }
    }
    return cells
  }

  /// The chosen rows of the period by their part.
  private func flows(_ view: String) -> [String: [Views.Line]] {
    let rows = chosen(view).filter { first <= $0["day"] ?? "" && $0["day"] ?? "" <= last }
    return Dictionary(grouping: rows) { place($0["day"] ?? "", scope.period.grain) }
  }

  private func expectFlowPlaces(_ table: FigureTable) {
    let days = views.all("kpi_days").compactMap { $0["day"] }.filter { first <= $0 && $0 <= last }
    #expect(table.rows.map { $0[0] } == Set(days.map { place($0, scope.period.grain) }).sorted())
  }

  private func money(_ table: FigureTable, _ chart: FigureChart) -> Int {
    expectFlowPlaces(table)
    let flows = flows("kpi_revenue_daily")
    var cells = 0
    for row in table.rows {
      let rows = flows[row[0] ?? ""] ?? []
      let expected: [String: Decimal]
      if chart == .revenue {
        expected = [
          "revenue": rows.sum("revenue"), "refunds": -rows.sum("refunds"), "net": rows.sum("net"),
        ]
      } else {
        // The movement explains the change of MRR over the days of the part.
        expected = [
          "new": rows.sum("mrr_new"), "expansion": rows.sum("mrr_expansion"), "moved": rows.sum("mrr_moved"),
          "contraction": -rows.sum("mrr_contraction"), "churn": -rows.sum("mrr_churn"),
          "net": rows.sum("mrr") - rows.sum("mrr_start"),
        ]
      }
      for (name, value) in expected { cells += compare(table, row: row, name, value, chart.rawValue) }
    }
    return cells
  }

  private func months() -> [String] {
    let days = views.all("kpi_days").compactMap { $0["day"] }.filter { firstMonth <= $0 && $0 <= last }
    return Set(days.map { place($0, .month) }).sorted()
  }

  private func churn(_ table: FigureTable) -> Int {
    #expect(table.rows.map { $0[0] } == months())
    let rows = Dictionary(grouping: chosen("kpi_daily")) { place($0["day"] ?? "", .month) }
    var cells = 0
    for row in table.rows {
      let month = (rows[row[0] ?? ""] ?? []).filter { $0["day"] ?? "" <= last }
      for column in table.columns.dropFirst() {
        let part = month.filter { name($0) == column.name }
        let start = part.filter { $0["day"] == row[0] }.sum("paying_start")
        cells += compare(table, row: row, column.name, ratio(part.sum("lost"), start), "churn")
      }
    }
    return cells
  }

  private func funnel(_ table: FigureTable, _ chart: FigureChart) -> Int {
    let rows: [Views.Line]
    let names: [String]
    if chart == .trials {
      rows = chosen("kpi_trial_cohorts").filter {
        firstMonth <= $0["cohort"] ?? "" && $0["cohort"] ?? "" <= last
      }
      names = ["started", "converted", "lapsed", "pending"]
    } else {
      rows = views.all("kpi_daily") {
        (scope.bundleID == nil || $0["bundle_id"] == scope.bundleID) && firstMonth <= $0["day"] ?? ""
          && $0["day"] ?? "" <= last
      }
      names = ["paywall_shown", "purchase_initiated", "new"]
    }
    var cells = 0
    for row in table.rows {
      let part = rows.filter { row[0] == nil || place($0["cohort"] ?? $0["day"] ?? "", .month) == row[0] }
      for name in names { cells += compare(table, row: row, name, part.sum(name), chart.rawValue) }
      if chart == .trials {
        let ended = part.sum("converted") + part.sum("lapsed")
        cells += compare(table, row: row, "conversion", ratio(part.sum("converted"), ended), "trials")
      }
    }
    #expect(
      table.rows.last?[0] == nil
        && table.rows.count == Set(rows.map { place($0["cohort"] ?? $0["day"] ?? "", .month) }).count + 1)
    return cells
  }

  private func retention(_ table: FigureTable) -> Int {
    // As kpi_cohorts has it, of the days up to the last one.
    let rows = chosen("kpi_daily_cohorts").filter { firstMonth <= $0["day"] ?? "" && $0["day"] ?? "" <= last }
    let found = Dictionary(grouping: rows) { row in
      let day = Day(row["day"] ?? "").map { FigureMonth(of: $0) }
      let months = Int(row["months"] ?? "") ?? 0
      return "\(day?.advanced(by: -months).firstDay.description ?? "") \(months)"
    }
    let started = found.filter {
      $0.key.hasSuffix(" 0") && $0.key >= firstMonth && $0.value.sum("customers") > 0
    }
    #expect(table.rows.count == 12 * started.count)
    let isWhole = views.all("kpi_days").compactMap { $0["day"] }.max() == last
    let whole = Dictionary(grouping: isWhole ? chosen("kpi_cohorts") : []) {
      "\($0["cohort"] ?? "") \($0["months"] ?? "")"
    }
    var cells = 0
    for row in table.rows {
      let key = "\(row[0] ?? "") \(row[1] ?? "")"
      let customers = (started["\(row[0] ?? "") 0"] ?? []).sum("customers")
      let (reached, retained) = ((found[key] ?? []).sum("customers"), (found[key] ?? []).sum("retained"))
      let expected = [
        "customers": customers, "retained": retained, "lost": reached - retained,
        "pending": customers - reached,
      ]
      for (name, value) in expected {
        cells += compare(table, row: row, name, value, "retention")
        if isWhole { #expect((whole[key] ?? []).sum(name) == value, "\(name) of \(key), \(scope)") }
      }
      cells += compare(table, row: row, "retention", ratio(retained, reached), "retention")
    }
    return cells
  }

  private func losses(_ table: FigureTable, _ loss: String) -> Int {
    expectFlowPlaces(table)
    let flows = flows("kpi_losses_daily")
    let reasons = Set(flows.values.joined().filter { $0["loss"] == loss }.compactMap { $0["reason"] })
    #expect(Set(table.columns.dropFirst().map(\.name)) == reasons)
    var cells = 0
    let counted = self.flows("kpi_daily")
    for row in table.rows {
      let part = (flows[row[0] ?? ""] ?? []).filter { $0["loss"] == loss }
      for reason in reasons {
        let number = part.filter { $0["reason"] == reason }.sum("subscriptions")
        cells += compare(table, row: row, reason, number, loss)
      }
      // The reasons add up to the column of kpi_daily that they explain.
      #expect(part.sum("subscriptions") == (counted[row[0] ?? ""] ?? []).sum(loss), "\(row) \(scope)")
    }
    return cells
  }

  private func lifetimeValue(_ table: FigureTable) -> Int {
    let rows = chosen("kpi_lifetime_value").filter {
      firstMonth <= $0["cohort"] ?? "" && $0["cohort"] ?? "" <= last
    }
    let cohorts = Dictionary(grouping: rows) { $0["cohort"] ?? "" }
    #expect(table.rows.map { $0[0] } == cohorts.keys.sorted())
    let isWhole = scope.tier == nil && scope.productID == nil
    let costs = isWhole ? chosen("kpi_acquisition") : []
    var cells = 0
    for row in table.rows {
      let part = cohorts[row[0] ?? ""] ?? []
      for name in ["customers", "revenue", "refunds", "net"] {
        cells += compare(table, row: row, name, part.sum(name), "ltv")
      }
      let ltv = part.sum("customers") == 0 ? nil : round(part.sum("net") / part.sum("customers"), digits)
      cells += compare(table, row: row, "ltv", ltv, "ltv")
      let spent = costs.filter { $0["cohort"] == row[0] }
      let (cost, customers) = (spent.sum("cost"), spent.sum("customers"))
      cells += compare(table, row: row, "cost", spent.isEmpty ? nil : cost, "ltv")
      cells += compare(
        table, row: row, "cac", spent.isEmpty || customers == 0 ? nil : round(cost / customers, digits), "ltv"
      )
    }
    return cells
  }

  // MARK: Months

  func months(_ figures: MonthFigures) throws -> Int {
    #expect(figures.months.map(\.firstDay.description) == months())
    let counted = views.all("kpi_days").compactMap { $0["day"] }.filter { $0 <= last }
    var cells = 0
    for month in figures.months {
      let days = counted.filter { place($0, .month) == month.firstDay.description }
      let end = days.max() ?? ""
      let sameEnd = month.day(Int(last.suffix(2)) ?? 0).description
      for figure in MonthFigure.allCases {
        let (value, same) = (figures.value(figure, of: month), figures.sameDays(figure, of: month))
        let expected = self.expected(figure, month, through: end)
        let expectedSame = self.expected(figure, month, through: sameEnd)
        #expect(value.flatMap { Decimal(string: $0) } == expected, "\(figure) of \(month), \(scope)")
        #expect(
          same.flatMap { Decimal(string: $0) } == expectedSame,
          "\(figure) of \(month) to \(sameEnd), \(scope)")
        cells += 2
      }
    }
    return cells
  }

  private func expected(_ figure: MonthFigure, _ month: FigureMonth, through end: String) -> Decimal? {
    let start = month.firstDay.description
    let view: String
    switch figure {
    case .trialConversion: view = "kpi_daily_trials"
    case .paying, .inTrial, .lifetime, .new, .lost, .renewed, .cancelled, .churn: view = "kpi_daily"
    default: view = "kpi_revenue_daily"
    }
    let rows = chosen(view).filter { start <= $0["day"] ?? "" && $0["day"] ?? "" <= end }
    let atEnd = rows.filter { $0["day"] == end }
    let atStart = rows.filter { $0["day"] == start }
    switch figure {
    case .mrr: return atEnd.sum("mrr")
    case .arr: return 12 * atEnd.sum("mrr")
    case .paying, .inTrial, .lifetime: return atEnd.sum(figure.rawValue)
    case .mrrStart: return atStart.sum("mrr_start")
    case .churn: return ratio(rows.sum("lost"), atStart.sum("paying_start"))
    case .trialConversion:
      return ratio(rows.sum("converted"), rows.sum("converted") + rows.sum("lapsed"))
    default: return rows.sum(figure.rawValue)
    }
  }

  func parts(_ parts: MonthParts, _ month: FigureMonth) throws -> Int {
    let end = min(month.lastDay, calendar.lastDay).description
    func ofMonth(_ view: String) -> [Views.Line] {
      chosen(view).filter { month.firstDay.description <= $0["day"] ?? "" && $0["day"] ?? "" <= end }
    }
    let money = Dictionary(grouping: ofMonth("kpi_revenue_daily")) { $0["product_id"] ?? "(none)" }
    #expect(Set(parts.products.rows.compactMap { $0[0] }) == Set(money.keys))
    var cells = 0
    for row in parts.products.rows {
      let rows = money[row[0] ?? ""] ?? []
      for name in ["charges", "revenue", "refunds", "net"] {
        cells += compare(parts.products, row: row, name, rows.sum(name), "products")
      }
      for name in ["paying", "mrr"] {
        cells += compare(
          parts.products, row: row, name, rows.filter { $0["day"] == end }.sum(name), "products")
      }
    }
    for row in parts.losses.rows {
      let rows = ofMonth("kpi_losses_daily").filter { $0["loss"] == row[0] && $0["reason"] == row[1] }
      cells += compare(parts.losses, row: row, "subscriptions", rows.sum("subscriptions"), "losses")
    }
    return cells
  }
}
