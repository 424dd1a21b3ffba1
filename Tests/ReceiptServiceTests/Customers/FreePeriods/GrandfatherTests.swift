import AppStore
import AppStoreSimulator
import Configuration
import Foundation
import HTTPTypes
import Postgres
import Subscriptions
import Testing

@testable import Customers
@testable import Deliveries
@testable import Ledger
@testable import ReceiptService
@testable import Support

@Suite struct GrandfatherTests {
  private static func configuration(sandboxGrants: String = #""nobody""#) -> String {
    TestApps.configuration(sandboxGrants: sandboxGrants).replacing(
      #""free": { "features": { "insights""#,
      with: #""grandfather": { "before": "2025-10-07T00:00:00Z", "tier": "premium" }, "#
        + #""free": { "features": { "insights""#)
  }

  private static let dayBefore = Date(timeIntervalSince1970: 1_759_708_800)
  private static let theDay = Date(timeIntervalSince1970: 1_759_795_200)

  private func download(
    _ harness: Harness, account: String? = "704000000000001", at date: Date?, preorder: Date? = nil,
    in environment: AppStore.Environment = .production
  ) throws -> String {
    var info = AppTransaction(
      bundleId: TestApps.climbing, receiptType: environment, receiptCreationDate: harness.clock.now)
    info.appAppleId = environment == .production ? 1_500_000_001 : 0
    info.originalPurchaseDate = date
    info.preorderDate = preorder
    info.appTransactionId = account
    return try harness.store.identity.authority.signer.sign(info)
  }

  private func show(_ download: String, _ user: UUID, to harness: Harness) async throws -> Answer {
    let answer = try await harness.send(
      .put, "/api/v1/profiles/\(user.uuidString.lowercased())/premium",
      json: #"{"signedAppTransaction": "\#(download)"}"#, token: harness.token(for: user))
    #expect(answer.status == 200)
    return answer
  }

  @Test
  func `a user with a download from before the date gets premium without end, one user per Apple Account`()
    async throws
  {
    try await withHarness(configuration: Self.configuration()) { harness in
      let anna = UUID()
      let boris = UUID()
      let old = try download(harness, at: Self.dayBefore)
      let answer = try await show(old, anna, to: harness)
      #expect(answer.bool("isPremium") == true)
      #expect(answer.isNull("premiumExpiresAt"))
      #expect(answer.string("premiumProductID") == "grant:premium")
      #expect(try await harness.isPremiumInPreferences(anna) == true)
      #expect(try await show(old, boris, to: harness).bool("isPremium") == false)
      for _ in 0..<3 { _ = try await show(old, anna, to: harness) }
      let grants = try await harness.pool.query("SELECT reason, granted_by, ends_at FROM grants")
      #expect(grants.count == 1)
      #expect(try grants[0].decode("reason", as: String.self) == "had the app before 2025-10-07T00:00:00Z")
      #expect(try grants[0].decode("ends_at", as: Date?.self) == nil)
      let action = Harness.Action(
        action: "grandfather", from: nil, to: anna.uuidString.lowercased(), by: "grandfather",
        reason: "had the app before 2025-10-07T00:00:00Z")
      #expect(try await harness.actions() == [action])
    }
  }

  @Test func `another customer's purchase in the same request does not prevent the grandfather grant`()
    async throws
  {
    try await withHarness(configuration: Self.configuration()) { harness in
      let (anna, boris) = (UUID(), UUID())
      let purchase = try harness.buy().signedTransaction
      #expect(try await harness.sync([purchase], user: anna, token: harness.token(for: anna)).status == 200)
      let old = try download(harness, at: Self.dayBefore)
      let answer = try await harness.send(
        .put, "/api/v1/profiles/\(boris.uuidString.lowercased())/premium",
        json: #"{"signedTransactions": ["\#(purchase)"], "signedAppTransaction": "\#(old)"}"#,
        token: harness.token(for: boris))
      #expect(answer.status == 409)
      #expect(answer.code == "belongs_to_another_customer")
      #expect(try await harness.isPremiumInPreferences(boris) == true)
    }
  }

  @Test
  func `the grandfather grant needs a production download or preorder of an Apple Account before the date`()
    async throws
  {
    try await withHarness(configuration: Self.configuration()) { harness in
      let cases: [(String, Bool)] = [
        (try download(harness, account: "1", at: Self.theDay), false),
        (try download(harness, account: "2", at: Self.theDay - 0.001), true),
        (try download(harness, account: "3", at: Self.theDay + 60, preorder: Self.dayBefore), true),
        (try download(harness, account: nil, at: Self.dayBefore), false),
        (try download(harness, account: "4", at: nil), false),
        (try download(harness, account: "5", at: Self.dayBefore, in: .sandbox), false),
      ]
      for (index, (download, expected)) in cases.enumerated() {
        #expect(
          try await show(download, UUID(), to: harness).bool("isPremium") == expected, "case \(index)")
      }
    }
  }

  @Test func `only testers get the grandfather grant in the sandbox`() async throws {
    let tester = UUID()
    let configuration = Self.configuration(sandboxGrants: #"["\#(tester.uuidString)"]"#)
    try await withHarness(configuration: configuration) { harness in
      let old = try download(harness, at: Self.dayBefore, in: .sandbox)
      #expect(try await show(old, UUID(), to: harness).bool("isPremium") == false)
      #expect(try await show(old, tester, to: harness).bool("isPremium") == true)
    }
  }

  @Test func `ten concurrent users with one Apple Account get one grandfather grant`() async throws {
    try await withHarness(configuration: Self.configuration()) { harness in
      let old = try download(harness, at: Self.dayBefore)
      let premium = try await withThrowingTaskGroup(of: Bool.self) { group in
        for _ in 0..<10 {
          group.addTask { try await show(old, UUID(), to: harness).bool("isPremium") == true }
        }
        return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
      }
      #expect(premium == 1)
      #expect(try await harness.count("grants") == 1)
    }
  }

  @Test func `the grandfather command grants once by the sign-up date, and not again after a revocation`()
    async throws
  {
    try await withHarness(configuration: Self.configuration()) { harness in
      let ada = try #require(Harness.ada)
      _ = try await harness.pool.query(
        "ALTER TABLE profiles ADD COLUMN created_at timestamptz NOT NULL DEFAULT now()")
      _ = try await harness.pool.query(
        "UPDATE client_write_modes SET had_clients = true WHERE table_name = 'user_preferences'")
      _ = try await harness.pool.query(
        """
        INSERT INTO profiles (id, created_at)
        SELECT gen_random_uuid(), \(Self.dayBefore)::timestamptz + (g % 2) * interval '1 day'
        FROM generate_series(1, 1000) AS g
        """)
      let dry = try await harness.service.grandfather(isDryRun: true)
      #expect(dry.map(\.found) == [500])
      #expect(try await harness.count("grants") == 0)

      async let first = harness.service.grandfather(isDryRun: false)
      async let second = harness.service.grandfather(isDryRun: false)
      let awarded = try await (first, second)
      #expect((awarded.0 + awarded.1).map(\.awarded).reduce(0, +) == 500)
      #expect(try await harness.count("grants") == 500)
      let premium = try await harness.pool.query(
        "SELECT count(*) FROM profiles WHERE premium_product_id = 'grant:premium' AND created_at < \(Self.theDay)"
      )
      #expect(try premium[0].decode("count", as: Int.self) == 500)

      let grant = try await harness.pool.query("SELECT id, user_id FROM grants LIMIT 1")[0]
      _ = try await harness.desk.revokeGrant(grant.decode("id"), by: ada)
      let again = try await harness.service.grandfather(isDryRun: false)
      #expect(again.map(\.awarded) == [0])
      #expect(try await harness.isPremium(grant.decode("user_id")) == false)

      // A user with a grant by the row who then proves an Apple Account uses up that account's grant.
      let user = try await harness.pool.query("SELECT user_id FROM grants WHERE revoked_at IS NULL LIMIT 1")[
        0
      ]
      .decode("user_id", as: UUID.self)
      let old = try download(harness, at: Self.dayBefore)
      _ = try await show(old, user, to: harness)
      #expect(try await show(old, UUID(), to: harness).bool("isPremium") == false)
    }
  }

  @Test func `the grandfather command leaves out a user whose lock is held, and says so`() async throws {
    try await withHarness(configuration: Self.configuration()) { harness in
      _ = try await harness.pool.query(
        "ALTER TABLE profiles ADD COLUMN created_at timestamptz NOT NULL DEFAULT now()")
      let users = (0..<LockedGroups.size * 2).map { _ in UUID() }
      _ = try await harness.pool.query(
        "INSERT INTO profiles (id, created_at) SELECT id, \(Self.dayBefore)::timestamptz FROM unnest(\(users)::uuid[]) AS id"
      )
      let reports = try await harness.pool.withTransaction { connection in
        _ = try await connection.query(CustomerStatusWriter.lock([.user(users[0])]))
        return try await harness.service.grandfather(isDryRun: false)
      }
      #expect(reports.map(\.awarded) == [users.count - 1])
      #expect(reports[0].problems.contains { $0.hasPrefix("1 user was not awarded") })
      let again = try await harness.service.grandfather(isDryRun: false)
      #expect(again.map(\.awarded) == [1])
      #expect(again[0].problems.allSatisfy { !$0.contains("not awarded") })
    }
  }

  @Test func `the grandfather command reports that no table has a sign-up date`() async throws {
    try await withHarness(configuration: Self.configuration()) { harness in
      let reports = try await harness.service.grandfather(isDryRun: false)
      #expect(reports.map(\.problems.count) == [2])
      #expect(
        reports[0].description.contains(
          "the users' sign-up dates are unknown: this role can read a column created_at neither in profiles"))
      _ = try await harness.pool.query("CREATE SCHEMA auth")
      _ = try await harness.pool.query(
        "CREATE TABLE auth.users (id uuid PRIMARY KEY, created_at timestamptz)")
      let user = UUID()
      _ = try await harness.pool.query("INSERT INTO auth.users VALUES (\(user), \(Self.dayBefore))")
      _ = try await harness.pool.query("INSERT INTO user_preferences (user_id) VALUES (\(user))")
      let known = try await harness.service.grandfather(isDryRun: false)
      #expect(known.map(\.awarded) == [1])
      #expect(try await harness.isPremiumInPreferences(user) == true)
    }
  }
}
