import Actions
import Configuration
import Foundation
import JSON
import Postgres
import Text
import Work

/// Reads what an app spent to win customers, for CAC beside LTV (`kpi_acquisition`).
///
/// The file is CSV with the columns `month` (`2026-11`), `bundle_id`, `currency` (ISO 4217), `amount`, and optionally
/// `channel`. All rows of a month and app in the file replace those in the database.
package struct AcquisitionCostRequest: SupportRequest {
  package static let operation = SupportOperation.acquisitionCost

  /// The file's text.
  var csv: String

  package init(csv: String) {
    self.csv = csv
  }

  package func run(
    at room: NumberRoom, by author: SupportAuthor, isDryRun: Bool
  ) async throws -> AcquisitionCosts {
    let costs: AcquisitionCosts
    do {
      costs = try AcquisitionCosts(csv: csv, in: room.catalog, isDryRun: isDryRun)
    } catch {
      throw SupportRefusal.invalid(error.description)
    }
    try await room.pool.withTransaction(isDryRun: isDryRun) { connection in
      _ = try await connection.pipeline([
        AcquisitionCostRows.delete(costs.rows), AcquisitionCostRows.insert(costs.rows),
        SupportActionRows.insert(
          costs.apps.map { app in
            SupportAction(
              name: Self.operation.rawValue, bundleID: app,
              details: ["rows": .integer(costs.rows.count { $0.bundleID == app })])
          }, by: author, at: room.clock.now()),
      ])
    }
    return costs
  }
}

/// The costs of a file.
package struct AcquisitionCosts: Sendable, CustomStringConvertible {
  /// One cost.
  struct Row: Sendable {
    /// The first day of the month, such as `2026-11-01`.
    var month: String
    var bundleID: String
    var channel: String
    var currency: String
    /// A decimal number, as in the file.
    var amount: String
  }

  let rows: [Row]
  /// Whether nothing was written.
  let isDryRun: Bool

  /// The apps that the file names.
  var apps: [String] { Set(rows.map(\.bundleID)).sorted() }

  /// - Throws: ``CSVProblem`` for the first row that cannot be used.
  init(csv: String, in catalog: AppCatalog, isDryRun: Bool) throws(CSVProblem) {
    let table = try CSVTable(csv)
    for column in ["month", "bundle_id", "currency", "amount"] where !table.columns.contains(column) {
      throw CSVProblem(line: 1, "the header has no column '\(column)'")
    }
    var rows: [Row] = []
    var known: Set<[String]> = []
    for line in table.rows {
      let row = try Row(line, in: catalog)
      guard known.insert([row.month, row.bundleID, row.channel, row.currency]).inserted else {
        throw CSVProblem(line: line.line, "it repeats a row's month, bundle_id, channel and currency")
      }
      rows.append(row)
    }
    self.rows = rows
    self.isDryRun = isDryRun
  }

  /// One line.
  package var description: String {
    let months = Set(rows.map(\.month)).sorted()
    guard let first = months.first, let last = months.last else { return "the file has no rows" }
    return
      "\(rows.count) costs of \(apps.joined(separator: ", ")), \(first.dropLast(3)) to \(last.dropLast(3))"
  }
}

extension AcquisitionCosts.Row {
  fileprivate init(_ row: CSVTable.Row, in catalog: AppCatalog) throws(CSVProblem) {
    func value(_ column: String) throws(CSVProblem) -> String {
      guard let value = row[column] else { throw CSVProblem(line: row.line, "it has no \(column)") }
      return value
    }
    let month = try value("month")
    guard month.utf8.count == 7, Day(month + "-01") != nil else {
      throw CSVProblem(line: row.line, "month must be one such as 2026-11")
    }
    self.month = month + "-01"
    bundleID = try value("bundle_id")
    guard catalog[bundleID] != nil else {
      throw CSVProblem(line: row.line, "no app with this bundle_id is configured")
    }
    currency = try value("currency")
    guard currency.utf8.count == 3,
      currency.utf8.allSatisfy({ (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) })
    else { throw CSVProblem(line: row.line, "currency must be a code of ISO 4217 such as USD") }
    amount = try value("amount")
    guard Self.isAmount(amount) else {
      throw CSVProblem(
        line: row.line, "amount must be a number such as 1250.50, with at most 15 digits before the point")
    }
    channel = row["channel"] ?? ""
    guard channel.utf8.count <= 200, !channel.hasControlCharacters else {
      throw CSVProblem(line: row.line, "channel must be at most 200 bytes without control characters")
    }
  }

  /// Whether it is digits, with or without a point and further digits.
  private static func isAmount(_ text: String) -> Bool {
    let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    guard parts.count <= 2, let whole = parts.first, (1...15).contains(whole.count) else { return false }
    return parts.allSatisfy { part in
      !part.isEmpty && part.count <= 15
        && part.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
    }
  }
}

/// Statements on the table `kpi_acquisition_costs`.
private enum AcquisitionCostRows {
  static func delete(_ rows: [AcquisitionCosts.Row]) -> Query {
    """
    DELETE FROM kpi_acquisition_costs AS cost
    USING unnest(\(rows.map(\.bundleID))::text[], \(rows.map(\.month))::text[]) AS new (bundle_id, month)
    WHERE cost.bundle_id = new.bundle_id AND cost.month = new.month::date
    """
  }

  static func insert(_ rows: [AcquisitionCosts.Row]) -> Query {
    """
    INSERT INTO kpi_acquisition_costs (bundle_id, month, channel, currency, amount)
    SELECT bundle_id, month::date, channel, currency, amount::numeric FROM unnest(
      \(rows.map(\.bundleID))::text[], \(rows.map(\.month))::text[], \(rows.map(\.channel))::text[],
      \(rows.map(\.currency))::text[], \(rows.map(\.amount))::text[]) AS new (bundle_id, month, channel, currency, amount)
    """
  }
}
