import AppStore
import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import Subscriptions
import Testing
import Text

@testable import Customers
@testable import ReceiptService

/// Statements of old builds where `clientWrites` is `accept` or `refuse`.
@Suite struct LiveClientTests {
  private static let receipt = "2000000000001005"
  private static let free = ProfileRow()

  // MARK: accept

  @Test func `accept writes what an old build of SwiftClimb writes, and counts it`() async throws {
    try await LiveApps.with([SwiftClimb.bundleID: "accept"]) { live in
      let user = live[9]
      try await live.writesPremium(user, Self.receipt)
      try await live.writesPremium(user, Self.receipt)
      let row = try await live.profile(user)
      #expect(row.originalTransactionID == Self.receipt)
      #expect(row.product == SwiftClimb.annual)
      #expect(row.expiresAt?.rfc3339 == "2027-01-19T10:00:00Z")
      // The second statement changes nothing, so it is no claim.
      #expect(
        try await live.clientWrites() == [
          .init(
            table: "profiles", user: user, transactionID: Self.receipt, isPremium: nil, mode: "accept",
            writes: 1)
        ])

      try await live.writesWholeRow(user, handle: "new", ProfileRow())
      #expect(try await live.profile(user) == Self.free)
      #expect(try await live.handle(user) == "new")
    }
  }

  @Test func `a customer who just paid keeps access in accept, and the renewal reaches the profile`()
    async throws
  {
    try await LiveApps.with([SwiftClimb.bundleID: "accept"]) { live in
      let user = live[9]
      let bought = try live.buy()
      let id = bought.originalTransactionID
      // The notification comes first, and names no user.
      try await live.harness.arrives(bought)
      let expiry = try #require(bought.transaction.expiresDate)
      try await live.writesPremium(user, id, product: SwiftClimb.monthly, until: expiry.rfc3339)
      #expect(try await live.profile(user).originalTransactionID == id)
      try await live.verifyClaims()
      #expect(try await live.clientWrites().map(\.outcome) == ["bound"])
      #expect(
        try await live.profile(user)
          == ProfileRow(expiresAt: expiry, product: SwiftClimb.monthly, originalTransactionID: id))

      live.harness.clock.set(expiry)
      let renewed = try await live.harness.happens(.renew, to: id)
      #expect(try await live.profile(user).expiresAt == renewed.transaction.expiresDate)
    }
  }

  @Test func `accept leaves the row of a customer of whom receiptd knows nothing`() async throws {
    try await LiveApps.with([SwiftClimb.bundleID: "accept"]) { live in
      let legacy = ProfileRow(
        expiresAt: live.harness.clock.now + 86_400, product: SwiftClimb.monthly,
        originalTransactionID: "2999999999999999")
      try await live.setProfile(live[4], legacy.originalTransactionID, until: legacy.expiresAt)
      // Another customer's purchase, the sweep and a false claim.
      try await live.harness.arrives(try live.buy(token: live[1]))
      try await live.writesPremium(live[4], "2999999999999998")
      try await live.setProfile(live[4], legacy.originalTransactionID, until: legacy.expiresAt)
      try await live.verifyClaims()
      try await live.harness.service.sweepEverything()
      try await live.harness.service.customers.profileRetry.run()
      #expect(try await live.clientWrites().map(\.outcome) == ["unknown"])
      #expect(try await live.profile(live[4]) == legacy)
    }
  }

  @Test func `accept lets an old build of Thaqalayn sign up, buy and believe what it reads`() async throws {
    try await LiveApps.with { live in
      let user = live[9]
      try await live.run("INSERT INTO user_preferences (user_id) VALUES ('\(user)')", as: user)
      #expect(try await live.clientWrites().isEmpty)
      #expect(try await live.writesIsPremium(user) == true)
      #expect(
        try await live.clientWrites() == [
          .init(
            table: "user_preferences", user: user, transactionID: "", isPremium: true, mode: "accept",
            writes: 1)
        ])
      try await live.verifyClaims()
      #expect(try await live.harness.isPremiumInPreferences(user) == true)
    }
  }

  // MARK: refuse

  @Test func `refuse fails every change of premium, and no write-back`() async throws {
    try await LiveApps.with([SwiftClimb.bundleID: "refuse", Thaqalayn.bundleID: "refuse"]) { live in
      let user = live[9]
      let bought = try live.buy(token: user)
      try await live.harness.arrives(bought)
      let row = try await live.profile(user)
      #expect(try await live.isRefused { try await live.writesPremium(user, Self.receipt) })
      #expect(
        try await live.isRefused { try await live.writesWholeRow(user, handle: "stale", ProfileRow()) })
      try await live.writesWholeRow(user, handle: "same", row)
      #expect(try await live.handle(user) == "same")
      #expect(try await live.profile(user) == row)

      try await live.run("INSERT INTO user_preferences (user_id) VALUES ('\(user)')", as: user)
      #expect(try await live.isRefused { _ = try await live.writesIsPremium(user) })
      #expect(try await live.clientWrites().isEmpty)
    }
  }

  @Test func `a client that deletes its row and inserts it again gains nothing`() async throws {
    for mode in ["observe", "refuse"] {
      try await LiveApps.with([SwiftClimb.bundleID: mode]) { live in
        let user = live[9]
        _ = try await live.harness.pool.query(
          "CREATE POLICY \"own delete\" ON profiles FOR DELETE USING (true)")
        _ = try await live.isRefused {
          try await live.run(
            """
            WITH gone AS (DELETE FROM profiles WHERE id = '\(user)' RETURNING id)
            INSERT INTO profiles (id, premium_expires_at, premium_product_id)
            SELECT id, '2036-01-01', 'forged' FROM gone
            """, as: user)
        }
        #expect(try await live.profile(user) == Self.free)
      }
    }
  }
}
