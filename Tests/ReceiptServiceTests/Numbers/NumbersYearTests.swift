import Foundation
import Postgres
import TestProcess
import Testing

@testable import ReceiptService

@Suite struct NumbersYearTests {
  private static let views = [
    "kpi_daily", "kpi_revenue_daily", "kpi_losses_daily", "kpi_cohorts", "kpi_trial_cohorts",
    "kpi_lifetime_value", "kpi_acquisition", "kpi_price_changes",
  ]

  @Test(arguments: [3, 8])
  func `every number of a simulated year is the one that a separate program computes`(
    seed: UInt64
  ) async throws {
    try await withScreenTime { harness in
      var year = StoryYear(harness, seed: seed)
      try await year.play(customers: 70)
      try await harness.countWhatIsDue()

      let folder = FileManager.default.temporaryDirectory.appending(path: "numbers-\(UUID())")
      try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
      defer { try? FileManager.default.removeItem(at: folder) }
      let truth = folder.appending(path: "truth.json")
      let counted = folder.appending(path: "counted.json")
      try JSONEncoder().encode(year.truth).write(to: truth)
      try await Data(Self.rows(harness).utf8).write(to: counted)
      let program = URL(filePath: Harness.migrations).deletingLastPathComponent()
        .appending(path: "scripts/harness/numbers.d/check.py")
      let result = try await Command("python3", ["-B", program.path, truth.path, counted.path]).run()
      #expect(result.status == 0, "\(result.text)\(result.complaint)")
      #expect(result.text.contains("cells, 0 differences"))
    }
  }

  /// All rows of the views, as JSON.
  private static func rows(_ harness: Harness) async throws -> String {
    var views: [String] = []
    for view in Self.views {
      let query = Query(
        unescaped: "SELECT coalesce(jsonb_agg(to_jsonb(v)), '[]')::text AS rows FROM \(view) v")
      let rows = try await harness.pool.query(query)
      views.append("\"\(view)\": \(try rows[0].decode("rows", as: String.self))")
    }
    return "{\(views.joined(separator: ", "))}"
  }
}
