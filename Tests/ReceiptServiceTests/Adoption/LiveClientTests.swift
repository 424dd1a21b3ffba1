import AppStore
import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import Subscriptions
import Testing

@testable import ReceiptService

/// Statements of old builds, in each mode of `clientWrites`.
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
      try await live.harness.service.profileRetry.run()
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

  // MARK: observe

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
      try await other.claimVerification.run()
      await other.close()
      #expect(try await live.clientWrites().map(\.outcome) == ["bound"])
      #expect(try await live.profile(live[9]).product == SwiftClimb.monthly)
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

  // MARK: Modes

  @Test func `without a setting, a table that existed is observed if its claims can be verified`()
    async throws
  {
    func modes(_ harness: Harness) async throws -> [String: String?] {
      let stored = try await ClientWriteModes.read(harness.service.pool)
      return Dictionary(uniqueKeysWithValues: stored.map { ($0.table, $0.mode?.rawValue) })
    }
    try await LiveApps.with { live in
      #expect(try await modes(live.harness) == ["profiles": "observe", "user_preferences": "accept"])
      // A reload with another mode.
      let other = try await live.harness.service(
        configuration: LiveApps.configuration([SwiftClimb.bundleID: "refuse"]))
      try await other.configuredApps.write()
      await other.close()
      #expect(try await modes(live.harness) == ["profiles": "refuse", "user_preferences": "accept"])
    }
    try await LiveApps.with(environment: [
      "APP_STORE_KEY": "", "APP_STORE_KEY_ID": "", "APP_STORE_ISSUER_ID": "",
    ]) {
      live in
      let found = try await modes(live.harness)
      #expect(found == ["profiles": "accept", "user_preferences": "accept"])
    }
    try await withHarness { harness in
      let found = try await modes(harness)
      #expect(found == ["profiles": "refuse", "user_preferences": "refuse"])
    }
  }

  @Test func `doctor and the metric count client writes, and doctor says when refuse is safe`() async throws {
    try await LiveApps.with { live in
      func lines() async -> [String] {
        var lines: [String] = []
        _ = await Doctor(environment: live.harness.environment, clock: live.harness.clock.service).check {
          if $0.subject.hasPrefix("client writes") { lines.append($0.line) }
        }
        return lines
      }
      try await live.writesPremium(live[9], Self.receipt)
      try await live.writesPremium(live[9], Self.receipt)
      try await live.writesPremium(live[8], Self.receipt)
      live.harness.clock.advance(seconds: 5)
      let early = await lines()
      #expect(early.count == 2)
      #expect(early.first?.hasPrefix("ok    client writes to profiles: observe (by default") == true)
      #expect(early.first?.contains("3 client writes of 2 users in the last 30 days") == true)
      #expect(early.first?.contains("refuse is safe from ") == true)
      #expect(early.last?.contains("client writes to user_preferences: accept") == true)
      try await live.harness.service.databaseGauges.readClientWrites()
      let scraped = try await live.harness.send(.get, "/metrics", to: live.harness.adminAddress)
      let text = String(decoding: scraped.body, as: UTF8.self)
      #expect(text.contains(#"receiptd_client_writes_recently{mode="observe",table="profiles"} 3"#))

      try await live.writesPremium(live[7], live.buy().originalTransactionID)
      try await live.verifyClaims()
      #expect(
        await lines().first?.contains(
          "4 client writes of 3 users in the last 30 days, 1 of them with a verified purchase") == true)

      live.harness.clock.advance(days: 31)
      let late = await lines()
      #expect(late.first?.contains("0 client writes of 0 users in the last 30 days") == true)
      #expect(late.first?.contains("refuse is safe now") == true)
    }
  }

  // MARK: Columns

  @Test func `updated_at changes with the premium status, and only with it`() async throws {
    try await LiveApps.with { live in
      let user = live[9]
      func updatedAt() async throws -> Date {
        try await live.harness.pool.query("SELECT updated_at FROM profiles WHERE id = \(user)")[0].decode(
          "updated_at")
      }
      let old = Date(timeIntervalSince1970: 1_700_000_000)
      _ = try await live.harness.pool.query("UPDATE profiles SET updated_at = \(old)")
      let bought = try live.buy(token: user)
      try await live.harness.arrives(bought)
      #expect(try await updatedAt() > old)
      _ = try await live.harness.pool.query("UPDATE profiles SET updated_at = \(old)")
      // The same facts again write nothing.
      #expect(try await live.harness.notify(bought.notification.signedPayload).status == 200)
      #expect(try await updatedAt() == old)
      try await live.harness.happens(.refundLatest, to: bought.originalTransactionID)
      #expect(try await updatedAt() > old)

      // A column of another type, and one without a time zone.
      _ = try await live.harness.pool.query(
        "ALTER TABLE user_preferences ADD COLUMN updated_at text DEFAULT 'x'")
      let tafsir = try live.buy(Thaqalayn.tafsir, bundleID: Thaqalayn.bundleID, token: live[8])
      try await live.harness.arrives(tafsir)
      #expect(try await live.harness.isPremiumInPreferences(live[8]) == true)
      _ = try await live.harness.pool.query(
        """
        ALTER TABLE user_preferences ALTER updated_at DROP DEFAULT, ALTER updated_at TYPE timestamp USING '2020-01-01'
        """)
      try await live.harness.happens(.refundLatest, to: tafsir.originalTransactionID)
      let isNow = try await live.harness.pool.query(
        """
        SELECT abs(extract(epoch FROM updated_at - (now() AT TIME ZONE 'UTC'))) < 60 AS is_now
        FROM user_preferences WHERE user_id = \(live[8])
        """)[0]
      #expect(try isNow.decode("is_now", as: Bool.self))
    }
  }

  @Test func `the limits of bookmarks are configured`() async throws {
    let configuration = TestApps.json.replacing(
      #""bundleID": "com.example.climbing","#,
      with: #""bundleID": "com.example.climbing", "userPreferences": {"free": 5, "premium": 50},"#)
    try await withHarness(configuration: configuration) { harness in
      func limit(_ user: UUID) async throws -> Int {
        try await harness.pool.query("SELECT bookmark_limit FROM user_preferences WHERE user_id = \(user)")[0]
          .decode("bookmark_limit")
      }
      let (user, bought) = try await harness.customer()
      #expect(try await limit(user) == 50)
      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      #expect(try await limit(user) == 5)
      let free = try await harness.pool.query("SELECT free_bookmark_limit FROM client_write_modes LIMIT 1")[0]
      #expect(try free.decode("free_bookmark_limit", as: Int.self) == 5)
    }
    #expect(throws: ConfigurationProblem.self) {
      try AppCatalog(
        json: Data(configuration.replacing(#""free": 5"#, with: #""free": -1"#).utf8), named: "apps.json")
    }
  }
}
