import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import Testing

@testable import Adoption
@testable import Customers
@testable import ReceiptService
@testable import Support

/// Free access in the tables that SwiftClimb's and Thaqalayn's clients read.
@Suite struct FreeAccessTablesTests {
  /// A configuration with the key for these apps.
  private static func writing(_ configuration: String, _ bundleIDs: [String]) -> String {
    bundleIDs.reduce(configuration) { text, bundleID in
      text.replacing(
        #""bundleID": "\#(bundleID)","#, with: #""bundleID": "\#(bundleID)", "freeAccessWrites": true,"#)
    }
  }

  private static func withLiveApps(_ body: (LiveApps) async throws -> Void) async throws {
    let configuration = try LiveApps.configuration([:])
    try await LiveApps.with(
      configuration: writing(configuration, [SwiftClimb.bundleID, Thaqalayn.bundleID]), body)
  }

  private static let climbing = writing(TestApps.json, [TestApps.climbing])

  private static func set(_ isOn: Bool, _ bundleID: String, _ harness: Harness) async throws {
    _ = try await harness.desk.setFreeAccess(isOn, bundleID: bundleID, by: #require(Harness.ada))
  }

  /// Passes a day of four sweeps, with and without free access.
  private static func passDay(_ live: LiveApps) async throws {
    for _ in 0..<4 { try await live.harness.pass(days: 0.25) }
  }

  /// Free access on, the events, off, on and off again, or the events alone.
  private static func live(
    _ live: LiveApps, _ bundleID: String, isFree: Bool, _ events: () async throws -> Void,
    whileOn check: () async throws -> Void
  ) async throws {
    let harness = live.harness
    if isFree { try await set(true, bundleID, harness) }
    try await passDay(live)
    if isFree { try await check() }
    try await events()
    try await passDay(live)
    if isFree { try await check() }
    if isFree { try await set(false, bundleID, harness) }
    if isFree { #expect(try await harness.count("receiptd.free_access_rows") == 0) }
    if isFree { try await set(true, bundleID, harness) }
    try await passDay(live)
    if isFree { try await check() }
    if isFree { try await set(false, bundleID, harness) }
    try await harness.service.sweepEverything()
  }

  // MARK: The two apps

  /// The rows of `profiles`, with their ends in seconds from an instant.
  private static func profiles(_ live: LiveApps, since start: Date) async throws -> [String] {
    try await live.pool.query(
      """
      SELECT (id, extract(epoch FROM premium_expires_at - \(start)), premium_product_id,
        premium_original_transaction_id)::text AS row FROM profiles ORDER BY id
      """
    ).map { try $0.decode("row", as: String.self) }
  }

  @Test
  func `free access opens every profile that SwiftClimb's client reads, and gives all back as they were`()
    async throws
  {
    var results: [[String]] = []
    for isFree in [false, true] {
      try await Self.withLiveApps { live in
        let harness = live.harness
        let start = harness.clock.now
        let paying = try live.buy(token: live[1])
        try await harness.arrives(paying)
        try await live.setProfile(live[2], "2000000000001003", until: start - 3 * 86_400)
        let refunded = try live.buy(token: live[3])
        try await harness.arrives(refunded)
        try await live.setProfile(live[5], nil, until: start + 43_200)
        let ada = try #require(Harness.ada)
        try await Self.live(live, SwiftClimb.bundleID, isFree: isFree) {
          try await harness.happens(
            .refund(transactionID: refunded.transactionID, percentage: 100, reason: .refundedForOtherReason),
            to: refunded.originalTransactionID)
          try await harness.arrives(live.buy(token: live[4]))
          try await live.setProfile(
            live[6], "2000000000009999", product: SwiftClimb.annual, until: start + 300 * 86_400)
          // One grant lasts, and the other one ends meanwhile.
          for (user, days) in [(live[8], 3), (live[9], 1)] {
            _ = try await harness.desk.grant(
              to: user.uuidString, bundleID: SwiftClimb.bundleID, tier: "premium", days: days, by: ada,
              isForced: true)
          }
        } whileOn: {
          for user in live.users {
            let row = try #require(try await live.readsProfile(user))
            let end = try #require(row.expiresAt)
            #expect(end > harness.clock.now)
          }
        }
        results.append(try await Self.profiles(live, since: start))
        if isFree {
          #expect(try await live.profile(live[7]) == ProfileRow())
          #expect(try await live.profile(live[4]).product == SwiftClimb.monthly)
          #expect(try await live.profile(live[8]).product == "grant:premium")
          #expect(try await harness.count("receiptd.free_access_rows") == 0)
          #expect(try await harness.count("client_writes") == 0)
        }
      }
    }
    #expect(results[0] == results[1])
  }

  @Test func `free access opens every row that Thaqalayn's client reads, and gives all back as they were`()
    async throws
  {
    var results: [[String]] = []
    for isFree in [false, true] {
      try await Self.withLiveApps { live in
        let harness = live.harness
        for user in [1, 2, 3] { try await live.signsUp(live[user]) }
        let refunded = try live.buy(Thaqalayn.tafsir, bundleID: Thaqalayn.bundleID, token: live[1])
        try await harness.arrives(refunded)
        _ = try await live.pool.query(
          "UPDATE user_preferences SET bookmark_limit = 10 WHERE user_id = \(live[3])")
        let ada = try #require(Harness.ada)
        try await Self.live(live, Thaqalayn.bundleID, isFree: isFree) {
          try await harness.happens(
            .refund(transactionID: refunded.transactionID, percentage: 100, reason: .refundedForOtherReason),
            to: refunded.originalTransactionID)
          try await harness.arrives(
            live.buy(Thaqalayn.tafsir, bundleID: Thaqalayn.bundleID, token: live[2]))
          try await live.signsUp(live[4])
          _ = try await harness.desk.grant(
            to: live[9].uuidString, bundleID: Thaqalayn.bundleID, tier: "premium", days: 30, by: ada,
            isForced: true)
          // The backend takes the legacy premium of one user.
          _ = try await live.pool.query(
            "UPDATE user_preferences SET is_premium = false, bookmark_limit = 5 WHERE user_id = \(live[5])")
        } whileOn: {
          for number in [1, 2, 3, 5, 6, 7, 8] {
            let isPremium = try await live.readsIsPremium(live[number])
            #expect(isPremium == true, "\(number)")
          }
        }
        let rows = try await live.pool.query(
          "SELECT (user_id, is_premium, bookmark_limit)::text AS row FROM user_preferences ORDER BY user_id")
        results.append(try rows.map { try $0.decode("row", as: String.self) })
        if isFree {
          for (number, isPremium) in [
            1: false, 2: true, 3: false, 4: false, 5: false, 6: true, 8: false, 9: true,
          ] {
            #expect(try await live.readsIsPremium(live[number]) == isPremium, "\(number)")
          }
          #expect(try await harness.count("receiptd.free_access_rows") == 0)
        }
      }
    }
    #expect(results[0] == results[1])
  }

  @Test func `a row of user_preferences that the backend made premium between two sweeps stays premium`()
    async throws
  {
    try await Self.withLiveApps { live in
      try await Self.set(true, Thaqalayn.bundleID, live.harness)
      for isPremium in [false, true] {
        _ = try await live.pool.query(
          "UPDATE user_preferences SET is_premium = \(isPremium) WHERE user_id = \(live[8])")
      }
      try await Self.set(false, Thaqalayn.bundleID, live.harness)
      #expect(try await live.readsIsPremium(live[8]) == true)
    }
  }

  @Test func `adopt during free access takes no opened row for a claim`() async throws {
    try await Self.withLiveApps { live in
      for bundleID in [SwiftClimb.bundleID, Thaqalayn.bundleID] {
        try await Self.set(true, bundleID, live.harness)
      }
      #expect(try await live.readsIsPremium(live[8]) == true)
      #expect(try await live.adopt(SwiftClimb.bundleID).outcomes == [:])
      #expect(try await live.adopt(Thaqalayn.bundleID).outcomes == ["awarded": 3])
      #expect(try await live.adopt(Thaqalayn.bundleID).awardsWithheld == [])
      #expect(try await live.harness.count("grants") == 3)
    }
  }

  @Test func `adopt takes a row for a claim that says free-access, and that free access did not open`()
    async throws
  {
    try await Self.withLiveApps { live in
      let known = try await live.adopt(SwiftClimb.bundleID).outcomes.values.reduce(0, +)
      let row = try await live.pool.query(
        """
        SELECT id FROM profiles WHERE premium_product_id IS NULL AND premium_original_transaction_id IS NULL
          AND premium_expires_at IS NULL ORDER BY id LIMIT 1
        """)
      let id = try #require(row.first).decode("id", as: UUID.self)
      _ = try await live.pool.query(
        """
        UPDATE profiles SET premium_product_id = \(FreeAccessTables.productID), premium_expires_at = '2999-12-31'
        WHERE id = \(id)
        """)
      #expect(try await live.adopt(SwiftClimb.bundleID).outcomes.values.reduce(0, +) == known + 1)
    }
  }

  // MARK: Rows

  private static func insertRows(_ count: Int, _ harness: Harness) async throws {
    for (table, key) in [("profiles", "id"), ("user_preferences", "user_id")] {
      _ = try await harness.pool.query(
        "INSERT INTO \(unescaped: table) (\(unescaped: key)) SELECT gen_random_uuid() FROM generate_series(1, \(count))"
      )
    }
  }

  /// The rows of both tables with access at this instant.
  private static func open(_ harness: Harness) async throws -> Int {
    let row = try await harness.pool.query(
      """
      SELECT (SELECT count(*) FROM profiles WHERE premium_expires_at > \(harness.clock.now))
        + (SELECT count(*) FROM user_preferences WHERE is_premium AND bookmark_limit = 999) AS count
      """)[0]
    return try row.decode("count", as: Int.self)
  }

  @Test func `two servers open and give back more rows than one page, each once`() async throws {
    try await withHarness(configuration: Self.climbing) { harness in
      let other = try await harness.service(configuration: Self.climbing)
      try await Self.insertRows(1_101, harness)
      func sweepTogether() async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
          for service in [harness.service, other, harness.service] {
            group.addTask { try await service.sweep.freeAccess.run() }
          }
          try await group.waitForAll()
        }
        // Rows that were locked.
        try await other.sweep.freeAccess.run()
      }
      for _ in 0..<2 {
        _ = try await harness.pool.query(
          "INSERT INTO free_access (bundle_id, starts_at, started_by, reason) VALUES (\(TestApps.climbing), now(), 'ada', 'test')"
        )
        try await sweepTogether()
        #expect(try await Self.open(harness) == 2_202)
        #expect(try await harness.count("receiptd.free_access_rows") == 2_202)
        _ = try await harness.pool.query(
          "UPDATE free_access SET ends_at = greatest(starts_at, now()), ended_by = 'ada' WHERE ends_at IS NULL"
        )
        try await sweepTogether()
        #expect(try await Self.open(harness) == 0)
        #expect(try await harness.count("receiptd.free_access_rows") == 0)
        #expect(try await harness.count("profiles WHERE premium_product_id IS NOT NULL") == 0)
        #expect(try await harness.count("user_preferences WHERE bookmark_limit <> 2") == 0)
      }
      await other.close()
    }
  }

  @Test func `the end in an opened profile moves on once a day`() async throws {
    try await withHarness(configuration: Self.climbing) { harness in
      try await Self.insertRows(1, harness)
      try await Self.set(true, TestApps.climbing, harness)
      func end() async throws -> Date? {
        try await harness.pool.query("SELECT premium_expires_at FROM profiles")[0].decode(
          "premium_expires_at", as: Date?.self)
      }
      let first = harness.clock.now + 8 * 86_400
      #expect(try await end() == first)
      try await harness.pass(days: 0.9)
      #expect(try await end() == first)
      try await harness.pass(days: 0.2)
      #expect(try await end() == harness.clock.now + 8 * 86_400)
      try await Self.set(false, TestApps.climbing, harness)
      #expect(try await end() == nil)
    }
  }

  @Test func `a row that the table refuses stays as it is, and all others are opened`() async throws {
    try await withHarness(configuration: Self.climbing) { harness in
      try await Self.insertRows(40, harness)
      _ = try await harness.pool.query(
        """
        ALTER TABLE profiles ADD CONSTRAINT refused CHECK (
          id <> '\(unescaped: try await Self.anyProfile(harness))' OR premium_product_id IS NULL)
        """)
      try await Self.set(true, TestApps.climbing, harness)
      #expect(try await Self.open(harness) == 79)
      _ = try await harness.pool.query("ALTER TABLE profiles DROP CONSTRAINT refused")
      try await harness.service.sweepEverything()
      #expect(try await Self.open(harness) == 80)
      try await Self.set(false, TestApps.climbing, harness)
      #expect(try await Self.open(harness) == 0)
    }
  }

  @Test func `many rows that the table refuses stop none of the others`() async throws {
    try await withHarness(configuration: Self.climbing) { harness in
      try await Self.insertRows(40, harness)
      let all = try await harness.count("profiles")
      _ = try await harness.pool.query(
        """
        ALTER TABLE profiles ADD CONSTRAINT refused CHECK (
          premium_product_id IS NULL OR right(id::text, 1) IN ('0', '1', '2', '3', '4', '5', '6', '7'))
        """)
      let refused = try await harness.count(
        "profiles WHERE right(id::text, 1) IN ('8', '9', 'a', 'b', 'c', 'd', 'e', 'f')")
      #expect(refused > 5)
      try await Self.set(true, TestApps.climbing, harness)
      // The rows of user_preferences are not refused.
      #expect(try await Self.open(harness) == 2 * all - refused)
    }
  }

  @Test func `a customer whose records cannot be read stops no end of others' free access`() async throws {
    try await withHarness(configuration: Self.climbing) { harness in
      let (user, bought) = try await harness.customer()
      try await Self.insertRows(40, harness)
      _ = try await harness.pool.query(
        "INSERT INTO user_preferences (user_id) VALUES (\(user)) ON CONFLICT DO NOTHING")
      try await Self.set(true, TestApps.climbing, harness)
      #expect(try await harness.count("user_preferences WHERE is_premium") >= 40)
      // The word of a later build.
      _ = try await harness.pool.query(
        """
        UPDATE subscriptions SET environment = 'Beta'
        WHERE original_transaction_id = \(bought.originalTransactionID)
        """)
      try await Self.set(false, TestApps.climbing, harness)
      let others = "user_id <> '\(user.uuidString.lowercased())'"
      #expect(try await harness.count("user_preferences WHERE is_premium AND \(others)") == 0)
      #expect(try await harness.count("free_access_rows WHERE \(others)") == 0)
    }
  }

  private static func anyProfile(_ harness: Harness) async throws -> String {
    try await harness.pool.query("SELECT id FROM profiles ORDER BY id OFFSET 17 LIMIT 1")[0].decode(
      "id", as: UUID.self
    ).uuidString.lowercased()
  }

  @Test func `an erased customer's saved values are deleted`() async throws {
    try await withHarness(configuration: Self.climbing) { harness in
      let (user, bought) = try await harness.customer()
      try await harness.happens(
        .refund(transactionID: bought.transactionID, percentage: 100, reason: .refundedForOtherReason),
        to: bought.originalTransactionID)
      try await Self.set(true, TestApps.climbing, harness)
      #expect(try await harness.count("receiptd.free_access_rows WHERE user_id = '\(user)'") == 2)
      try await harness.erase(user.uuidString)
      #expect(try await harness.count("receiptd.free_access_rows") == 0)
      try await harness.service.sweepEverything()
      #expect(try await harness.profileRow(of: user) == nil)
      #expect(try await harness.count("receiptd.free_access_rows") == 0)
    }
  }

  @Test func `a server whose configuration lost the key gives the rows back`() async throws {
    try await withHarness(configuration: Self.climbing) { harness in
      try await Self.insertRows(3, harness)
      try await Self.set(true, TestApps.climbing, harness)
      #expect(try await Self.open(harness) == 6)
      let other = try await harness.service(configuration: TestApps.json)
      try await other.sweep.freeAccess.run()
      #expect(try await Self.open(harness) == 0)
      #expect(try await harness.count("receiptd.free_access_rows") == 0)
      await other.close()
    }
  }
}
