import AppStoreSimulator
import Foundation
import Postgres
import Testing

@testable import ReceiptService

@Suite struct DoctorTests {
  private struct Result {
    var isWell: Bool
    var findings: [Finding]

    /// What is not well.
    var troubles: [String] { findings.filter { !$0.isWell }.map(\.line) }

    func has(_ trouble: String) -> Bool { troubles.contains { $0.contains(trouble) } }
  }

  /// - Parameter change: what differs from a well environment.
  private func examine(
    _ harness: Harness, clock: ServiceClock = .system, _ change: [String: String] = [:]
  ) async -> Result {
    var findings: [Finding] = []
    let doctor = Doctor(environment: harness.environment.merging(change) { _, new in new }, clock: clock)
    let isWell = await doctor.examine { findings.append($0) }
    return Result(isWell: isWell, findings: findings)
  }

  private func withConfiguration(
    _ configuration: String, _ body: (String) async throws -> Void
  ) async throws {
    let file = FileManager.default.temporaryDirectory.appending(path: "doctor-\(UUID()).json")
    try Data(configuration.utf8).write(to: file)
    defer { try? FileManager.default.removeItem(at: file) }
    try await body(file.path)
  }

  @Test func `where all is well every line says so`() async throws {
    try await withHarness { harness in
      let result = await examine(harness)
      #expect(result.troubles == [])
      #expect(result.isWell)
      let subjects = result.findings.map(\.subject)
      for subject in [
        "settings", "configuration", "app com.example.climbing", "app com.example.family", "roots",
        "database", "clock", "migrations", "rights", "table profiles", "table user_preferences",
        "support role", "entitlement key", "App Store key of com.example.climbing, Production",
        "App Store key of com.example.climbing, Sandbox",
      ] { #expect(subjects.contains(subject), "\(subject)") }
      #expect(subjects.filter { $0 == "clock" }.count == 2)
      #expect(result.findings.allSatisfy { !$0.line.contains("\n") })
      #expect(!result.findings.contains { $0.line.contains(Harness.secret) })
    }
  }

  @Test func `a bad configuration is told with file, path and reason`() async throws {
    try await withHarness { harness in
      let good = TestApps.json
      let cases: [(change: (String) -> String, trouble: String)] = [
        ({ _ in "{" }, "is not JSON"),
        (
          { $0.replacing("\"transferPolicy\"", with: "\"transfrPolicy\"") },
          "apps[0].transfrPolicy: unknown key"
        ),
        ({ $0.replacing("\"rank\": 2", with: "\"rank\": 1") }, "have the same rank 1"),
        ({ $0.replacing("\"appAppleID\": 1500000001, ", with: "") }, "it has no appAppleID"),
        ({ $0.replacing("com.example.family\"", with: "com.example/family\"") }, "other characters"),
        ({ $0.replacing("TEST_JWT_SECRET", with: "ANOTHER_SECRET") }, "ANOTHER_SECRET is not set"),
        (
          {
            $0.replacing("\"grace\": { \"days\"", with: "\"writeTo\": [\"profiles\"], \"grace\": { \"days\"")
          },
          "which has a row per user"
        ),
        (
          {
            $0.replacing(
              "\"grace\": { \"days\"",
              with: #""appStore": { "key": "/nowhere.p8", "keyID": "A", "issuerID": "B" }, "grace": { "days""#
            )
          }, "cannot read /nowhere.p8"
        ),
      ]
      for (change, trouble) in cases {
        try await withConfiguration(change(good)) { file in
          let result = await examine(harness, ["RECEIPTD_CONFIG": file])
          #expect(!result.isWell)
          #expect(result.has(trouble), "\(trouble): \(result.troubles)")
        }
      }
      #expect(await examine(harness, ["RECEIPTD_CONFIG": "/nowhere"]).has("cannot read /nowhere"))
      let short = await examine(harness, ["SUPPORT_TOKEN": "s3cret-and-short"])
      #expect(short.has("SUPPORT_TOKEN has 16 characters"))
      #expect(!short.has("s3cret"))
      #expect(await examine(harness, ["PORT": "x"]).has("settings: PORT"))
      #expect(await examine(harness, ["APP_STORE_ROOTS": "/nowhere"]).has("roots: APP_STORE_ROOTS"))
    }
  }

  @Test func `the database's troubles are told apart`() async throws {
    try await withHarness { harness in
      #expect(
        await examine(harness, ["DATABASE_URL": "postgresql://postgres@127.0.0.1:1/none"]).has("database:"))
      _ = try await harness.pool.query("ALTER TABLE profiles DROP COLUMN premium_product_id CASCADE")
      #expect(await examine(harness).has("table profiles: has no premium_product_id"))
      _ = try await harness.pool.query("DROP VIEW support_timeline")
      #expect(await examine(harness).isWell == false)
      _ = try await harness.pool.query(
        "DELETE FROM schema_migrations WHERE version = (SELECT max(version) FROM schema_migrations)")
      #expect(await examine(harness).has("migrations: 1 of"))
    }
  }

  @Test func `headers that are missing, or may go, are told`() async throws {
    try await withHarness { harness in
      let bought = try harness.buy()
      #expect(try await harness.notify(bought.notification.signedPayload).status == 200)
      #expect(
        await examine(harness).findings.contains {
          $0.subject == "headers" && $0.finding.hasPrefix("are there")
        })
      _ = try await harness.pool.query("ALTER TABLE jws_headers DISABLE TRIGGER receiptd_keep_headers")
      #expect(await examine(harness).has("headers: may be changed and deleted"))
      _ = try await harness.pool.query("UPDATE notifications SET received_at = now()")
      _ = try await harness.pool.query("DELETE FROM jws_headers")
      // The notification's own, and that of each signed part in it.
      #expect(await examine(harness).has("headers: of 3 signed parts"))
    }
  }

  @Test func `a divided table without the months of the next weeks is told`() async throws {
    try await withHarness { harness in
      #expect(await !examine(harness).findings.contains { $0.subject == "months" })
      try await harness.pool.divide(monthsAgo: 2)
      let well = await examine(harness)
      #expect(well.troubles == [])
      #expect(
        well.findings.contains { $0.subject == "months" && $0.finding.hasPrefix("notifications 7, until") })
      for month in try await harness.pool.months(of: .notifications).dropFirst(3).dropLast() {
        _ = try await harness.pool.query(Query(unescaped: "DROP TABLE \(month)"))
      }
      try await harness.arrives(harness.buy())
      let late = await examine(harness)
      #expect(late.has("months: not enough are made: notifications 3, until"))
      #expect(late.has("and 1 rows of no month; transactions 7"))
      try await harness.service.monthsJob.makeMonths()
      #expect(await examine(harness).troubles == [])
    }
  }

  @Test func `a clock that is off is told by how much`() async throws {
    try await withHarness { harness in
      let late = await examine(harness, clock: ServiceClock { Date() - 60 })
      #expect(late.troubles.filter { $0.contains("clock: ") && $0.contains("s behind") }.count == 2)
      let early = await examine(harness, clock: ServiceClock { Date() + 60 })
      #expect(early.has("s ahead of the database's"))
    }
  }

  @Test func `a key that the App Store does not take, and a store that is away`() async throws {
    try await withHarness(configuration: TestApps.configuration(storeKey: true)) { harness in
      let wrong = await examine(harness)
      #expect(wrong.has("App Store key of com.example.climbing, Production: not taken (401)"))
      #expect(!wrong.has("App Store key of com.example.family"))
      let away = await examine(harness, ["APP_STORE_URL": "http://127.0.0.1:1"])
      #expect(away.has("App Store key of com.example.family, Production: cannot be reached"))
      let none = await examine(
        harness, ["APP_STORE_KEY": "", "APP_STORE_KEY_ID": "", "APP_STORE_ISSUER_ID": ""])
      #expect(!none.has("com.example.family"))
    }
  }
}
