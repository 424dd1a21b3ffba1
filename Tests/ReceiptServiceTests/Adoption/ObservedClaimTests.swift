import AppStore
import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import Subscriptions
import Testing
import Work

@testable import Adoption
@testable import Customers
@testable import Ledger
@testable import ReceiptService

/// Statements of old builds, and their claims, where `clientWrites` is `observe`.
@Suite struct ObservedClaimTests {
  private static let free = ProfileRow()

  @Test func `observe applies the rest of the statement and keeps the server's premium columns`() async throws
  {
    try await LiveApps.with { live in
      let user = live[9]
      let bought = try live.buy(token: user)
      try await live.harness.arrives(bought)
      let row = try await live.profile(user)
      #expect(row.product == SwiftClimb.monthly)

      // A write-back of the same values with whole seconds is no claim.
      try await live.writesWholeRow(user, handle: "same", row)
      #expect(try await live.handle(user) == "same")
      #expect(try await live.profile(user) == row)
      #expect(try await live.clientWrites().isEmpty)

      // A stale row, and an invented one.
      try await live.writesWholeRow(user, handle: "stale", ProfileRow())
      try await live.writesWholeRow(
        user, handle: "forged",
        ProfileRow(
          expiresAt: live.harness.clock.now + 1e9, product: SwiftClimb.annual,
          originalTransactionID: "2999999999999999"))
      #expect(try await live.handle(user) == "forged")
      #expect(try await live.profile(user) == row)
      #expect(
        Set(try await live.clientWrites().map { "\($0.transactionID) \($0.mode) \($0.writes)" }) == [
          " observe 1", "2999999999999999 observe 1",
        ])
    }
  }

  @Test func `invented claims of some users do not delay the claim of another`() async throws {
    try await LiveApps.with { live in
      for user in live.users.dropLast() {
        for number in 0..<5 {
          try await live.writesPremium(user, "29\(user.uuidString.suffix(2))00000000000\(number)")
        }
      }
      live.harness.clock.advance(seconds: 5)
      // One batch of the invented ids.
      try await live.harness.service.adoption.verification.run()
      let bought = try live.buy()
      try await live.writesPremium(live[9], bought.originalTransactionID)
      live.harness.clock.advance(seconds: 5)
      try await live.harness.service.adoption.verification.run()
      let outcomes = try await live.clientWrites().filter { $0.user == live[9] }.map(\.outcome)
      #expect(outcomes == ["bound"])
    }
  }

  @Test func `a new claim is taken although many claims of many users are due`() async throws {
    try await LiveApps.with { live in
      let instant = live.harness.clock.now
      _ = try await live.harness.pool.query(
        """
        INSERT INTO client_writes (table_name, user_id, original_transaction_id, mode, first_at, last_at, next_attempt_at)
        SELECT 'profiles', gen_random_uuid(), '29' || n, 'observe', \(instant), \(instant), \(instant - 3_600)
        FROM generate_series(1000000001, 1000020000) AS n
        """)
      let bought = try live.buy()
      try await live.writesPremium(live[9], bought.originalTransactionID)
      live.harness.clock.advance(seconds: 5)
      let taken = try await live.harness.pool.query(
        ClientWriteRows.claimDue(WorkLease(at: live.harness.clock.now, for: 60), limit: 3_000))
      let ids = try taken.map { try $0.decode("original_transaction_id", as: String.self) }
      #expect(ids.contains(bought.originalTransactionID))
      #expect((2_001...3_000).contains(ids.count))
    }
  }

  @Test func `a new row in observe has no premium, whatever the client writes`() async throws {
    try await LiveApps.with([Thaqalayn.bundleID: "observe"]) { live in
      let user = live[9]
      _ = try await live.harness.pool.query("DELETE FROM profiles WHERE id = \(user)")
      try await live.writesWholeRow(
        user, handle: "first", ProfileRow(expiresAt: .distantFuture, product: "x", originalTransactionID: "7")
      )
      #expect(try await live.profile(user) == Self.free)
      #expect(try await live.handle(user) == "first")
      try await live.run(
        "INSERT INTO user_preferences (user_id, is_premium, bookmark_limit) VALUES ('\(user)', true, 999)",
        as: user)
      #expect(try await live.harness.isPremiumInPreferences(user) == false)
      #expect(try await live.writesIsPremium(user) == false)
      #expect(try await live.clientWrites().map(\.isPremium) == [nil, true])
      #expect(try await live.clientWrites().map(\.writes) == [1, 2])
    }
  }

  @Test func `a claim in observe gives access once the App Store has confirmed it`() async throws {
    try await LiveApps.with { live in
      let user = live[9]
      let bought = try live.buy(SwiftClimb.annual)
      try await live.writesPremium(user, bought.originalTransactionID)
      #expect(try await live.profile(user) == Self.free)
      try await live.verifyClaims()
      #expect(try await live.clientWrites().map(\.outcome) == ["bound"])
      #expect(try await live.profile(user).originalTransactionID == bought.originalTransactionID)
      #expect(try await live.profile(user).expiresAt == bought.transaction.expiresDate)
      #expect(try await live.harness.row(of: bought.originalTransactionID).userID == user)

      // Access ends with the refund, and a repeated claim does not bring it back.
      try await live.harness.happens(.refundLatest, to: bought.originalTransactionID)
      #expect(try await live.profile(user) == Self.free)
      try await live.writesPremium(user, bought.originalTransactionID)
      try await live.verifyClaims()
      #expect(try await live.profile(user) == Self.free)
    }
  }

  @Test func `the first signed proof takes a purchase from a user who only claimed its id`() async throws {
    try await LiveApps.with { live in
      let (claimant, buyer) = (live[7], live[5])
      let bought = try live.buy()
      try await live.harness.arrives(bought)
      try await live.writesPremium(claimant, bought.originalTransactionID)
      try await live.verifyClaims()
      #expect(try await live.harness.row(of: bought.originalTransactionID).userID == claimant)

      let token = try await live.harness.token(for: buyer) {
        $0.iss = "https://swiftclimb.supabase.co/auth/v1"
      }
      let answer = try await live.harness.sync([bought.signedTransaction], user: buyer, token: token)
      #expect(answer.status == 200)
      #expect(answer.bool("isPremium") == true)
      #expect(try await live.harness.row(of: bought.originalTransactionID).userID == buyer)
      #expect(try await live.profile(claimant) == Self.free)
    }
  }

  @Test func `a claim that the App Store does not know yet is verified when it does`() async throws {
    try await LiveApps.with { live in
      let user = live[8]
      let bought = try live.buy()
      live.harness.store.add(ServerFault.error(.transactionIdNotFound))
      try await live.writesPremium(user, bought.originalTransactionID)
      try await live.verifyClaims()
      #expect(try await live.clientWrites().map(\.outcome) == ["unknown"])
      live.harness.store.clearServerFaults()
      try await live.verifyClaims(afterSeconds: 61)
      #expect(try await live.clientWrites().map(\.outcome) == ["bound"])
      #expect(try await live.profile(user).originalTransactionID == bought.originalTransactionID)
    }
  }

  @Test func `a claim to another customer's purchase gives nothing`() async throws {
    try await LiveApps.with { live in
      let bought = try live.buy(token: live[1])
      try await live.harness.arrives(bought)
      let row = try await live.profile(live[1])
      try await live.writesPremium(live[9], bought.originalTransactionID)
      // Apple names another user, and no notification has come.
      let unknown = try live.buy(token: live[2])
      try await live.writesPremium(live[9], unknown.originalTransactionID)
      try await live.verifyClaims()
      #expect(try await live.clientWrites().map(\.outcome) == ["another_customer", "another_customer"])
      #expect(try await live.profile(live[9]) == Self.free)
      #expect(try await live.profile(live[1]) == row)
    }
  }

  @Test func `a claim to a purchase that a legacy profile names binds it to neither`() async throws {
    try await LiveApps.with { live in
      let bought = try live.buy()
      try await live.setProfile(
        live[1], bought.originalTransactionID, until: bought.transaction.expiresDate)
      try await live.writesPremium(live[9], bought.originalTransactionID)
      try await live.verifyClaims()
      #expect(try await live.clientWrites().map(\.outcome) == ["claimed_twice"])
      #expect(try await live.harness.row(of: bought.originalTransactionID).userID == nil)
      #expect(try await live.profile(live[9]) == Self.free)
      #expect(try await live.profile(live[1]).product == SwiftClimb.monthly)
    }
  }

  @Test func `a claim waits while the App Store does not answer`() async throws {
    try await LiveApps.with { live in
      let bought = try live.buy()
      try await live.writesPremium(live[9], bought.originalTransactionID)
      live.harness.store.add(.error(.generalInternal))
      try await live.verifyClaims()
      #expect(try await live.clientWrites().map(\.outcome) == [nil])
      live.harness.store.clearServerFaults()
      // A circuit breaker may be open for a while of real time; a new server has none.
      let other = try await live.harness.service(configuration: LiveApps.configuration([:]))
      live.harness.clock.advance(seconds: 3_600)
      try await other.adoption.verification.run()
      await other.close()
      #expect(try await live.clientWrites().map(\.outcome) == ["bound"])
      #expect(try await live.profile(live[9]).product == SwiftClimb.monthly)
    }
  }

  @Test func `failures to reach the App Store use up no question about a claim`() async throws {
    try await LiveApps.with { live in
      let bought = try live.buy()
      try await live.writesPremium(live[9], bought.originalTransactionID)
      live.harness.store.add(.error(.generalInternal))
      for _ in 0..<8 { try await live.verifyClaims(afterSeconds: 3_600) }
      #expect(try await live.clientWrites().map(\.outcome) == [nil])
      live.harness.store.clearServerFaults()
      live.harness.store.add(ServerFault.error(.transactionIdNotFound))
      // Without an open circuit breaker.
      let other = try await live.harness.service(configuration: LiveApps.configuration([:]))
      live.harness.clock.advance(seconds: 3_600)
      try await other.adoption.verification.run()
      #expect(try await live.clientWrites().map(\.outcome) == ["unknown"])
      live.harness.store.clearServerFaults()
      live.harness.clock.advance(seconds: 61)
      try await other.adoption.verification.run()
      await other.close()
      #expect(try await live.clientWrites().map(\.outcome) == ["bound"])
    }
  }

  @Test func `a claim that is not confirmed is logged with a hash of the user's id`() async throws {
    try await LiveApps.with { live in
      try await live.writesPremium(live[9], "2999999999911")
      let log = LogLines()
      let other = try await live.harness.service(configuration: LiveApps.configuration([:]), log: log)
      let key = other.sharedResources.logKey
      try await key.load(from: live.harness.pool)
      live.harness.clock.advance(seconds: 10)
      try await other.adoption.verification.run()
      await other.close()
      let line = try #require(log.all.first { $0.contains("the App Store does not confirm") })
      let user = live[9].uuidString.lowercased()
      #expect(try line.contains(#require(key.hash(of: user))))
      #expect(!line.lowercased().contains(user))
    }
  }

  @Test func `a user has at most 20 claims, and further ones are counted`() async throws {
    try await LiveApps.with { live in
      for number in 1...25 { try await live.writesPremium(live[9], "29999999999\(10 + number)") }
      let noted = try await live.clientWrites()
      #expect(noted.count == 21)
      #expect(noted.map(\.writes).reduce(0, +) == 25)
      // Text that is no id is not kept.
      try await live.writesPremium(live[8], "not an id")
      #expect(try await live.clientWrites().last?.transactionID == "")
    }
  }
}
