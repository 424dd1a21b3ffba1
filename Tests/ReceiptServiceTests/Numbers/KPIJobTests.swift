import Actions
import AppStore
import AppStoreSimulator
import Configuration
import Foundation
import TestDatabase
import Testing
import Text

@testable import Ledger
@testable import Numbers
@testable import Postgres
@testable import ReceiptService

@Suite struct KPIJobTests {
  @Test func `the KPI job counts the current day every few minutes and closes it soon after its end`()
    async throws
  {
    try await withScreenTime { harness in
      try harness.becomes("03-01")
      try await harness.account("ann", buys: ScreenTime.individual)
      harness.clock.advance(seconds: 1)
      #expect(try await harness.countWhatIsDue() == [harness.day("03-01")])
      #expect(try await harness.numbers("03-01", tier: "individual")["new"] == "1")

      try await harness.account("ben", buys: ScreenTime.individual)
      harness.clock.advance(seconds: 240)
      #expect(try await harness.countWhatIsDue() == [])
      harness.clock.advance(seconds: 61)
      #expect(try await harness.countWhatIsDue() == [harness.day("03-01")])
      #expect(try await harness.numbers("03-01", tier: "individual")["new"] == "2")
      #expect(try await asOf("03-01", harness) == harness.clock.now)

      try harness.becomes("03-02", hour: 0.1)
      #expect(try await harness.countWhatIsDue() == [harness.day("03-02")])
      try harness.becomes("03-02", hour: 0.2)
      #expect(
        try await harness.countWhatIsDue() == [harness.day("03-02"), harness.day("03-01")])
      #expect(try await asOf("03-01", harness) == harness.day("03-02").start)
      // A closed day is not counted again before the next midnight.
      try harness.becomes("03-02", hour: 0.21)
      #expect(try await harness.countWhatIsDue() == [])
    }
  }

  @Test func `a server that knows no purchase counts the current day alone`() async throws {
    try await withScreenTime { harness in
      try harness.becomes("03-01")
      #expect(try await harness.countWhatIsDue() == [harness.day("03-01")])
    }
  }

  @Test func `late notifications count in the KPIs of their own day`() async throws {
    try await withScreenTime { harness in
      try harness.becomes("03-01")
      let bought = try await harness.account("ann", buys: ScreenTime.individual)
      try harness.becomes("03-03")
      // The notifications of this day are delayed.
      let ben = try harness.buy(ScreenTime.individual, bundleID: ScreenTime.bundleID)
      let off = try harness.store.perform(.setAutoRenew(false), on: bought.originalTransactionID)
      let refund = try harness.store.perform(.refundLatest, on: bought.originalTransactionID)
      try harness.becomes("03-05")
      try await harness.countWhatIsDue()
      let without = try await harness.numbers("03-03", tier: "individual")
      #expect(without["active"] == "1")
      #expect(without["new"] == nil)

      for late in [ben, off, refund] { try await harness.arrives(late) }
      try harness.becomes("03-06")
      try await harness.countWhatIsDue()
      let right = [
        "new": "1", "active": "1", "cancelled": "1", "refunded": "1", "revenue": #"{"USD": 7.99}"#,
        "refunds": #"{"USD": 7.99}"#, "mrr": #"{"USD": 7.99}"#, "revenue_per_user": #"{"USD": 7.99}"#,
      ]
      #expect(try await harness.numbers("03-03", tier: "individual") == right)
      #expect(try await harness.numbers("03-01", tier: "individual")["refunded"] == nil)
    }
  }

  @Test func `days whose history arrives more than a week late are counted again, and no others`()
    async throws
  {
    try await withScreenTime { harness in
      try harness.becomes("02-20")
      try await harness.account("ann", buys: ScreenTime.individual)
      try harness.becomes("03-01")
      let late = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      try harness.becomes("03-20")
      try await harness.countWhatIsDue()
      #expect(try await harness.numbers("03-01", tier: "family") == [:])
      try await harness.arrives(late)
      // A late fact changes the days since, at most once an hour.
      harness.clock.advance(seconds: 200)
      #expect(try await harness.countWhatIsDue() == [])
      harness.clock.advance(seconds: 3_600)
      let first = try harness.day("03-01")
      #expect(
        try await harness.countWhatIsDue() == (0..<20).map { first.advanced(by: 19 - $0) })
      #expect(try await harness.numbers("03-01", tier: "family")["new"] == "1")
      #expect(try await harness.numbers("03-12", tier: "family")["active"] == "1")
      #expect(try await harness.count("kpi_late_facts") == 0)
    }
  }

  @Test func `a transaction of today, or an old one that is signed again, makes no day stale`() async throws {
    try await withScreenTime { harness in
      try harness.becomes("03-01")
      let bought = try await harness.account("ann", buys: ScreenTime.individual)
      try harness.becomes("03-20")
      var again = bought.transaction
      again.signedDate = harness.clock.now
      _ = try await harness.validate(["signedTransaction": harness.sign(again)])
      #expect(try await harness.count("kpi_late_facts") == 0)
      // A refund that is told a day late changes the days since.
      again.revocationDate = try harness.day("03-18").start + 3_600
      again.signedDate = harness.clock.now + 1
      harness.clock.advance(seconds: 1)
      _ = try await harness.validate(["signedTransaction": harness.sign(again)])
      #expect(try await harness.count("kpi_late_facts") == 1)
    }
  }

  @Test func `receiptd kpi counts days again`() async throws {
    try await withScreenTime { harness in
      try harness.becomes("03-01")
      try await harness.account("ann", buys: ScreenTime.individual)
      try await harness.account("ben", buys: ScreenTime.family)
      try harness.becomes("03-21")
      try await harness.countWhatIsDue()
      var counted: [String: Int] = [:]
      try await harness.service.countKPIs(
        from: harness.day("03-01"), through: harness.day("03-02")
      ) { counted["\($0)"] = $1 }
      #expect(counted == ["\(try harness.day("03-01"))": 2, "\(try harness.day("03-02"))": 2])
      #expect(try await harness.numbers("03-01", tier: "family")["new"] == "1")

      let backwards = try await refusal {
        try await harness.service.countKPIs(
          from: harness.day("03-02"), through: harness.day("03-01"), report: { _, _ in })
      }
      #expect(backwards == .invalid)
      let early = try await refusal {
        try await harness.service.countKPIs(
          from: harness.day("03-21"), through: harness.day("03-22"), report: { _, _ in })
      }
      #expect(early == .invalid)
    }
  }

  @Test func `servers that count KPIs concurrently count each day once`() async throws {
    try await withScreenTime { harness in
      try harness.becomes("03-01")
      try await harness.account("ann", buys: ScreenTime.individual)
      try harness.becomes("03-20")
      let others = [
        try await harness.service(configuration: ScreenTime.configuration()),
        try await harness.service(configuration: ScreenTime.configuration()),
      ]
      let servers = [harness.service] + others
      var days: [Day] = []
      while true {
        let turn = try await withThrowingTaskGroup(of: [Day].self) { group in
          for server in servers { group.addTask { try await server.numbers.kpiJob.run { _ in } } }
          return try await group.reduce(into: []) { $0 += $1 }
        }
        if turn.isEmpty { break }
        days += turn
      }
      #expect(days.count == 20)
      #expect(Set(days).count == 20)
      // A command at the same time also leaves one row for each day.
      let day = try harness.day("03-01")
      try await withThrowingTaskGroup(of: Void.self) { group in
        for server in servers { group.addTask { _ = try await server.numbers.counter.count(day) } }
        try await group.waitForAll()
      }
      #expect(try await harness.numbers("03-01", tier: "individual")["new"] == "1")
      #expect(try await harness.count("kpi_daily") == 20)
      for other in others { await other.close() }
    }
  }

  @Test func `the KPI job pauses after each backfilled day, and not before the latest days`()
    async throws
  {
    try await withScreenTime { harness in
      try harness.becomes("03-01")
      try await harness.account("ann", buys: ScreenTime.individual)
      try harness.becomes("03-10")
      let start = ContinuousClock.now
      var rests: [Duration] = []
      let days = try await harness.service.numbers.kpiJob.run { rest in
        rests.append(rest)
        // The pause after a day that takes 16 s.
        harness.clock.advance(seconds: 304)
      }
      let took = ContinuousClock.now - start
      // The latest eight days are counted without a pause. A pause follows each other day, and the current day is due
      // again after each pause.
      #expect(Set(days).count == 10)
      #expect(days.count == 12)
      #expect(rests.count == 2)
      #expect(rests.allSatisfy { $0 > .zero && $0 < took * 19 })
    }
  }

  @Test func `the query plan of a day's KPIs has no sequential scan of a large table`() async throws {
    try await withTestDatabase(migrationsFolder: Harness.migrations) { database in
      try await loadSubscriptions(20_000, into: database)
      try await database.withPool { pool in
        let catalog = try AppCatalog(json: Data(ScreenTime.configuration().utf8), named: "apps.json")
        let day = Day(of: Date()).advanced(by: -30)
        let count = KPIRows.count(day, asOf: day.end, PriceList(catalog))
        let rows = try await pool.query(Query(unescaped: "EXPLAIN " + count.text, count.parameters))
        let plan = try rows.map { try $0.decode("QUERY PLAN", as: String.self) }
        let scans = plan.filter { $0.contains("Seq Scan on") && !$0.contains("Seq Scan on kpi") }
        #expect(scans == [])
        #expect(plan.contains { $0.contains("transactions_purchase_date_idx") })
      }
    }
  }

  private func asOf(_ monthAndDay: String, _ harness: Harness) async throws -> Date {
    try await harness.pool.query(
      "SELECT as_of FROM kpi_days WHERE day::text = \(harness.day(monthAndDay).description)"
    )[0].decode("as_of", as: Date.self)
  }
}
