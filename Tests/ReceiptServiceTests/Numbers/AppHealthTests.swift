import Foundation
import HTTP
import HTTPTypes
import Postgres
import Testing
import Text

@testable import Actions
@testable import Numbers
@testable import ReceiptService

/// The numbers of the apps' own events (S2: `app_opened`, `restore_started`, `purchase_failed`, …), and what a customer
/// costs.
@Suite struct AppHealthTests {
  private func report(_ names: [String], of customer: String, _ harness: Harness) async throws {
    let at = RFC3339.string(from: harness.clock.now)
    let events = names.map { #"{"name": "\#($0)", "at": "\#(at)"}"# }.joined(separator: ",")
    let answer = try await harness.send(
      .post, "/api/v1/events",
      json: #"{"bundleID": "\#(ScreenTime.bundleID)", "customerID": "\#(customer)", "events": [\#(events)]}"#)
    #expect(answer.status == 202)
  }

  @Test
  func `the apps' own events give trial start rate, restore success, StoreKit errors, crashes and hangs`()
    async throws
  {
    try await withScreenTime { harness in
      for device in ["a", "b", "c", "d"] {
        try await report(["app_opened", "app_opened"], of: device, harness)
      }
      #expect(try await harness.launch("a").status == 201)
      try await report(["restore_started", "restore_started", "restore_succeeded"], of: "b", harness)
      try await report(
        ["purchase_failed", "storekit_error", "app_crashed", "app_hang", "app_hang"], of: "c", harness)
      harness.clock.advance(seconds: 60)
      try await harness.countWhatIsDue()
      let row = try await harness.pool.query(
        """
        SELECT app_opened, trial_start_rate::text AS rate, restore_started, restore_succeeded, restore_success::text AS success,
          storekit_errors, app_crashed, app_hang FROM kpi_daily
        WHERE bundle_id = \(ScreenTime.bundleID) AND tier IS NULL AND product_id IS NULL
          AND day = (SELECT max(day) FROM kpi_daily)
        """)[0]
      #expect(try row.decode("app_opened", as: Int.self) == 4)
      let rate = try row.decode("rate", as: String?.self)
      #expect(rate == "0.2500")
      #expect(try row.decode("restore_started", as: Int.self) == 2)
      #expect(try row.decode("restore_succeeded", as: Int.self) == 1)
      #expect(try row.decode("success", as: String.self) == "0.5000")
      #expect(try row.decode("storekit_errors", as: Int.self) == 2)
      #expect(try row.decode("app_crashed", as: Int.self) == 1)
      #expect(try row.decode("app_hang", as: Int.self) == 2)
      let scrape = try await harness.scrape()
      #expect(
        scrape["receiptd_events_total{app=\"\(ScreenTime.bundleID)\",name=\"storekit_error\"}"] == 2)
    }
  }

  @Test
  func `what was spent gives the cost of a customer beside the value, and a second file replaces the month`()
    async throws
  {
    try await withScreenTime { harness in
      _ = try await harness.device("phone", buys: ScreenTime.family)
      _ = try await harness.device("tablet", buys: ScreenTime.family)
      harness.clock.advance(seconds: 60)
      try await harness.countWhatIsDue()
      let month = String(Day(of: harness.clock.now).description.prefix(7))
      func read(_ lines: [String], isDryRun: Bool = false) async throws -> AcquisitionCosts {
        try await harness.service.perform(
          AcquisitionCostRequest(
            csv: (["month,bundle_id,channel,currency,amount"] + lines).joined(separator: "\n")),
          by: #require(Harness.ada), isDryRun: isDryRun)
      }
      let app = ScreenTime.bundleID
      _ = try await read(["\(month),\(app),Search,USD,30", "\(month),\(app),Social,USD,10.50"])
      func shown() async throws -> String? {
        try await harness.pool.query(
          "SELECT cost::text || ' ' || customers || ' ' || cac::text || ' ' || ltv::text AS line FROM kpi_acquisition"
        ).first?.decode("line")
      }
      #expect(try #require(await shown()) == "40.50 2 20.25 12.99")
      #expect(try await read(["\(month),\(app),,USD,5"], isDryRun: true).rows.count == 1)
      #expect(try #require(await shown()) == "40.50 2 20.25 12.99")
      _ = try await read(["\(month),\(app),,USD,5"])
      #expect(try #require(await shown()) == "5 2 2.50 12.99")
      #expect(try await harness.actions().map(\.action) == ["acquisition-cost", "acquisition-cost"])
      for (line, word) in [
        ("2026-13,\(app),,USD,5", "month"), ("\(month),com.example.none,,USD,5", "bundle_id"),
        ("\(month),\(app),,usd,5", "currency"), ("\(month),\(app),,USD,-5", "amount"),
        ("\(month),\(app),,USD,1e9", "amount"), ("\(month),\(app),,USD,", "amount"),
      ] {
        let error = await #expect(throws: SupportRefusal.self) { _ = try await read([line]) }
        #expect(error?.description.contains("line 2") == true)
        #expect(error?.description.contains(word) == true, "\(line): \(error?.description ?? "")")
      }
      #expect(try #require(await shown()) == "5 2 2.50 12.99")
    }
  }
}
