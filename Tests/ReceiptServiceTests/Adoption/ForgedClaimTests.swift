import Actions
import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import Testing

@testable import Adoption
@testable import ReceiptService
@testable import Support

/// Rows of `profiles` that a client made look like another kind of row, so that `receiptd adopt` gives an award or
/// leaves them.
@Suite struct ForgedClaimTests {
  private static func id(_ user: UUID) -> String { user.uuidString.lowercased() }

  // MARK: Foreign keys

  /// Adds a table whose rows clients may delete, and to which the transaction id refers.
  private static func addReceipts(_ live: LiveApps, with id: String) async throws {
    try await LiveTables.run(
      """
      CREATE TABLE public.receipts (id text PRIMARY KEY);
      GRANT SELECT, DELETE ON receipts TO authenticated;
      INSERT INTO receipts VALUES ('\(id)');
      ALTER TABLE profiles ADD CONSTRAINT receipt FOREIGN KEY (premium_original_transaction_id)
        REFERENCES receipts ON DELETE SET NULL;
      """, on: live.pool)
  }

  @Test func `a claim of a client whose transaction id a foreign key removes gets no award`() async throws {
    try await LiveApps.with([SwiftClimb.bundleID: "accept"]) { live in
      let bought = try live.buy()
      try await Self.addReceipts(live, with: bought.originalTransactionID)
      _ = try await live.adopt()
      for user in [live[3], live[4]] {
        try await live.writesPremium(user, bought.originalTransactionID, until: "2099-01-01T00:00:00Z")
      }
      try await live.verifyClaims()
      #expect(try await live.clientWrites().map(\.outcome) == ["claimed_twice", "claimed_twice"])
      try await live.run("DELETE FROM receipts", as: live[3])
      #expect(try await live.profile(live[3]).originalTransactionID == nil)
      #expect(try await live.profile(live[3]).product == SwiftClimb.annual)

      let report = try await live.adopt()
      #expect(report.outcomes == [:])
      #expect(report.awardsWithheld == [Self.id(live[3]), Self.id(live[4])])
      #expect(try await live.harness.count("grants") == 0)
    }
  }

  @Test func `a contested claim from before the first run gets no award when its transaction id goes`()
    async throws
  {
    try await LiveApps.with([SwiftClimb.bundleID: "accept"]) { live in
      let bought = try live.buy()
      try await Self.addReceipts(live, with: bought.originalTransactionID)
      for user in [live[1], live[2]] {
        try await live.setProfile(user, bought.originalTransactionID, until: .distantFuture)
      }
      #expect(try await live.adopt().outcomes == ["claimed_twice": 2])
      try await live.run("DELETE FROM receipts", as: live[1])
      #expect(try await live.clientWrites().isEmpty)

      let report = try await live.adopt()
      #expect(report.outcomes == ["claimed_twice": 2])
      #expect(report.awardsDenied == [Self.id(live[1]), Self.id(live[2])])
      #expect(try await live.harness.count("grants") == 0)
    }
  }

  // MARK: Grants

  @Test func `a grant that only the client wrote is reported, and goes with the next run in refuse`()
    async throws
  {
    try await LiveApps.with([SwiftClimb.bundleID: "accept"]) { live in
      func names(_ user: UUID) async throws {
        try await live.run(
          "UPDATE profiles SET premium_product_id = 'grant:premium' WHERE id = '\(user)'", as: user)
      }
      try await names(live[1])
      #expect(try await live.adopt().awardsDenied == [Self.id(live[1])])
      try await names(live[2])
      _ = try await live.harness.desk.grant(
        to: live[3].uuidString, bundleID: SwiftClimb.bundleID, tier: "premium", days: 30,
        by: SupportAuthor(by: .operatorNamed("ben"), reason: "ticket 811"))
      let granted = try await live.profile(live[3])
      #expect(granted.product == "grant:premium")
      let report = try await live.adopt()
      #expect(report.awardsDenied == [Self.id(live[1]), Self.id(live[2])])
      #expect(report.description.contains("  2 premium by a client's word only, against"))
      // In accept the row keeps what the client wrote.
      #expect(try await live.profile(live[1]).product == "grant:premium")

      let other = try await live.harness.service(
        configuration: LiveApps.configuration([SwiftClimb.bundleID: "refuse"]))
      let refused = try #require(
        try await other.adoption.adopt(bundleID: SwiftClimb.bundleID, isDryRun: false).first)
      #expect(refused.awardsDenied == report.awardsDenied)
      #expect(refused.rowsCorrected == 2)
      #expect(
        try #require(try await other.adoption.adopt(bundleID: SwiftClimb.bundleID, isDryRun: false).first)
          .awardsDenied == [])
      await other.close()
      for user in [live[1], live[2]] { #expect(try await live.profile(user) == ProfileRow()) }
      #expect(try await live.profile(live[3]) == granted)
      #expect(try await live.harness.count("grants") == 1)
    }
  }
}
