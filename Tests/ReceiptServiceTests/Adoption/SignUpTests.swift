import Actions
import Foundation
import Postgres
import Testing

@testable import Adoption
@testable import ReceiptService
@testable import Support

/// Clients' first rows in tables whose premium columns have other defaults than receiptd's.
@Suite struct SignUpTests {
  /// Runs a test where sign-ups get values of the app.
  private static func with(_ mode: String, _ body: (LiveApps) async throws -> Void) async throws {
    try await LiveApps.with([SwiftClimb.bundleID: mode, Thaqalayn.bundleID: mode]) { live in
      try await LiveTables.run(
        """
        ALTER TABLE profiles ALTER premium_product_id SET DEFAULT 'free',
          ALTER premium_original_transaction_id SET DEFAULT '';
        DELETE FROM profiles WHERE id IN ('\(live[4])', '\(live[9])');
        ALTER TABLE user_preferences ALTER is_premium DROP DEFAULT, ALTER bookmark_limit SET DEFAULT 5;
        """, on: live.pool)
      try await body(live)
    }
  }

  private static func limit(_ live: LiveApps, _ user: UUID) async throws -> Int? {
    try await live.pool.query("SELECT bookmark_limit FROM user_preferences WHERE user_id = \(user)")[0]
      .decode("bookmark_limit")
  }

  @Test(arguments: ["accept", "observe", "refuse"])
  func `a row of user_preferences with the columns' defaults claims no premium`(mode: String) async throws {
    try await Self.with(mode) { live in
      let user = live[9]
      try await live.signsUp(user)
      #expect(try await live.readsIsPremium(user) == false)
      #expect(try await Self.limit(live, user) == 5)
      #expect(try await live.clientWrites().isEmpty)
    }
  }

  @Test func `any other value of a premium column of user_preferences fails in refuse`() async throws {
    try await Self.with("refuse") { live in
      let user = live[9]
      for values in ["true, DEFAULT", "DEFAULT, 999", "false, NULL", "false, 6"] {
        let insertion =
          "INSERT INTO user_preferences (user_id, is_premium, bookmark_limit) VALUES ('\(user)', \(values))"
        #expect(try await live.isRefused { try await live.run(insertion, as: user) }, "\(values)")
      }
      // The value of an expression is not known.
      _ = try await live.pool.query(
        "ALTER TABLE user_preferences ALTER bookmark_limit SET DEFAULT length('12345')")
      #expect(try await live.isRefused { try await live.signsUp(user) })
      _ = try await live.pool.query("ALTER TABLE user_preferences ALTER bookmark_limit DROP DEFAULT")
      try await live.signsUp(user)
      #expect(try await Self.limit(live, user) == nil)
    }
  }

  @Test(arguments: ["observe", "refuse"])
  func `a profile with the columns' defaults becomes free and claims nothing`(mode: String) async throws {
    try await Self.with(mode) { live in
      let (user, granted) = (live[9], live[4])
      try await live.run("INSERT INTO profiles (id, handle) VALUES ('\(user)', 'ann')", as: user)
      #expect(try await live.profile(user) == ProfileRow())
      #expect(try await live.handle(user) == "ann")
      // receiptd added the row, and it keeps its status.
      _ = try await live.harness.desk.grant(
        to: granted.uuidString, bundleID: SwiftClimb.bundleID, tier: "premium", days: 30,
        by: SupportAuthor(by: .operatorNamed("ben"), reason: "ticket 811"))
      try await live.run("INSERT INTO profiles (id, handle) VALUES ('\(granted)', 'ben')", as: granted)
      #expect(try await live.profile(granted).product == "grant:premium")
      #expect(try await live.handle(granted) == "ben")
      #expect(try await live.clientWrites().isEmpty)
      #expect(try await live.adopt().claims == 0)
    }
  }

  @Test(arguments: ["observe", "refuse"])
  func `an upsert that writes back the defaults of a stored row passes and is no client's write`(mode: String)
    async throws
  {
    try await Self.with(mode) { live in
      let user = live[9]
      _ = try await live.pool.query(
        "INSERT INTO profiles (id, handle, premium_product_id, premium_original_transaction_id) VALUES (\(user), 'ann', 'free', '')"
      )
      try await live.run(
        """
        INSERT INTO profiles (id, handle, premium_product_id, premium_original_transaction_id) \
        VALUES ('\(user)', 'bea', 'free', '') ON CONFLICT (id) DO UPDATE SET handle = excluded.handle, \
        premium_product_id = excluded.premium_product_id, \
        premium_original_transaction_id = excluded.premium_original_transaction_id
        """, as: user)
      #expect(try await live.handle(user) == "bea")
      #expect(try await live.clientWrites().isEmpty)
    }
  }

  @Test func `any other value of a premium column of profiles fails in refuse`() async throws {
    try await Self.with("refuse") { live in
      let user = live[9]
      for values in ["'2099-01-01', DEFAULT, DEFAULT", "NULL, 'paid', DEFAULT", "NULL, DEFAULT, '1'"] {
        let insertion = """
          INSERT INTO profiles (id, premium_expires_at, premium_product_id, premium_original_transaction_id) \
          VALUES ('\(user)', \(values))
          """
        let isRefused = try await live.isRefused { try await live.run(insertion, as: user) }
        #expect(isRefused, "\(values)")
      }
    }
  }
}
