import Configuration
import Foundation
import Postgres
import TestDatabase
import Testing

@testable import ReceiptService
@testable import Support

/// The SQL of `config/grafana-business.json`, run as Grafana runs it: as the role `receiptd_numbers`.
@Suite struct BusinessDashboardTests {
  /// The columns of each panel.
  private static let columns = [
    "Active subscribers": ["bundle_id", "active"],
    "Monthly recurring revenue": ["bundle_id", "mrr"],
    "Counted up to": ["counted"],
    "Net revenue by app": ["time", "metric", "net"],
    "Net revenue by product": ["time", "metric", "net"],
    "Money by month and app": [
      "month", "app", "currency", "charges", "revenue", "refunds", "net", "change", "mrr",
    ],
    "Money by month and product": [
      "month", "app", "product", "charges", "revenue", "refunds", "net", "change",
    ],
    "Subscriptions by month, app and product": [
      "month", "app", "product", "trials_started", "converted", "new", "renewed", "cancelled", "expired",
      "refunded",
      "lost", "churn",
    ],
    "Active by kind": ["time", "paying", "in_trial", "lifetime", "non_renewing"],
    "Monthly recurring revenue by product": ["time", "metric", "mrr"],
    "Movement of monthly recurring revenue": ["time", "new", "expansion", "contraction", "churn"],
    "Purchases and ends": ["time", "new", "renewed", "cancelled", "expired", "refunded"],
    "Revenue and refunds": ["time", "revenue", "refunds"],
    "Trials": ["time", "started", "converted"],
    "Retention": ["month", "app", "customers", "month_1", "month_2", "month_3", "month_6", "month_12"],
    "Trials by month": [
      "month", "app", "product", "started", "converted", "lapsed", "pending", "conversion",
    ],
    "Lifetime value by month": [
      "month", "app", "product", "customers", "revenue", "refunds", "net", "ltv",
    ],
    "Losses by month": ["month", "app", "loss", "reason", "subscriptions"],
    "Clients' events by month": ["month", "app", "name", "events"],
    "Price changes": ["day", "app", "product", "country", "former_price", "price", "currency"],
    "annotation Price changes": ["time", "text"],
    "variable bundle": ["bundle_id"],
    "variable product": ["coalesce"],
    "variable currency": ["currency"],
  ]

  @Test func `each query of the dashboard runs as receiptd_numbers and has the panel's columns and rows`()
    async throws
  {
    let queries = try Dashboard.load().queries
    #expect(Set(queries.keys) == Set(Self.columns.keys))
    try await withFigures { connection in
      for (title, sql) in queries {
        let rows = try await connection.query(Query(unescaped: Choice().applied(to: sql)))
        #expect(rows.columns == Self.columns[title], "\(title)")
        #expect(!rows.isEmpty, "\(title)")
      }
    }
  }

  @Test func `a row of the dashboard belongs to the chosen apps, products, currency and time`() async throws {
    let queries = try Dashboard.load().queries
    try await withFigures { connection in
      var choice = Choice()
      choice.bundles = ["a"]
      choice.products = ["a.monthly"]
      choice.currency = "EUR"
      for title in ["Money by month and app", "Money by month and product", "Losses by month"] {
        let sql = try #require(queries[title])
        let rows = try await connection.query(Query(unescaped: choice.applied(to: sql)))
        #expect(Set(try rows.map { try $0.decode("app", as: String.self) }) == ["a"], "\(title)")
        #expect(
          Set(try rows.map { try $0.decode("month", as: String.self) }) == ["2026-01", "2026-02", "2026-03"],
          "\(title)")
      }
      let products = try #require(queries["Net revenue by product"])
      let named = try await connection.query(Query(unescaped: choice.applied(to: products)))
      #expect(Set(try named.map { try $0.decode("metric", as: String.self) }) == ["a.monthly"])
      choice.currency = "JPY"
      #expect(try await connection.query(Query(unescaped: choice.applied(to: products))).isEmpty)
      choice = Choice()
      choice.time = "2026-02-10T00:00:00Z"..."2026-02-20T00:00:00Z"
      let days = try #require(queries["Purchases and ends"])
      #expect(try await connection.query(Query(unescaped: choice.applied(to: days))).count == 11)
    }
  }

  @Test func `a month of the dashboard is whole and compared with the month before`() async throws {
    let sql = try #require(try Dashboard.load().queries["Money by month and app"])
    try await withFigures { connection in
      var choice = Choice()
      choice.bundles = ["a"]
      choice.products = ["a.monthly"]
      // Begins within January, which is shown whole.
      choice.time = "2026-01-20T00:00:00Z"..."2026-03-31T00:00:00Z"
      let rows = try await connection.query(
        """
        SELECT month, net::text AS net, change::text AS change, mrr::text AS mrr
        FROM (\(unescaped: choice.applied(to: sql))) AS shown WHERE currency = 'EUR' ORDER BY month
        """)
      let shown = try rows.map { row in
        try ["month", "net", "change", "mrr"].map { try row.decode($0, as: String?.self) ?? "NULL" }
          .joined(separator: " ")
      }
      // 10 a day less 1 of refunds; the amount doubles each month.
      #expect(shown == ["2026-01 279 NULL 50", "2026-02 532 0.9068 100", "2026-03 1209 1.2726 200"])
    }
  }

  @Test func `the dashboard is valid for an import into Grafana, and reads nothing but PostgreSQL`() throws {
    let text = try String(contentsOfFile: Dashboard.path, encoding: .utf8)
    let dashboard = try Dashboard.load()
    #expect(dashboard.inputs.map(\.name) == ["DS_POSTGRESQL"])
    #expect(Set(dashboard.panels.map(\.id)).count == dashboard.panels.count)
    for panel in dashboard.panels where panel.type != "row" {
      #expect(panel.datasource?.uid == "${DS_POSTGRESQL}", "\(panel.title)")
      #expect(panel.datasource?.type == "grafana-postgresql-datasource", "\(panel.title)")
      #expect(panel.targets?.count == 1, "\(panel.title)")
    }
    #expect(!text.contains("prometheus"))
  }

  /// Runs `body` as receiptd_numbers, in a database with figures of three months, two apps and two products each.
  private func withFigures(
    _ body: (PostgresConnection) async throws -> Void
  ) async throws {
    try await withTestDatabase(migrationsFolder: Harness.migrations) { database in
      try await database.withPool { pool in
        try await pool.withConnection { connection in
          _ = try await connection.execute(script: Self.figures, timeout: .seconds(60))
        }
        try await pool.withTransaction { connection in
          _ = try await connection.query("SET LOCAL ROLE receiptd_numbers")
          try await body(connection)
        }
      }
    }
  }

  /// Amounts of 10 a day in January, which double each month.
  private static let figures = """
    CREATE TEMP TABLE days AS
      SELECT day::date AS day, date_trunc('month', day)::date AS month, (2 ^ (extract(month FROM day) - 1))::integer AS factor
      FROM generate_series('2026-01-01'::timestamp, '2026-03-31', '1 day') AS day;
    CREATE TEMP TABLE sold AS
      SELECT * FROM days CROSS JOIN (VALUES ('a'), ('b')) AS apps (app) CROSS JOIN (VALUES ('monthly'), ('annual')) AS plans (plan);
    INSERT INTO kpi_days (day, as_of, computed_at) SELECT day, day + 1, now() FROM days;
    INSERT INTO kpi_daily_figures
      SELECT day, app, 'pro', app || '.' || plan, 1, 1, 10, 8, 1, 1, 0, 8, 1, 2, 3, 1, 1, 1 FROM sold;
    INSERT INTO kpi_daily_money
      SELECT day, app, 'pro', app || '.' || plan, currency, 2, 10 * factor, 1, 8, 50 * factor, 45, 5, 1, 1, 1, 0
      FROM sold CROSS JOIN (VALUES ('EUR'), ('USD')) AS currencies (currency);
    INSERT INTO kpi_daily_cohorts
      SELECT day, app, 'pro', app || '.' || plan, months, 4, 3 FROM sold CROSS JOIN generate_series(0, 2) AS months;
    INSERT INTO kpi_daily_trials SELECT day, app, 'pro', app || '.' || plan, month, 3, 1, 1 FROM sold;
    INSERT INTO kpi_daily_value SELECT day, app, 'pro', app || '.' || plan, 'EUR', month, 2, 20, 1 FROM sold;
    INSERT INTO kpi_daily_prices SELECT day, app, app || '.' || plan, 'DEU', 'EUR', factor FROM sold;
    INSERT INTO kpi_losses_daily
      SELECT day, app, 'pro', app || '.' || plan, 'expired', 'billing', 'DEU', '', 2 FROM sold;
    INSERT INTO kpi_events_daily SELECT day, app, 'paywall_shown', 5, 4 FROM sold WHERE plan = 'monthly';
    """
}

/// What the reader of the dashboard has chosen.
private struct Choice {
  var bundles = ["a", "b"]
  var products = ["(none)", "a.annual", "a.monthly", "b.annual", "b.monthly"]
  var currency = "EUR"
  var time = "2026-01-01T00:00:00Z"..."2026-03-31T12:00:00Z"

  /// Replaces Grafana's variables and macros as Grafana does.
  func applied(to sql: String) -> String {
    func quoted(_ values: [String]) -> String { values.map { "'\($0)'" }.joined(separator: ",") }
    let sql =
      sql.replacing("${bundle:sqlstring}", with: quoted(bundles))
      .replacing("${product:sqlstring}", with: quoted(products))
      .replacing("${currency:sqlstring}", with: quoted([currency]))
      .replacing("$__timeFrom()", with: "'\(time.lowerBound)'").replacing(
        "$__timeTo()", with: "'\(time.upperBound)'"
      )
      .replacing(/\$__timeFilter\((\w+)\)/) {
        "\($0.output.1) BETWEEN '\(time.lowerBound)' AND '\(time.upperBound)'"
      }
    #expect(!sql.contains("$"), "a variable or macro that is not known: \(sql)")
    return sql
  }
}

/// What Grafana reads of the dashboard.
private struct Dashboard: Decodable {
  struct Source: Decodable {
    let type: String
    let uid: String
  }
  struct Target: Decodable { let rawSql: String }
  struct Panel: Decodable {
    let id: Int
    let type: String
    let title: String
    let datasource: Source?
    let targets: [Target]?
  }
  struct Input: Decodable { let name: String }
  struct Variables: Decodable {
    struct Variable: Decodable {
      let name: String
      let type: String
      let query: String
    }
    let list: [Variable]
  }
  struct Annotations: Decodable {
    struct Annotation: Decodable {
      let name: String
      let target: Target
    }
    let list: [Annotation]
  }

  let inputs: [Input]
  let panels: [Panel]
  let templating: Variables
  let annotations: Annotations

  private enum CodingKeys: String, CodingKey {
    case inputs = "__inputs"
    case panels, templating, annotations
  }

  static let path = URL(filePath: Harness.migrations).deletingLastPathComponent()
    .appending(path: "config/grafana-business.json").path

  static func load() throws -> Dashboard {
    try JSONDecoder().decode(Dashboard.self, from: Data(contentsOf: URL(filePath: path)))
  }

  /// The SQL of the panels, variables and annotations by title.
  var queries: [String: String] {
    var queries: [String: String] = [:]
    for panel in panels { for target in panel.targets ?? [] { queries[panel.title] = target.rawSql } }
    for annotation in annotations.list { queries["annotation \(annotation.name)"] = annotation.target.rawSql }
    for variable in templating.list where variable.type == "query" {
      queries["variable \(variable.name)"] = variable.query
    }
    return queries
  }
}
