import Actions
import AppStore
import AppStoreSimulator
import Configuration
import Foundation
import Postgres
import Subscriptions
import Testing

@testable import Adoption
@testable import ReceiptService
@testable import Support

/// Rows from before receiptd whose claims `receiptd adopt` has not decided yet.
@Suite struct UndecidedClaimTests {
  private static func sync(
    _ live: LiveApps, _ bought: SignedOutcome, as user: UUID, of app: String = "swiftclimb"
  ) async throws {
    let token = try await live.harness.token(for: user) { $0.iss = "https://\(app).supabase.co/auth/v1" }
    let answer = try await live.harness.sync([bought.signedTransaction], user: user, token: token)
    #expect(answer.status == 200)
  }

  @Test func `a purchase that does not count leaves the claim of a legacy profile`() async throws {
    try await LiveApps.with { live in
      let legacy = try live.buy()
      try await live.setProfile(
        live[2], legacy.originalTransactionID, until: legacy.transaction.expiresDate)
      try await live.setProfile(live[3], "2999999999999999", until: live.harness.clock.now - 86_400)
      let rows = [try await live.profile(live[2]), try await live.profile(live[3])]
      for user in [live[2], live[3]] {
        let sandbox = try live.harness.buy(
          SwiftClimb.monthly, bundleID: SwiftClimb.bundleID, in: .sandbox)
        try await Self.sync(live, sandbox, as: user)
      }
      #expect([try await live.profile(live[2]), try await live.profile(live[3])] == rows)
      let reports = try await live.harness.service.adoption.adopt(
        bundleID: SwiftClimb.bundleID, isDryRun: false)
      #expect(reports.first?.outcomes == ["bound": 1, "unknown": 1])
      #expect(try await live.profile(live[2]) == rows[0])
      #expect(try await live.profile(live[3]) == ProfileRow())
    }
  }

  @Test func `a purchase that does not count leaves a claim without a transaction id`() async throws {
    try await LiveApps.with { live in
      let end = live.harness.clock.now + 20 * 86_400
      try await live.setProfile(live[2], nil, until: end)
      let sandbox = try live.harness.buy(SwiftClimb.monthly, bundleID: SwiftClimb.bundleID, in: .sandbox)
      try await Self.sync(live, sandbox, as: live[2])
      #expect(try await live.profile(live[2]).expiresAt == end)
      let other = try live.harness.buy(Thaqalayn.tafsir, bundleID: Thaqalayn.bundleID, in: .sandbox)
      try await Self.sync(live, other, as: live[6], of: "thaqalayn")
      #expect(try await live.harness.isPremiumInPreferences(live[6]) == true)
      let climb = try await live.harness.service.adoption.adopt(
        bundleID: SwiftClimb.bundleID, isDryRun: false)
      #expect(climb.first?.outcomes == ["awarded": 1])
      let tafsir = try await live.harness.service.adoption.adopt(
        bundleID: Thaqalayn.bundleID, isDryRun: false)
      #expect(tafsir.first?.outcomes == ["awarded": 3])
      #expect(try await live.profile(live[2]).expiresAt == end)
    }
  }

  @Test func `a short grant leaves a legacy profile with a longer time`() async throws {
    try await LiveApps.with { live in
      let legacy = try live.buy()
      try await live.setProfile(
        live[1], legacy.originalTransactionID, until: legacy.transaction.expiresDate)
      let row = try await live.profile(live[1])
      for user in [live[1], live[2]] {
        _ = try await live.harness.desk.grant(
          to: user.uuidString, bundleID: SwiftClimb.bundleID, tier: "premium", days: 1,
          by: SupportAuthor.adoption("test"), isForced: true)
      }
      #expect(try await live.profile(live[1]) == row)
      #expect(try await live.profile(live[2]).product == "grant:premium")
      // The end of the grant writes free, and only over the grant.
      live.harness.clock.advance(days: 2)
      try await live.harness.service.sweepEverything()
      #expect(try await live.profile(live[1]) == row)
      #expect(try await live.profile(live[2]).product == nil)
    }
  }

  @Test func `a purchase that moves takes premium from its former customer, also in a table that existed`()
    async throws
  {
    try await LiveApps.with { live in
      for (user, product, bundleID) in [
        (live[1], SwiftClimb.monthly, SwiftClimb.bundleID), (live[8], Thaqalayn.tafsir, Thaqalayn.bundleID),
      ] {
        let bought = try live.buy(product, bundleID: bundleID, token: user)
        try await live.harness.arrives(bought)
        _ = try await live.harness.desk.transfer(
          bought.originalTransactionID, to: live[9].uuidString, by: SupportAuthor.adoption("test"),
          isForced: true)
      }
      #expect(try await live.profile(live[1]) == ProfileRow())
      #expect(try await live.profile(live[9]).product == SwiftClimb.monthly)
      #expect(try await live.harness.isPremiumInPreferences(live[8]) == false)
      #expect(try await live.harness.isPremiumInPreferences(live[9]) == true)
    }
  }

  @Test func `noted claims look up each profile by its key, also before the tables have statistics`()
    async throws
  {
    try await LiveApps.with { live in
      let statements: [Query] = [
        "ALTER TABLE adoptions SET (autovacuum_enabled = off)",
        "ALTER TABLE profiles SET (autovacuum_enabled = off)",
        "INSERT INTO auth.users (id) SELECT gen_random_uuid() FROM generate_series(1, 6000)",
        "INSERT INTO profiles (id) SELECT id FROM auth.users ON CONFLICT DO NOTHING", "ANALYZE profiles",
        """
        INSERT INTO adoptions (bundle_id, customer, original_transaction_id, source, outcome, at)
        SELECT \(SwiftClimb.bundleID)::text, id, '1' || row_number() OVER (), 'profiles', 'failed', now() FROM profiles
        """,
      ]
      for statement in statements { _ = try await live.pool.query(statement) }
      let app = try #require(live.harness.service.catalog[SwiftClimb.bundleID])
      let decided = AdoptionRows.decided(in: app, after: ("", ""), at: live.harness.clock.now)
      let plan = try await live.pool.query("EXPLAIN (ANALYZE, TIMING off) \(decided)").map {
        try $0.decode("QUERY PLAN", as: String.self)
      }
      // PostgreSQL 18 writes 1000.00.
      #expect(plan.contains { $0.contains(/rows=1000[ .]/) }, "\(plan)")
      let scans = plan.compactMap { $0.firstMatch(of: /Seq Scan on profiles.* loops=(\d+)/)?.1 }
      #expect(scans.allSatisfy { $0 == "1" }, "\(plan)")
    }
  }
}
