import Foundation
import Postgres
import TestDatabase
import Testing

@testable import Ledger
@testable import ReceiptService
@testable import Support

/// The export and the erasure of a customer with very many events: any client can send events in a customer's name.
@Suite struct CustomerEventTests {
  private static func insert(
    _ count: Int, of customer: String, bundleID: String, _ harness: Harness
  ) async throws {
    _ = try await harness.pool.query(
      """
      INSERT INTO events (bundle_id, customer_id, id, name, at, received_at, properties)
      SELECT \(bundleID)::text, \(customer)::text, gen_random_uuid(), 'a', now(), now(), '{"search": "her dog"}'
      FROM generate_series(1, \(count)::bigint)
      """)
  }

  private static func count(of customer: String, _ harness: Harness) async throws -> Int {
    try await harness.value(
      "SELECT count(*) AS value FROM events WHERE customer_id = \(customer)", as: Int.self)
  }

  @Test func `more events than one transaction erases are exported, counted by a dry run, and erased`()
    async throws
  {
    try await withScreenTime { harness in
      let events = ErasedCustomer.eventBatch * 5 / 2
      try await Self.insert(events, of: "phone", bundleID: ScreenTime.bundleID, harness)
      for (customer, app) in [("tablet", ScreenTime.bundleID), ("phone", ScreenTime.heatlab)] {
        try await Self.insert(1, of: customer, bundleID: app, harness)
      }
      let export = try await harness.desk.exportCustomer("phone", bundleID: ScreenTime.bundleID)
      let table = try #require(export.tables.first { $0.table == "events" })
      #expect(table.rows.count == events)
      #expect(!table.hasMore)

      let ada = try #require(Harness.makeAuthor("ada", "asked by letter"))
      let dry = try await harness.desk.eraseCustomer(
        "phone", bundleID: ScreenTime.bundleID, by: ada, isDryRun: true)
      #expect(dry.erased.first?.rows["events"] == events)
      #expect(try await Self.count(of: "phone", harness) == events + 1)

      let report = try await harness.erase("phone", of: ScreenTime.bundleID)
      let erased = try #require(report.erased.first)
      #expect(erased.rows["events"] == events)
      #expect(try await Self.count(of: try #require(erased.pseudonym), harness) == events)
      // The same id in another app, and other customers.
      for customer in ["phone", "tablet"] { #expect(try await Self.count(of: customer, harness) == 1) }
      let searches: Query = "SELECT count(*) AS value FROM events WHERE properties IS NOT NULL"
      #expect(try await harness.value(searches, as: Int.self) == 2)
      let recorded: Query = """
        SELECT (details ->> 'events')::bigint AS value FROM support_actions WHERE action = 'erase-customer'
        """
      #expect(try await harness.value(recorded, as: Int.self) == events)
    }
  }

  @Test func `an export of many events does not keep its transaction idle while it decodes them`()
    async throws
  {
    try await withTestDatabase(migrationsFolder: Harness.migrations) { database in
      let harness = try await Harness(
        databaseURL: database.uri + "?options=-cidle_in_transaction_session_timeout%3D500ms",
        configuration: ScreenTime.configuration(), databaseTimeout: .seconds(60))
      do {
        try await Self.insert(40_000, of: "phone", bundleID: ScreenTime.bundleID, harness)
        let export = try await harness.desk.exportCustomer("phone", bundleID: ScreenTime.bundleID)
        #expect(export.tables.first { $0.table == "events" }?.rows.count == 40_000)
      } catch {
        await harness.stop()
        throw error
      }
      await harness.stop()
    }
  }

  @Test func `an id in most events is searched for without reading the events of other apps`() async throws {
    try await withHarness(role: nil) { harness in
      try await Self.insert(20_000, of: "flood", bundleID: TestApps.climbing, harness)
      _ = try await harness.pool.query("ANALYZE events")
      let catalog = harness.service.notifications.catalog
      let scans: Query = "SELECT seq_scan AS scans FROM pg_stat_xact_user_tables WHERE relname = 'events'"
      let (before, after) = try await harness.pool.withTransaction { connection in
        let before = try await connection.query(scans)[0].decode("scans", as: Int.self)
        _ = try await CustomerSearch("flood", in: catalog, connection)
        return (before, try await connection.query(scans)[0].decode("scans", as: Int.self))
      }
      #expect(after == before)
    }
  }
}
