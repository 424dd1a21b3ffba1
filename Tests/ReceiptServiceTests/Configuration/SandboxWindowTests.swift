import AppStore
import AppStoreSimulator
import Foundation
import HTTP
import HTTPTypes
import Postgres
import Testing
import Work

@testable import Numbers
@testable import ReceiptService

/// A window for App Review and TestFlight: sandbox purchases and trials give access to everyone until its end.
@Suite struct SandboxWindowTests {
  /// The shipped apps, each with a window.
  private static func screenTime(until end: Date) throws -> String {
    try ScreenTime.configuration().replacing(
      #""sandboxGrants": "nobody""#, with: #""sandboxGrants": \#(window(until: end))"#)
  }

  private static func window(until end: Date) -> String {
    #"{ "everyone": true, "until": "\#(RFC3339.string(from: end))" }"#
  }

  private static func supportSees(_ customer: String, _ harness: Harness) async throws -> Bool {
    let rows = try await harness.pool.query(
      "SELECT has_access FROM support_customers WHERE customer = \(customer)")
    return try rows.first?.decode("has_access") ?? false
  }

  @Test func `sandbox purchases and trials give access while it is open, and none at its end`() async throws {
    let end = Date(timeIntervalSince1970: (Date().timeIntervalSince1970 + 3_600).rounded(.down))
    try await withHarness(configuration: Self.screenTime(until: end)) { harness in
      let launched = try await harness.launch("trial-phone", account: "anna", in: .sandbox)
      #expect(launched.status == 201)
      #expect(launched.string("entitlements.status") == "trial")
      // The client asks again when the window ends.
      #expect(launched.date("entitlements.validUntil") == end)
      let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID, in: .sandbox)
      let shown = try await harness.device("phone", shows: bought)
      #expect(shown.string("entitlements.tier") == "family")
      #expect(try await Self.supportSees("phone", harness))
      #expect(try await Self.supportSees("trial-phone", harness))

      harness.clock.set(end - 1)
      for device in ["phone", "trial-phone"] {
        #expect(try await harness.entitlements(device).bool("entitlements.isAccessGranted") == true)
      }
      harness.clock.set(end)
      for device in ["phone", "trial-phone"] {
        let answer = try await harness.entitlements(device)
        #expect(answer.bool("entitlements.isAccessGranted") == false)
        #expect(answer.isNull("entitlements.validUntil"))
      }
      let again = try await harness.device("phone", shows: bought)
      #expect(again.bool("entitlements.isAccessGranted") == false)
      let late = try await harness.launch("other", account: "boris", in: .sandbox)
      #expect(late.status == 422)
      #expect(late.code == "wrong_environment")
      // A production trial of the same device is not used up.
      #expect(try await harness.launch("trial-phone", account: "anna").status == 201)
    }
  }

  @Test func `rows and profiles follow the end within a minute`() async throws {
    let end = Date(timeIntervalSince1970: (Date().timeIntervalSince1970 - 1_800).rounded(.down))
    let configuration = TestApps.configuration(sandboxGrants: Self.window(until: end)).replacing(
      #""customer": "device","#, with: #""customer": "device", "sandboxGrants": \#(Self.window(until: end)),"#
    )
    try await withHarness(configuration: configuration) { harness in
      // The views use the database's clock.
      harness.clock.set(end - 1_800)
      try await harness.service.configuredApps.write()
      let tester = UUID()
      let bought = try harness.buy(token: tester, in: .sandbox)
      #expect(try await harness.notify(bought.notification.signedPayload).status == 200)
      #expect(try await harness.profileRow(of: tester)?.product == TestApps.monthly)
      #expect(try await Self.supportSees(tester.uuidString.lowercased(), harness))
      let family = try harness.buy(TestApps.individual, bundleID: TestApps.family, in: .sandbox)
      for device in ["phone", "tablet"] { _ = try await harness.device(device, shows: family) }
      #expect(try await Self.supportSees("tablet", harness))

      // The job does nothing before the end.
      try await harness.service.configuredApps.closeWindows()
      #expect(try await Self.supportSees("tablet", harness))
      harness.clock.set(end)
      // A run that fails is repeated.
      let pool = harness.service.pool
      _ = try await pool.query("ALTER TABLE subscriptions ADD CONSTRAINT refused CHECK (false) NOT VALID")
      await #expect(throws: PostgresError.self) { try await harness.service.configuredApps.closeWindows() }
      _ = try await pool.query("ALTER TABLE subscriptions DROP CONSTRAINT refused")
      try await harness.service.configuredApps.closeWindows()
      harness.clock.advance(seconds: 1)
      try await harness.service.sweepEverything()
      #expect(try await harness.profileRow(of: tester)?.product == nil)
      #expect(try await harness.isPremiumInPreferences(tester) == false)
      for customer in [tester.uuidString.lowercased(), "phone", "tablet"] {
        #expect(try await !Self.supportSees(customer, harness))
      }
    }
  }

  @Test func `nothing of it is in the business numbers`() async throws {
    let configuration = try Self.screenTime(until: Date() + 3 * 365 * 86_400)
    try await withHarness(configuration: configuration) { harness in
      try harness.becomes("03-01")
      #expect(try await harness.launch("tester", account: "tester", in: .sandbox).status == 201)
      let bought = try await harness.account("tester", buys: ScreenTime.individual, in: .sandbox)
      let shown = try await harness.device("tester", shows: bought)
      #expect(shown.bool("entitlements.isAccessGranted") == true)
      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      harness.clock.advance(seconds: 1)
      #expect(try await harness.service.numbers.counter.count(harness.day("03-01")) == 0)
      #expect(try await harness.everythingCounted() == [])
      let scrape = try await harness.scrape()
      for name in ["purchases", "charges", "refunds", "trials_started", "trials_converted"] {
        #expect(scrape.counts("receiptd_\(name)_total").isEmpty, "\(name)")
      }
    }
  }

  @Test func `doctor reminds of an open window and warns of one that has ended`() async throws {
    let end = Date(timeIntervalSince1970: 1_900_000_000)
    try await withHarness(configuration: TestApps.configuration(sandboxGrants: Self.window(until: end))) {
      harness in
      func result(at instant: Date) async throws -> CheckResult {
        var results: [CheckResult] = []
        let doctor = Doctor(environment: harness.environment, clock: ServiceClock { instant })
        _ = await doctor.check { results.append($0) }
        return try #require(results.first { $0.subject == "sandbox of \(TestApps.climbing)" })
      }
      let open = try await result(at: end - 1)
      #expect(open.isOK && !open.isWarning)
      #expect(open.line.hasPrefix("ok    sandbox of"))
      #expect(open.line.contains("until 2030-03-17T17:46:40Z"))
      let over = try await result(at: end)
      #expect(over.isOK && over.isWarning)
      #expect(over.line.hasPrefix("warn  sandbox of"))
      #expect(over.line.contains("ended at 2030-03-17T17:46:40Z; set sandboxGrants to nobody"))
    }
  }
}
