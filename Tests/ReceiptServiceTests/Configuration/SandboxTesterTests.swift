import AppStore
import AppStoreSimulator
import Configuration
import Foundation
import HTTP
import HTTPTypes
import Postgres
import Testing

@testable import ReceiptService
@testable import Support

/// `sandboxGrants` applies at every instant: a tester that is removed from the list loses the sandbox access.
@Suite struct SandboxTesterTests {
  private static let secrets = [
    "SWIFTCLIMB_JWT_SECRET": Harness.secret, "THAQALAYN_JWT_SECRET": Harness.secret,
  ]

  /// The shipped apps with these testers.
  private static func screenTime(testers: String) throws -> String {
    try ScreenTime.configuration().replacing(
      #""sandboxGrants": "nobody""#, with: #""sandboxGrants": \#(testers)"#)
  }

  /// The test apps with these testers, and an award for owners from before October 2025.
  private static func climbing(testers: String) -> String {
    TestApps.configuration(sandboxGrants: testers).replacing(
      #""free": { "features": { "insights""#,
      with: #""grandfather": { "before": "2025-10-07T00:00:00Z", "tier": "premium" }, "#
        + #""free": { "features": { "insights""#)
  }

  /// Starts a server with another configuration and runs its jobs once.
  private static func reload(
    _ configuration: String, in harness: Harness, _ body: (SocketAddress) async throws -> Void
  ) async throws {
    let service = try await harness.service(configuration: configuration, settings: secrets)
    await service.writeConfiguredApps()
    harness.clock.advance(seconds: 1)
    try await service.sweepEverything()
    do {
      try await harness.serving(service, body)
    } catch {
      await service.close()
      throw error
    }
    await service.close()
  }

  private static func hasAccess(_ customer: String, _ harness: Harness) async throws -> Bool {
    let rows = try await harness.pool.query(
      "SELECT has_access FROM support_customers WHERE customer = \(customer)")
    return try rows.first?.decode("has_access") ?? false
  }

  private static func isNoted(_ device: String, _ harness: Harness) async throws -> Bool {
    let rows = try await harness.pool.query(
      "SELECT 1 FROM outbox WHERE destination = 'cloudkit' AND key = \(device) AND done_at IS NULL")
    _ = try await harness.pool.query("UPDATE outbox SET done_at = created_at")
    return !rows.isEmpty
  }

  private static func status(
    _ device: String, _ harness: Harness, at address: SocketAddress
  ) async throws -> String? {
    try await harness.send(
      .get, "/api/v1/devices/\(device)/entitlements?bundleID=\(ScreenTime.bundleID)", to: address
    ).string("entitlements.status")
  }

  @Test func `a tester that is removed from sandboxGrants has no sandbox trial until listed again`()
    async throws
  {
    let listed = try Self.screenTime(testers: #"["PHONE"]"#)
    try await withHarness(configuration: listed, environment: Self.secrets) { harness in
      // The views use the database's clock.
      harness.clock.advance(seconds: -60)
      #expect(try await harness.launch("phone", account: "anna", in: .sandbox).status == 201)
      #expect(try await harness.entitlements("phone").string("entitlements.status") == "trial")
      #expect(try await Self.hasAccess("phone", harness))
      _ = try await Self.isNoted("phone", harness)

      try await Self.reload(Self.screenTime(testers: #"["another"]"#), in: harness) {
        (address: SocketAddress) async throws in
        #expect(try await Self.status("phone", harness, at: address) == "expired")
        #expect(try await !Self.hasAccess("phone", harness))
        #expect(try await Self.isNoted("phone", harness))
      }
      try await Self.reload(listed, in: harness) { (address: SocketAddress) async throws in
        #expect(try await Self.status("phone", harness, at: address) == "trial")
        #expect(try await Self.hasAccess("phone", harness))
        #expect(try await Self.isNoted("phone", harness))
      }
    }
  }

  @Test func `a sandbox trial does not use up the device's production trial`() async throws {
    let listed = try Self.screenTime(testers: #"["phone"]"#)
    try await withHarness(configuration: listed, environment: Self.secrets) { harness in
      harness.clock.advance(days: -41)
      _ = try await harness.launch("phone", account: "anna", in: .sandbox)
      harness.clock.advance(days: 40)
      try await Self.reload(Self.screenTime(testers: #""nobody""#), in: harness) {
        (address: SocketAddress) async throws in
        let signed = try harness.store.appTransaction(of: ScreenTime.bundleID, accountID: "anna").signed
        let body = [
          "deviceID": "phone", "bundleID": ScreenTime.bundleID, "signedAppTransaction": signed,
        ]
        let launched = try await harness.send(
          .post, "/api/v1/trials", json: String(decoding: JSONEncoder().encode(body), as: UTF8.self),
          to: address)
        #expect(launched.status == 201)
        #expect(launched.date("trial.endsAt") == harness.clock.now + 30 * ScreenTime.day)
        #expect(try await Self.status("phone", harness, at: address) == "trial")
        #expect(try await Self.hasAccess("phone", harness))
      }
      // The tester has both; support extends the one that counts.
      let ada = try #require(Harness.ada)
      let extended = try await harness.desk.extendTrial(
        of: "phone", bundleID: ScreenTime.bundleID, days: 7, by: ada)
      #expect(extended.endsAt > harness.clock.now + 30 * ScreenTime.day)
    }
  }

  @Test
  func `a tester that is removed from sandboxGrants has no sandbox grandfather grant until listed again`()
    async throws
  {
    let tester = UUID()
    let listed = Self.climbing(testers: #"["\#(tester.uuidString)"]"#)
    try await withHarness(configuration: listed) { harness in
      func show(_ environment: AppStore.Environment, to address: SocketAddress) async throws -> Answer {
        var download = AppTransaction(
          bundleId: TestApps.climbing, receiptType: environment, receiptCreationDate: harness.clock.now)
        download.appAppleId = environment == .production ? 1_500_000_001 : 0
        download.originalPurchaseDate = Date(timeIntervalSince1970: 1_700_000_000)
        download.appTransactionId = "704000000000001"
        let signed = try harness.store.identity.authority.signer.sign(download)
        return try await harness.send(
          .put, "/api/v1/profiles/\(tester.uuidString.lowercased())/premium",
          json: #"{"signedAppTransaction": "\#(signed)"}"#, token: harness.token(for: tester), to: address)
      }
      func isPremium(_ address: SocketAddress) async throws -> Bool? {
        try await harness.send(
          .get, "/api/v1/profiles/\(tester.uuidString.lowercased())/premium",
          token: harness.token(for: tester), to: address
        ).bool("isPremium")
      }
      let id = tester.uuidString.lowercased()
      harness.clock.advance(seconds: -60)
      #expect(try await show(.sandbox, to: harness.address).bool("isPremium") == true)
      #expect(try await harness.isPremiumInPreferences(tester) == true)

      try await Self.reload(Self.climbing(testers: #""nobody""#), in: harness) {
        (address: SocketAddress) async throws in
        #expect(try await isPremium(address) == false)
        #expect(try await harness.profileRow(of: tester)?.product == nil)
        #expect(try await harness.isPremiumInPreferences(tester) == false)
        #expect(try await !Self.hasAccess(id, harness))
        #expect(try await show(.sandbox, to: address).bool("isPremium") == false)
      }
      try await Self.reload(listed, in: harness) { (address: SocketAddress) async throws in
        #expect(try await isPremium(address) == true)
        #expect(try await harness.profileRow(of: tester)?.product == "grant:premium")
        #expect(try await Self.hasAccess(id, harness))
      }
      // A production app transaction of the same account gives an award of its own.
      try await Self.reload(Self.climbing(testers: #""nobody""#), in: harness) {
        (address: SocketAddress) async throws in
        #expect(try await isPremium(address) == false)
        #expect(try await show(.production, to: address).bool("isPremium") == true)
        #expect(try await harness.profileRow(of: tester)?.product == "grant:premium")
        #expect(try await Self.hasAccess(id, harness))
      }
    }
  }

  @Test func `the rows of a sandbox purchase follow the testers of sandboxGrants`() async throws {
    let tester = UUID()
    let listed = TestApps.configuration(sandboxGrants: #"["\#(tester.uuidString)"]"#)
    try await withHarness(configuration: listed) { harness in
      harness.clock.advance(seconds: -60)
      let bought = try harness.buy(token: tester, in: .sandbox)
      #expect(try await harness.notify(bought.notification.signedPayload).status == 200)
      #expect(try await harness.profileRow(of: tester)?.product == TestApps.monthly)
      let id = tester.uuidString.lowercased()
      #expect(try await Self.hasAccess(id, harness))
      try await Self.reload(TestApps.json, in: harness) { (_: SocketAddress) async throws in
        #expect(try await harness.profileRow(of: tester)?.product == nil)
        #expect(try await !Self.hasAccess(id, harness))
      }
      try await Self.reload(listed, in: harness) { (_: SocketAddress) async throws in
        #expect(try await harness.profileRow(of: tester)?.product == TestApps.monthly)
        #expect(try await Self.hasAccess(id, harness))
      }
    }
  }
}
