import AppStoreSimulator
import Foundation
import Postgres
import Testing
import Work

@testable import ReceiptService

@Suite struct DoctorTests {
  private struct Result {
    var isOK: Bool
    var results: [CheckResult]

    /// The lines of the failed checks.
    var failures: [String] { results.filter { !$0.isOK }.map(\.line) }

    func has(_ failure: String) -> Bool { failures.contains { $0.contains(failure) } }
  }

  /// - Parameter change: the settings that differ from those of the harness.
  private func check(
    _ harness: Harness, clock: ServiceClock = .system, _ change: [String: String] = [:]
  ) async -> Result {
    var results: [CheckResult] = []
    let doctor = Doctor(environment: harness.environment.merging(change) { _, new in new }, clock: clock)
    let isOK = await doctor.check { results.append($0) }
    return Result(isOK: isOK, results: results)
  }

  private static let forwarding =
    #""forwardNotifications": { "url": "https://other.example/apple", "secretEnv": "UNSET_SECRET" }"#

  private static let cloudKit = """
    "writeTo": ["cloudkit"], "cloudkit": { "container": "iCloud.com.example",
      "keyID": "\(String(repeating: "a", count: 64))", "key": "/nowhere.pem" }
    """

  private func withConfiguration(
    _ configuration: String, _ body: (String) async throws -> Void
  ) async throws {
    let file = FileManager.default.temporaryDirectory.appending(path: "doctor-\(UUID()).json")
    try Data(configuration.utf8).write(to: file)
    defer { try? FileManager.default.removeItem(at: file) }
    try await body(file.path)
  }

  @Test func `the doctor reports ok on every line if all checks pass`() async throws {
    try await withHarness { harness in
      let result = await check(harness)
      #expect(result.failures == [])
      #expect(result.isOK)
      let subjects = result.results.map(\.subject)
      for subject in [
        "settings", "configuration", "app com.example.climbing", "app com.example.family", "roots",
        "database", "clock (database)", "clock (App Store)", "migrations", "privileges", "table profiles",
        "table user_preferences",
        "support role", "entitlement key", "App Store key of com.example.climbing, Production",
        "App Store key of com.example.climbing, Sandbox",
      ] { #expect(subjects.contains(subject), "\(subject)") }
      #expect(result.results.allSatisfy { !$0.line.contains("\n") })
      #expect(!result.results.contains { $0.line.contains(Harness.secret) })
    }
  }

  @Test func `the doctor reports an invalid configuration with file, path and reason`() async throws {
    try await withHarness { harness in
      let good = TestApps.json
      let cases: [(change: (String) -> String, failure: String)] = [
        ({ _ in "{" }, ":1:2: is not JSON: the file ends too early"),
        (
          { $0.replacing("\"transferPolicy\"", with: "\"transfrPolicy\"") },
          "apps[0].transfrPolicy: unknown key"
        ),
        ({ $0.replacing("\"rank\": 2", with: "\"rank\": 1") }, "have the same rank 1"),
        ({ $0.replacing("\"appAppleID\": 1500000001, ", with: "") }, "it has no appAppleID"),
        ({ $0.replacing("com.example.family\"", with: "com.example/family\"") }, "characters other than"),
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
        (
          { $0.replacing("\"grace\": { \"days\"", with: "\(Self.forwarding), \"grace\": { \"days\"") },
          "UNSET_SECRET: is not set; the webhook"
        ),
        (
          {
            $0.replacing(
              "\"grace\": { \"days\"",
              with: Self.forwarding.replacing("UNSET_SECRET", with: "TEST_JWT_SECRET")
                + ", \"grace\": { \"days\"")
          },
          "TEST_JWT_SECRET: must be whsec_ and the base64 of 24 to 64 bytes"
        ),
        (
          {
            $0.replacing(
              "\"grace\": { \"days\"",
              with: Self.cloudKit + ", \"grace\": { \"days\""
            )
          },
          "cloudkit: cannot read /nowhere.pem"
        ),
        (
          {
            $0.replacing(
              "\"grace\": { \"days\"",
              with:
                #""environments": ["Xcode"], "xcode": { "certificates": ["/nowhere.cer"] }, "grace": { "days""#
            )
          }, "xcode.certificates of com.example.family: cannot read /nowhere.cer"
        ),
      ]
      for (change, failure) in cases {
        try await withConfiguration(change(good)) { file in
          let result = await check(harness, ["RECEIPTD_CONFIG": file])
          #expect(!result.isOK)
          #expect(result.has(failure), "\(failure): \(result.failures)")
        }
      }
      #expect(await check(harness, ["RECEIPTD_CONFIG": "/nowhere"]).has("cannot read /nowhere"))
      let short = await check(harness, ["SUPPORT_TOKEN": "s3cret-and-short"])
      #expect(short.has("SUPPORT_TOKEN has 16 characters"))
      #expect(!short.has("s3cret"))
      #expect(await check(harness, ["PORT": "x"]).has("settings: PORT"))
      #expect(await check(harness, ["APP_STORE_ROOTS": "/nowhere"]).has("roots: APP_STORE_ROOTS"))
    }
  }

  @Test func `the doctor reports each failure of the database on its own line`() async throws {
    try await withHarness { harness in
      #expect(
        await check(harness, ["DATABASE_URL": "postgresql://postgres@127.0.0.1:1/none"]).has("database:"))
      _ = try await harness.pool.query("ALTER TABLE profiles DROP COLUMN premium_product_id CASCADE")
      #expect(await check(harness).has("table profiles: has no premium_product_id"))
      _ = try await harness.pool.query("DROP VIEW support_timeline")
      #expect(await check(harness).isOK == false)
      _ = try await harness.pool.query(
        "DELETE FROM schema_migrations WHERE version = (SELECT max(version) FROM schema_migrations)")
      #expect(await check(harness).has("migrations: 1 of"))
      _ = try await harness.pool.query(
        "INSERT INTO schema_migrations VALUES ('20260120', 'create_user_preferences', '', now(), 0)")
      #expect(
        await check(harness).has("migrations: 20260120_create_user_preferences was applied by a version"))
    }
  }

  @Test func `the doctor reports missing and unprotected JWS headers`() async throws {
    try await withHarness { harness in
      let bought = try harness.buy()
      #expect(try await harness.notify(bought.notification.signedPayload).status == 200)
      #expect(
        await check(harness).results.contains {
          $0.subject == "headers" && $0.message == "are complete and protected"
        })
      _ = try await harness.pool.query("ALTER TABLE jws_headers DISABLE TRIGGER receiptd_keep_headers")
      #expect(await check(harness).has("headers: can be changed and deleted"))
      _ = try await harness.pool.query("UPDATE notifications SET received_at = now()")
      _ = try await harness.pool.query("DELETE FROM jws_headers")
      // The notification's own header, and one for each signed part in it.
      #expect(await check(harness).has("headers: the headers of 3 signed parts"))
    }
  }

  @Test func `the doctor reports a wrong clock with its difference`() async throws {
    try await withHarness { harness in
      let late = await check(harness, clock: ServiceClock { Date() - 60 })
      #expect(late.has("clock (database): this machine's is 60.0 s behind the database's"))
      #expect(late.failures.filter { $0.contains("clock (App Store)") && $0.contains("s behind") }.count == 1)
      let early = await check(harness, clock: ServiceClock { Date() + 60 })
      #expect(early.has("s ahead of the database's; set the clocks by NTP"))
    }
  }

  @Test func `the doctor reports a refused App Store key and an unreachable App Store`() async throws {
    try await withHarness(configuration: TestApps.configuration(storeKey: true)) { harness in
      let wrong = await check(harness)
      #expect(wrong.has("App Store key of com.example.climbing, Production: not accepted (401)"))
      #expect(!wrong.has("App Store key of com.example.family"))
      let away = await check(harness, ["APP_STORE_URL": "http://127.0.0.1:1"])
      #expect(away.has("App Store key of com.example.family, Production: no response: "))
      let none = await check(
        harness, ["APP_STORE_KEY": "", "APP_STORE_KEY_ID": "", "APP_STORE_ISSUER_ID": ""])
      #expect(!none.has("com.example.family"))
    }
  }
}
