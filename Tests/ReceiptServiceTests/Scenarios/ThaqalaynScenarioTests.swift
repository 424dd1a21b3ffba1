import AppStore
import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import Testing

@testable import Customers
@testable import ReceiptService

/// Scenarios of Thaqalayn.
@Suite struct ThaqalaynScenarioTests {
  private struct Preferences: Equatable {
    var isPremium: Bool
    var bookmarkLimit: Int
  }

  private func preferences(of user: ShippedUser) async throws -> Preferences? {
    try await user.harness.pool.query(
      "SELECT is_premium, bookmark_limit FROM user_preferences WHERE user_id = \(user.id)"
    ).first.map {
      Preferences(isPremium: try $0.decode("is_premium"), bookmarkLimit: try $0.decode("bookmark_limit"))
    }
  }

  /// A signed app transaction of a download on that day.
  private func show(_ date: String, _ user: ShippedUser) async throws -> Answer {
    let day = try Date(date + "T12:00:00Z", strategy: .iso8601)
    let signed = try user.harness.store.appTransaction(of: Thaqalayn.bundleID, originalPurchaseDate: day)
      .signed
    return try await user.harness.send(
      .put, "/api/v1/profiles/\(user.id.uuidString.lowercased())/premium",
      json: #"{"signedAppTransaction": "\#(signed)"}"#, token: user.token)
  }

  @Test func `Thaqalayn's free tier has surah 1, and Premium has all 114 surahs and five layers`()
    async throws
  {
    try await withShippedApps { harness in
      let anna = harness.user(of: Thaqalayn.bundleID)
      let free = try await anna.fetches()
      #expect(free["entitlements.features.surahs"] as? Int == 1)
      _ = try await anna.buys(Thaqalayn.tafsir)
      let premium = try await anna.fetches()
      #expect(premium["entitlements.features.surahs"] as? Int == 114)
      #expect(premium["entitlements.features.commentaryLayers"] as? Int == 5)
    }
  }

  @Test func `a Thaqalayn lifetime purchase gives premium without expiry`() async throws {
    try await withShippedApps { harness in
      let anna = harness.user(of: Thaqalayn.bundleID)
      let bought = try await anna.buys(Thaqalayn.tafsir)
      for _ in 0..<2 {
        let answer = try await anna.fetches()
        #expect(answer.bool("isPremium") == true)
        #expect(answer.isNull("premiumExpiresAt"))
        #expect(answer.string("premiumProductID") == Thaqalayn.tafsir)
        #expect(answer.bool("willRenew") == false)
        harness.clock.advance(days: 10_000)
      }
      #expect(try await harness.row(of: bought.originalTransactionID).expiry == nil)
      #expect(try await preferences(of: anna) == Preferences(isPremium: true, bookmarkLimit: 999))
    }
  }

  @Test func `a Thaqalayn lifetime purchase never ends offline, until a response tells of a refund`()
    async throws
  {
    try await withShippedApps { harness in
      let anna = harness.user(of: Thaqalayn.bundleID)
      let bought = try await anna.buys(Thaqalayn.tafsir)
      let answer = try await anna.fetches()
      #expect(answer.string("entitlements.offlineGraceUntil") == "9999-12-31T23:59:59Z")
      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      #expect(try await anna.fetches().isNull("entitlements.offlineGraceUntil"))
    }
  }

  @Test func `a Thaqalayn user is free after a refund`() async throws {
    try await withShippedApps { harness in
      let anna = harness.user(of: Thaqalayn.bundleID)
      let bought = try await anna.buys(Thaqalayn.tafsir)
      harness.clock.advance(days: 3)
      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      let answer = try await anna.fetches()
      #expect(answer.bool("isPremium") == false)
      #expect(answer["entitlements.features.surahs"] as? Int == 1)
      #expect(try await preferences(of: anna) == Preferences(isPremium: false, bookmarkLimit: 2))
      // The device's transaction from before the refund grants nothing.
      #expect(try await anna.syncs([bought]).bool("isPremium") == false)
    }
  }

  @Test func `one user's premium is never visible to another on the same phone`() async throws {
    try await withShippedApps { harness in
      let anna = harness.user(of: Thaqalayn.bundleID)
      let boris = harness.user(of: Thaqalayn.bundleID)
      let bought = try harness.buy(Thaqalayn.tafsir, bundleID: Thaqalayn.bundleID)
      // Both sign in alternately on one phone, which syncs its one purchase for each.
      #expect(try await anna.syncs([bought]).bool("isPremium") == true)
      for _ in 0..<3 {
        #expect(try await boris.syncs([bought]).code == "belongs_to_another_customer")
        #expect(try await boris.isPremium() == false)
        #expect(try await boris.syncs([]).bool("isPremium") == false)
        #expect(try await preferences(of: boris)?.isPremium ?? false == false)
        #expect(try await anna.isPremium() == true)
      }
      // A user's token does not read another user's profile.
      #expect(try await harness.profile(of: anna.id, token: boris.token).status == 403)
    }
  }

  @Test func `a Thaqalayn request without a valid token gets 401, and an unknown user is free`() async throws
  {
    try await withShippedApps { harness in
      let anna = harness.user(of: Thaqalayn.bundleID)
      _ = try await anna.buys(Thaqalayn.tafsir)
      let anonymous = try await harness.profile(of: anna.id, token: nil)
      #expect(anonymous.status == 401)
      #expect(anonymous["isPremium"] == nil)
      let forged = try await harness.profile(
        of: anna.id, token: harness.token(for: anna.id, secret: String(repeating: "x", count: 40)))
      #expect(forged.status == 401)
      // An unknown user with a valid token is free.
      let unknown = harness.user(of: Thaqalayn.bundleID)
      #expect(try await unknown.isPremium() == false)
      #expect(try await unknown.fetches()["entitlements.features.surahs"] as? Int == 1)
    }
  }

  @Test func `Thaqalayn users with a download before 2025-10-07 are premium without end`() async throws {
    try await withShippedApps { harness in
      let early = harness.user(of: Thaqalayn.bundleID)
      let late = harness.user(of: Thaqalayn.bundleID)
      for _ in 0..<2 {
        let shown = try await show("2025-10-06", early)
        #expect(shown.bool("isPremium") == true)
      }
      #expect(try await show("2025-10-07", late).bool("isPremium") == false)
      #expect(try await preferences(of: early) == Preferences(isPremium: true, bookmarkLimit: 999))
      harness.clock.advance(days: 10_000)
      #expect(try await early.isPremium() == true)
      #expect(try await harness.count("grants") == 1)
    }
  }

  @Test func `a status that the app's table refuses is retried with growing delays until it is written`()
    async throws
  {
    try await withShippedApps { harness in
      let anna = harness.user(of: Thaqalayn.bundleID)
      _ = try await harness.pool.query(
        "ALTER TABLE user_preferences ADD CONSTRAINT refuses CHECK (NOT is_premium)")
      _ = try await anna.buys(Thaqalayn.tafsir)
      // The purchase is stored, and the response does not wait for the table.
      #expect(try await anna.isPremium() == true)
      #expect(try await preferences(of: anna)?.isPremium ?? false == false)
      var delays: [TimeInterval] = []
      for _ in 0..<4 {
        let next = try await harness.pool.query("SELECT min(next_attempt_at) FROM outbox")[0]
          .decode("min", as: Date.self)
        delays.append(next.timeIntervalSince(harness.clock.now))
        harness.clock.set(max(next, harness.clock.now))
        try await harness.service.customers.profileRetry.run()
      }
      let (first, last) = (try #require(delays.first), try #require(delays.last))
      #expect(last > first)
      _ = try await harness.pool.query("ALTER TABLE user_preferences DROP CONSTRAINT refuses")
      harness.clock.advance(days: 1)
      try await harness.service.customers.profileRetry.run()
      #expect(try await preferences(of: anna) == Preferences(isPremium: true, bookmarkLimit: 999))
      #expect(try await harness.count("outbox") == 0)
    }
  }

  @Test func `a refund of a Thaqalayn purchase ends its restored transactions too`() async throws {
    try await withShippedApps { harness in
      let anna = harness.user(of: Thaqalayn.bundleID)
      let bought = try await anna.buys(Thaqalayn.tafsir)
      harness.clock.advance(days: 3)
      // Restored on another device it has its own transaction id and the same original id.
      var restored = bought.transaction
      restored.transactionId = "2999999999999999"
      restored.purchaseDate = harness.clock.now
      restored.signedDate = harness.clock.now
      let proof = try harness.sign(restored)
      #expect(try await harness.sync([proof], user: anna.id, token: anna.token).bool("isPremium") == true)
      harness.clock.advance(days: 1)
      try await harness.happens(
        .refund(transactionID: bought.transactionID, percentage: 100, reason: .refundedForOtherReason),
        to: bought.originalTransactionID)
      #expect(try await anna.isPremium() == false)
      // Syncing it again does not restore access; a reversal does.
      _ = try await harness.sync([proof], user: anna.id, token: anna.token)
      #expect(try await anna.isPremium() == false)
      try await harness.happens(
        .reverseRefund(transactionID: bought.transactionID), to: bought.originalTransactionID)
      #expect(try await anna.isPremium() == true)
    }
  }
}
