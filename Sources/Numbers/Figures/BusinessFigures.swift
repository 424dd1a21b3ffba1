import Postgres
import Text
import Work

/// Reads the figures of the console's pages.
package struct BusinessFigures: Sendable {
  let pool: PostgresPool
  let clock: ServiceClock

  /// What a reader can choose: the names that have figures in a period.
  package struct Choices: Sendable {
    package var apps: [String] = []
    package var tiers: [String] = []
    package var products: [String] = []
    /// The currencies with purchases, the one with the most charges first.
    package var currencies: [String] = []
  }

  /// The figures of one page.
  package struct Page: Sendable {
    package var tables: [FigureChart: FigureTable]
    package var months: MonthFigures
    /// The days on which new customers first paid another price.
    package var priceChanges: FigureTable
    /// The comments of columns by ``FigureColumn/qualifiedName``.
    package var meanings: [String: String]
    /// The parts of a month, for its report alone.
    package var parts: MonthParts?
  }

  /// The calendar of a period up to today; `nil` if no day was counted yet.
  package func calendar(_ period: FigurePeriod) async throws -> FigureCalendar? {
    try await FigureCalendar.read(period, upTo: Day(of: clock.now()), in: pool)
  }

  /// The calendar of the year up to the end of a month; `nil` if the month has no counted day.
  package func calendar(of month: FigureMonth) async throws -> FigureCalendar? {
    let day = min(month.lastDay, Day(of: clock.now()))
    guard let calendar = try await FigureCalendar.read(.year, upTo: day, in: pool),
      calendar.lastDay >= month.firstDay
    else { return nil }
    return calendar
  }

  package func choices(_ calendar: FigureCalendar) async throws -> Choices {
    var choices = Choices()
    for row in try await pool.query(Self.names(calendar)) {
      let name = try row.decode("name", as: String.self)
      switch try row.decode("kind", as: String.self) {
      case "app": choices.apps.append(name)
      case "tier": choices.tiers.append(name)
      case "product": choices.products.append(name)
      default: choices.currencies.append(name)
      }
    }
    return choices
  }

  /// The figures of charts.
  /// - Parameter month: the month of a report, whose parts are read too.
  package func page(
    _ charts: [FigureChart], _ scope: FigureScope, _ calendar: FigureCalendar, month: FigureMonth? = nil
  ) async throws -> Page {
    let columns = Set(
      charts.flatMap(\.definitions) + MonthFigure.allCases.flatMap(\.definitions) + [Self.priceColumn])
    var queries = charts.map { $0.query(scope, calendar) }
    queries += MonthFigures.queries(scope, calendar)
    queries += [Self.priceChanges(scope, calendar), FigureColumn.meanings(of: Array(columns))]
    if let month { queries += MonthParts.queries(month, scope, calendar) }
    var answers = try await pool.transaction(pipeline: queries)[...]
    var tables: [FigureChart: FigureTable] = [:]
    for chart in charts { tables[chart] = try chart.table(answers.removeFirst(), calendar) }
    let months = try MonthFigures(Array(answers.prefix(3)), calendar)
    answers = answers.dropFirst(3)
    let changes = try FigureTable(
      answers.removeFirst(),
      columns: [
        ("day", .date), ("app", .text), ("product", .text), ("country", .text), ("former_price", .money),
        ("price", .money),
      ])
    var meanings: [String: String] = [:]
    for row in answers.removeFirst() {
      meanings[try row.decode("name")] = try row.decode("meaning", as: String?.self)
    }
    return Page(
      tables: tables, months: months, priceChanges: changes, meanings: meanings,
      parts: month == nil ? nil : try MonthParts(Array(answers)))
  }

  /// The definition of a change of prices.
  package static let priceColumn = FigureColumn("kpi_price_changes", "price")

  /// Rows with a `kind` (app, tier, product, currency) and a `name` that has figures.
  private static func names(_ calendar: FigureCalendar) -> Query {
    let first = min(calendar.firstDay.description, calendar.months.first?.start ?? "9999-12-31")
    let days: Query = "day BETWEEN \(first)::text::date AND \(calendar.lastDay.description)::text::date"
    return """
      WITH sold AS MATERIALIZED (
        SELECT DISTINCT bundle_id, tier, product_id FROM kpi_daily_figures WHERE \(days)
      )
      (SELECT 'app' AS kind, bundle_id AS name, 0::bigint AS weight FROM sold GROUP BY 2 ORDER BY 2 LIMIT 200)
      UNION ALL
      (SELECT 'tier', tier, 0 FROM sold WHERE tier <> '' GROUP BY 2 ORDER BY 2 LIMIT 200)
      UNION ALL
      (SELECT 'product', product_id, 0 FROM sold WHERE product_id <> '' GROUP BY 2 ORDER BY 2 LIMIT 200)
      UNION ALL
      (SELECT 'currency', currency, sum(charges)::bigint FROM kpi_daily_money WHERE \(days) GROUP BY 2
        ORDER BY 3 DESC, 2 LIMIT 200)
      """
  }

  private static func priceChanges(_ scope: FigureScope, _ calendar: FigureCalendar) -> Query {
    """
    SELECT day::text AS day, bundle_id AS app, product_id AS product, country, former_price::text AS former_price,
      price::text AS price
    FROM kpi_price_changes
    WHERE day BETWEEN \(calendar.firstDay.description)::text::date AND \(calendar.lastDay.description)::text::date
      AND currency = \(scope.currency)
      AND (\(scope.bundleID)::text IS NULL OR bundle_id = \(scope.bundleID)::text)
      AND (\(scope.productID)::text IS NULL OR product_id = \(scope.productID)::text)
    ORDER BY day DESC, bundle_id, product_id, country LIMIT 100
    """
  }
}

/// The parts of a month for its report: products, and losses by reason.
package struct MonthParts: Sendable {
  /// One row for each product with its money of the month.
  package var products: FigureTable
  /// One row for each loss and reason.
  package var losses: FigureTable

  static func queries(_ month: FigureMonth, _ scope: FigureScope, _ calendar: FigureCalendar) -> [Query] {
    let last = min(month.lastDay, calendar.lastDay)
    let days: Query =
      "day BETWEEN \(month.firstDay.description)::text::date AND \(last.description)::text::date"
    return [
      """
      SELECT coalesce(product_id, '(none)') AS product, sum(charges)::text AS charges, sum(revenue)::text AS revenue,
        sum(refunds)::text AS refunds, sum(net)::text AS net,
        coalesce(sum(paying) FILTER (WHERE day = \(last.description)::text::date), 0)::text AS paying,
        coalesce(sum(mrr) FILTER (WHERE day = \(last.description)::text::date), 0)::text AS mrr
      FROM kpi_revenue_daily
      WHERE \(days) AND currency = \(scope.currency) AND \(scope.condition)
      GROUP BY 1 ORDER BY sum(net) DESC, 1 LIMIT 100
      """,
      """
      SELECT loss, reason, sum(subscriptions)::text AS subscriptions
      FROM kpi_losses_daily WHERE \(days) AND \(scope.condition)
      GROUP BY 1, 2 ORDER BY loss, sum(subscriptions) DESC, reason LIMIT 100
      """,
    ]
  }

  init(_ answers: [Rows]) throws {
    products = try FigureTable(
      answers[0],
      columns: [
        ("product", .text), ("charges", .count), ("revenue", .money), ("refunds", .money), ("net", .money),
        ("paying", .count), ("mrr", .money),
      ])
    losses = try FigureTable(
      answers[1], columns: [("loss", .text), ("reason", .text), ("subscriptions", .count)])
  }
}
