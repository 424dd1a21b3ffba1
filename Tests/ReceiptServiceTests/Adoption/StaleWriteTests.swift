import Actions
import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import Testing
import Text

@testable import Adoption
@testable import Customers
@testable import Ledger
@testable import ReceiptService
@testable import Support

/// Old builds that write a weaker status than receiptd knows over a payer's row.
@Suite struct StaleWriteTests {
  private static let modes = ["accept", "observe", "refuse"]

  /// Writes the statuses that wait in the outbox.
  private static func retry(_ live: LiveApps) async throws {
    live.harness.clock.advance(seconds: 10)
    try await live.harness.service.customers.profileRetry.run()
  }

  private static func limit(_ live: LiveApps, _ user: UUID) async throws -> Int? {
    try await live.pool.query("SELECT bookmark_limit FROM user_preferences WHERE user_id = \(user)").first?
      .decode("bookmark_limit", as: Int.self)
  }

  @Test func `in accept a row from before the renewal keeps the payer's status, and is counted`() async throws
  {
    try await LiveApps.with([SwiftClimb.bundleID: "accept"]) { live in
      let user = live[9]
      let bought = try live.buy(token: user)
      try await live.harness.arrives(bought)
      let stale = try await live.profile(user)
      live.harness.clock.set(try #require(stale.expiresAt))
      try await live.harness.happens(.renew, to: bought.originalTransactionID)
      let renewed = try await live.profile(user)
      #expect(renewed != stale)

      for (handle, row) in [("stale", stale), ("cleared", ProfileRow())] {
        try await live.writesWholeRow(user, handle: handle, row)
        #expect(try await live.handle(user) == handle)
        #expect(try await live.profile(user) == renewed)
      }
      try await live.run(
        "UPDATE profiles SET premium_expires_at = '2020-01-01' WHERE id = '\(user)'", as: user)
      #expect(try await live.profile(user) == renewed)
      #expect(try await live.clientWrites().map(\.writes).reduce(0, +) == 3)
      // The status was never lower, so there is nothing to repair.
      #expect(try await live.harness.count("outbox WHERE destination = 'profiles'") == 0)
    }
  }

  @Test func `in accept a payer whose purchase a forger claims too keeps the status of a stale write`()
    async throws
  {
    try await LiveApps.with([SwiftClimb.bundleID: "accept"]) { live in
      let (payer, forger) = (live[9], live[7])
      let bought = try live.buy()
      let id = bought.originalTransactionID
      for user in [payer, forger] {
        try await live.setProfile(user, id, until: bought.transaction.expiresDate)
      }
      try await live.harness.arrives(bought)
      try await live.verifyClaims()
      #expect(try await live.harness.row(of: id).userID == nil)
      let stale = try await live.profile(payer)
      live.harness.clock.set(try #require(stale.expiresAt))
      let renewed = try await live.harness.happens(.renew, to: id)
      let expiry = try #require(renewed.transaction.expiresDate)
      try await live.writesPremium(payer, id, product: SwiftClimb.monthly, until: expiry.rfc3339)
      let current = try await live.profile(payer)
      #expect(current != stale)
      try await live.writesWholeRow(payer, handle: "stale", stale)
      #expect(try await live.profile(payer) == current)
      #expect(try await live.handle(payer) == "stale")
    }
  }

  @Test func `in accept an old build clears the row of a user whose purchase is over`() async throws {
    try await LiveApps.with([SwiftClimb.bundleID: "accept"]) { live in
      let user = live[9]
      let bought = try live.buy(token: user)
      try await live.harness.arrives(bought)
      let paid = try await live.profile(user)
      try await live.harness.happens(.refundLatest, to: bought.originalTransactionID)
      #expect(try await live.profile(user) == ProfileRow())
      // The client's word counts in accept, also its change of mind.
      try await live.writesWholeRow(user, handle: "again", paid)
      #expect(try await live.profile(user) == paid)
      try await live.writesWholeRow(user, handle: "free", ProfileRow())
      #expect(try await live.profile(user) == ProfileRow())
    }
  }

  @Test func `in accept a client that lowers its own false status gets the true one within seconds`()
    async throws
  {
    try await LiveApps.with([SwiftClimb.bundleID: "accept"]) { live in
      let user = live[9]
      let bought = try live.buy(token: user)
      try await live.harness.arrives(bought)
      let paid = try await live.profile(user)
      try await live.writesPremium(user, bought.originalTransactionID, until: "2090-01-01T00:00:00Z")
      try await live.writesWholeRow(user, handle: "free", ProfileRow())
      try await Self.retry(live)
      #expect(try await live.profile(user) == paid)
    }
  }

  @Test func `in accept an old build of Thaqalayn does not take an award`() async throws {
    try await LiveApps.with([Thaqalayn.bundleID: "accept"]) { live in
      let (owner, free) = (live[9], live[8])
      try await live.signsUp(owner)
      _ = try await live.harness.desk.grant(
        to: owner.uuidString, bundleID: Thaqalayn.bundleID, tier: "premium", days: 30,
        by: SupportAuthor.adoption("test"))
      #expect(try await live.writesIsPremium(free) == true)
      for user in [owner, free] {
        for change in ["is_premium = false, bookmark_limit = 2", "bookmark_limit = 2", "is_premium = NULL"] {
          try await live.run("UPDATE user_preferences SET \(change) WHERE user_id = '\(user)'", as: user)
        }
      }
      #expect(try await live.readsIsPremium(owner) == true)
      #expect(try await Self.limit(live, owner) == 999)
      #expect(try await live.readsIsPremium(free) == nil)
      #expect(try await Self.limit(live, free) == 2)
    }
  }

  @Test(arguments: modes)
  func `a payer's own row that was deleted and inserted again gets the status within seconds`(mode: String)
    async throws
  {
    try await LiveApps.with([SwiftClimb.bundleID: mode, Thaqalayn.bundleID: mode]) { live in
      let (payer, free) = (live[9], live[8])
      let bought = try live.buy(token: payer)
      try await live.harness.arrives(bought)
      let paid = try await live.profile(payer)
      _ = try await live.harness.desk.grant(
        to: payer.uuidString, bundleID: Thaqalayn.bundleID, tier: "premium", days: 30,
        by: SupportAuthor.adoption("test"))
      for user in [payer, free] {
        _ = try await live.pool.query("DELETE FROM profiles WHERE id = \(user)")
        _ = try await live.pool.query("DELETE FROM user_preferences WHERE user_id = \(user)")
        try await live.run(
          "INSERT INTO profiles (id, handle, display_name) VALUES ('\(user)', 'back', 'Ann')", as: user)
        try await live.signsUp(user)
      }
      // One for each table. Users of whom receiptd knows nothing cost no write.
      #expect(try await live.harness.count("outbox WHERE destination = 'profiles'") == 2)
      try await Self.retry(live)
      #expect(try await live.profile(payer) == paid)
      #expect(try await live.handle(payer) == "back")
      #expect(try await live.readsIsPremium(payer) == true)
      #expect(try await live.profile(free) == ProfileRow())
      #expect(try await live.readsIsPremium(free) == false)
    }
  }
}
