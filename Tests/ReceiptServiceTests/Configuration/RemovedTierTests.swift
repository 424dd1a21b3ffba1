import Foundation
import HTTPTypes
import Postgres
import Testing

@testable import ReceiptService
@testable import Support

/// A grant of a tier that was removed from the configuration.
@Suite struct RemovedTierTests {
  /// `premium` has become `gold`.
  private static let renamed = TestApps.json.replacing(#""premium""#, with: #""gold""#)

  private func granted(_ harness: Harness) async throws -> UUID {
    let user = UUID()
    let ada = try #require(Harness.ada)
    harness.clock.advance(seconds: -60)
    _ = try await harness.desk.grant(
      to: user.uuidString, bundleID: TestApps.climbing, tier: "premium", days: 30, by: ada, isForced: true)
    #expect(try await harness.profileRow(of: user)?.product == "grant:premium")
    return user
  }

  /// The row of a user in `support_customers`.
  private struct Seen: Equatable {
    var hasAccess: Bool
    var openGrants: Int
  }

  private func seen(_ user: UUID, _ harness: Harness) async throws -> Seen {
    let row = try await harness.pool.query(
      "SELECT has_access, open_grants FROM support_customers WHERE user_id = \(user)")[0]
    return Seen(hasAccess: try row.decode("has_access"), openGrants: try row.decode("open_grants"))
  }

  @Test
  func
    `a grant of a removed tier gives no access in the response, the view and the profile, and the log names it`()
    async throws
  {
    try await withHarness { harness in
      let user = try await granted(harness)
      #expect(try await seen(user, harness) == Seen(hasAccess: true, openGrants: 1))
      harness.clock.advance(seconds: 1)
      let log = LogLines()
      let other = try await harness.service(configuration: Self.renamed, log: log)
      await other.writeConfiguredApps()
      let lines = log.all.filter { $0.contains("tier") && $0.contains("premium") }
      #expect(lines.count == 1)
      #expect(lines.first?.contains(TestApps.climbing) == true)
      #expect(try await seen(user, harness) == Seen(hasAccess: false, openGrants: 0))
      try await other.sweepEverything()
      #expect(try await harness.profileRow(of: user)?.product == nil)
      #expect(try await harness.isPremiumInPreferences(user) == false)
      try await harness.serving(other) { address in
        let answer = try await harness.send(
          .get, "/api/v1/profiles/\(user.uuidString.lowercased())/premium",
          token: harness.token(for: user), to: address)
        #expect(answer.bool("isPremium") == false)
      }
      await other.close()

      // The tier comes back.
      harness.clock.advance(seconds: 1)
      await harness.service.writeConfiguredApps()
      #expect(try await seen(user, harness) == Seen(hasAccess: true, openGrants: 1))
      try await harness.service.sweepEverything()
      #expect(try await harness.profileRow(of: user)?.product == "grant:premium")
    }
  }

  @Test func `a profile loses a removed tier even if a server with the old configuration sweeps in between`()
    async throws
  {
    try await withHarness { harness in
      let user = try await granted(harness)
      harness.clock.advance(seconds: 1)
      let first = try await harness.service(configuration: Self.renamed)
      await first.writeConfiguredApps()
      // The other server sweeps first, with the old configuration, and then reloads.
      try await harness.service.sweepEverything()
      harness.clock.advance(seconds: 1)
      let second = try await harness.service(configuration: Self.renamed)
      await second.writeConfiguredApps()
      try await second.sweepEverything()
      #expect(try await harness.profileRow(of: user)?.product == nil)
      #expect(try await seen(user, harness) == Seen(hasAccess: false, openGrants: 0))
      await first.close()
      await second.close()
    }
  }

  @Test func `the doctor reports open grants of a removed tier`() async throws {
    try await withHarness { harness in
      _ = try await granted(harness)
      _ = try await granted(harness)
      let file = FileManager.default.temporaryDirectory.appending(path: "doctor-\(UUID()).json")
      try Data(Self.renamed.utf8).write(to: file)
      defer { try? FileManager.default.removeItem(at: file) }
      var lines: [String] = []
      let environment = harness.environment.merging(["RECEIPTD_CONFIG": file.path]) { _, new in new }
      _ = await Doctor(environment: environment).check { if !$0.isOK { lines.append($0.line) } }
      #expect(lines.contains { $0.contains("grants: 2 of com.example.climbing have the tier 'premium'") })
      lines = []
      _ = await Doctor(environment: harness.environment).check { if !$0.isOK { lines.append($0.line) } }
      #expect(lines == [])
    }
  }
}
