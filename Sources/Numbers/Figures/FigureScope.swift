import Foundation
import Postgres
import Text

/// What a reader of the figures has chosen: the purchases, the currency, the period.
package struct FigureScope: Sendable, Hashable {
  /// The only app, tier or product; `nil` for all.
  package var bundleID: String?
  package var tier: String?
  package var productID: String?
  /// The currency of amounts (ISO 4217).
  package var currency: String
  package var breakdown: FigureBreakdown
  package var period: FigurePeriod

  package init(
    bundleID: String? = nil, tier: String? = nil, productID: String? = nil, currency: String,
    breakdown: FigureBreakdown = .product, period: FigurePeriod = .year
  ) {
    self.bundleID = bundleID
    self.tier = tier
    self.productID = productID
    self.currency = currency
    self.breakdown = breakdown
    self.period = period
  }

  /// SQL: whether a row belongs to the chosen purchases.
  var condition: Query {
    """
    (\(bundleID)::text IS NULL OR bundle_id = \(bundleID)::text)
      AND (\(tier)::text IS NULL OR tier = \(tier)::text)
      AND (\(productID)::text IS NULL OR product_id = \(productID)::text)
    """
  }

  /// SQL: whether a row belongs to the chosen app, for figures without a product.
  var appCondition: Query { "(\(bundleID)::text IS NULL OR bundle_id = \(bundleID)::text)" }
}

/// By what a chart divides its figures.
package enum FigureBreakdown: String, Sendable, CaseIterable {
  case app, tier, product

  /// SQL: the name of a row's part.
  var expression: String {
    switch self {
    case .app: "bundle_id"
    case .tier: "coalesce(tier, '(none)')"
    case .product: "coalesce(product_id, '(none)')"
    }
  }
}

/// How far a reader looks back.
package enum FigurePeriod: String, Sendable, CaseIterable {
  case month = "1m"
  case quarter = "3m"
  case year = "12m"
  case twoYears = "24m"

  /// The unit of `date_trunc` for sums over time.
  package var grain: FigureGrain {
    switch self {
    case .month: .day
    case .quarter: .week
    case .year, .twoYears: .month
    }
  }

  /// The unit of `date_trunc` for figures at the end of a day. Ends of months are added to weeks.
  var stateGrain: FigureGrain {
    switch self {
    case .month, .quarter: .day
    case .year: .week
    case .twoYears: .month
    }
  }

  /// The first day of the period that ends with a day.
  func firstDay(to last: Day) -> Day {
    switch self {
    case .month: last.advanced(by: -30)
    case .quarter: last.advanced(by: -90)
    case .year: FigureMonth(of: last).advanced(by: -12).firstDay
    case .twoYears: FigureMonth(of: last).advanced(by: -24).firstDay
    }
  }

  /// The first month of figures by month: at least a year back.
  func firstMonth(to last: Day) -> FigureMonth {
    FigureMonth(of: last).advanced(by: self == .twoYears ? -24 : -12)
  }
}

/// How much time one row of figures stands for.
package enum FigureGrain: String, Sendable {
  case day, week, month
}

/// A month in UTC.
package struct FigureMonth: Sendable, Hashable, Comparable, CustomStringConvertible {
  /// The months since January of the year 0.
  private let number: Int

  private init(number: Int) { self.number = number }

  /// The month that a day lies in.
  package init(of day: Day) {
    let parts = day.description.split(separator: "-").compactMap { Int($0) }
    number = parts.count == 3 ? parts[0] * 12 + parts[1] - 1 : 1970 * 12
  }

  /// The month that a text such as `2026-11` names, or `nil`.
  package init?(_ text: String) {
    guard text.utf8.count == 7, let day = Day(text + "-01") else { return nil }
    self.init(of: day)
  }

  package func advanced(by months: Int) -> FigureMonth { FigureMonth(number: number + months) }

  package var firstDay: Day { Day(description + "-01") ?? Day(of: .init(timeIntervalSince1970: 0)) }

  package var lastDay: Day { advanced(by: 1).firstDay.advanced(by: -1) }

  /// The day with this number, or the last one of a shorter month.
  func day(_ number: Int) -> Day { min(firstDay.advanced(by: number - 1), lastDay) }

  package static func < (left: FigureMonth, right: FigureMonth) -> Bool { left.number < right.number }

  /// As `2026-11`.
  package var description: String {
    let month = number % 12 + 1
    return "\(number / 12)-\(month < 10 ? "0" : "")\(month)"
  }
}

/// A column of a view, whose comment defines a figure.
package struct FigureColumn: Sendable, Hashable {
  package var relation: String
  package var name: String

  init(_ relation: String, _ name: String) {
    self.relation = relation
    self.name = name
  }

  /// As `kpi_daily.paying`.
  package var qualifiedName: String { "\(relation).\(name)" }

  /// One row for each column: its `name`, as `kpi_daily.paying`, and its comment (`meaning`).
  static func meanings(of columns: [FigureColumn]) -> Query {
    """
    SELECT relation || '.' || name AS name, col_description(attribute.attrelid, attribute.attnum) AS meaning
    FROM unnest(\(columns.map(\.relation))::text[], \(columns.map(\.name))::text[]) AS figure (relation, name)
    JOIN pg_attribute AS attribute ON attrelid = relation::regclass AND attname = name
    LIMIT 200
    """
  }
}

/// Figures as a table: what a chart draws, a page shows, and a CSV file has.
package struct FigureTable: Sendable, Hashable {
  /// What the values of a column are.
  package enum Kind: Sendable, Hashable {
    /// The first day of a row's time, as `2026-11-01`.
    case date
    case text, count, money, ratio
  }

  package struct Column: Sendable, Hashable {
    package var name: String
    package var kind: Kind
  }

  package var columns: [Column]
  /// The values as PostgreSQL writes them; `nil` for NULL.
  package var rows: [[String?]]
  /// Whether the figures of the last row will change, because its time is not over.
  package var isLastPartial = false

  /// RFC 4180, as `GET /support/v1/numbers/{view}` writes it.
  package var csv: String {
    var lines = CSVText()
    lines.append(columns.map(\.name))
    for row in rows { lines.append(row) }
    return lines.text
  }

  /// The values of a column.
  package func values(of column: String) -> [String?] {
    guard let place = columns.firstIndex(where: { $0.name == column }) else { return [] }
    return rows.map { $0[place] }
  }

  /// The table with its first column and those with these names, in their order.
  package func withColumns(_ names: [String]) -> FigureTable {
    let places = [0] + names.compactMap { name in columns.dropFirst().firstIndex { $0.name == name } }
    var table = self
    table.columns = places.map { columns[$0] }
    table.rows = rows.map { row in places.map { row[$0] } }
    return table
  }

  /// The table with the sum of its columns as the last one, if there are several.
  package var withTotal: FigureTable {
    guard let kind = columns.dropFirst(2).last?.kind else { return self }
    var table = self
    table.columns.append(Column(name: "total", kind: kind))
    table.rows = rows.map { row in
      row + ["\(row.dropFirst().reduce(Decimal(0)) { $0 + ($1.flatMap { Decimal(string: $0) } ?? 0) })"]
    }
    return table
  }

  /// The table of a statement's rows, whose columns are all texts.
  init(_ result: Rows, columns: [(String, Kind)]) throws {
    self.columns = columns.map { Column(name: $0, kind: $1) }
    rows = try result.map { row in
      try columns.map { try row.decode($0.0, as: String?.self) }
    }
  }

  /// The table with a column for each `name` of a statement's rows `place`, `name`, `rank`, `value`.
  /// - Parameters:
  ///   - places: the rows of the table; a place without a value has `missing`.
  ///   - missing: the value of a place that the statement leaves out.
  init(
    pivoting result: Rows, first: String, kind: Kind, places: [String], missing: String?
  ) throws {
    var names: [(name: String, rank: Int)] = []
    var values: [String: [String: String?]] = [:]
    for row in result {
      let name = try row.decode("name", as: String.self)
      if values[name] == nil { names.append((name, try row.decode("rank", as: Int.self))) }
      values[name, default: [:]][try row.decode("place")] = try row.decode("value", as: String?.self)
    }
    names.sort { $0.rank < $1.rank }
    columns = [Column(name: first, kind: .date)] + names.map { Column(name: $0.name, kind: kind) }
    rows = places.map { place in [place] + names.map { values[$0.name]?[place] ?? missing } }
  }

  /// A table with a row for each place: that of `result` with this place, else zeros.
  init(_ result: Rows, places: [String], columns: [(String, Kind)]) throws {
    let found = try FigureTable(result, columns: columns)
    let byPlace = Dictionary(
      found.rows.map { ($0[0] ?? "", $0) }, uniquingKeysWith: { first, _ in first })
    self.columns = found.columns
    rows = places.map { place in
      byPlace[place] ?? [place] + columns.dropFirst().map { $0.1 == .ratio ? nil : "0" }
    }
  }
}
