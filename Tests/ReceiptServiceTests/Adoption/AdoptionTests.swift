import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import Synchronization
import Testing
import Text

@testable import Adoption
@testable import ReceiptService

/// `receiptd adopt` on the legacy tables of live apps.
@Suite struct AdoptionTests {
  @Test func `each claim has its verdict, and only true ones give access`() async throws {
    try await LiveApps.with { live in
      let paying = try await live.legacyCustomer(live[1])
      let refunded = try await live.legacyCustomer(live[2])
      _ = try live.harness.store.perform(.refundLatest, on: refunded.originalTransactionID)
      // The customer's row claims more than was paid.
      let expired = try await live.legacyCustomer(live[3])
      try await live.setProfile(
        live[3], expired.originalTransactionID, until: live.harness.clock.now + 9 * 365 * 86_400)
      _ = try live.harness.store.perform(.setAutoRenew(false), on: expired.originalTransactionID)
      live.harness.clock.set(try #require(expired.transaction.expiresDate) - 86_400)
      let annual = try await live.legacyCustomer(live[9], SwiftClimb.annual)
      live.harness.clock.advance(days: 2)
      _ = try live.harness.store.perform(.expire(nil), on: expired.originalTransactionID)
      try await live.harness.happens(.renew, to: paying.originalTransactionID)
      try await live.setProfile(live[4], "2999999999999999", until: .distantFuture)
      let owned = try live.buy(token: live[8])
      try await live.harness.arrives(owned)
      try await live.setProfile(live[5], owned.originalTransactionID, until: owned.transaction.expiresDate)
      let shared = try await live.legacyCustomer(live[6])
      try await live.setProfile(live[7], shared.originalTransactionID, until: shared.transaction.expiresDate)

      let dry = try await live.adopt(isDryRun: true)
      #expect(try await live.harness.count("adoptions") == 0)
      #expect(try await live.harness.count("subscriptions") == 2)
      let report = try await live.adopt()
      #expect(report.outcomes == dry.outcomes)
      #expect(
        report.outcomes == [
          "bound": 3, "refunded": 1, "expired": 1, "unknown": 1, "another_customer": 1, "claimed_twice": 2,
        ])
      #expect(try await live.profile(live[1]).product == SwiftClimb.monthly)
      #expect(try await live.profile(live[2]) == ProfileRow())
      #expect(try await live.profile(live[3]).expiresAt == expired.transaction.expiresDate)
      #expect(try await live.profile(live[9]).expiresAt == annual.transaction.expiresDate)
    }
  }

  @Test func `a renewal of an adopted customer reaches the profile`() async throws {
    try await LiveApps.with { live in
      let bought = try await live.legacyCustomer(live[1], SwiftClimb.annual)
      // Before: the notification names no user.
      try await live.harness.happens(.setAutoRenew(true), to: bought.originalTransactionID)
      let report = try await live.adopt()
      #expect(report.outcomes == ["bound": 1])
      live.harness.clock.set(try #require(bought.transaction.expiresDate))
      let renewed = try await live.harness.happens(.renew, to: bought.originalTransactionID)
      #expect(try await live.profile(live[1]).expiresAt == renewed.transaction.expiresDate)
      try await live.harness.happens(.refundLatest, to: bought.originalTransactionID)
      #expect(try await live.profile(live[1]) == ProfileRow())
    }
  }

  @Test func `of two customers with one transaction the one that Apple names gets it`() async throws {
    try await LiveApps.with { live in
      let bought = try live.buy(token: live[2])
      for user in [live[1], live[2]] {
        try await live.setProfile(user, bought.originalTransactionID, until: bought.transaction.expiresDate)
      }
      let report = try await live.adopt()
      #expect(report.outcomes == ["bound": 1, "another_customer": 1])
      #expect(report.listed.map(\.customer) == [live[1].uuidString.lowercased()])
      #expect(try await live.harness.row(of: bought.originalTransactionID).userID == live[2])
      // The false claim is gone, since the table is observed.
      #expect(report.falseClaimsCleared == 1)
      #expect(try await live.profile(live[1]) == ProfileRow())
      #expect(try await live.profile(live[2]).product == SwiftClimb.monthly)
    }
  }

  @Test func `a purchase without an account token that two customers claim stays unbound`() async throws {
    try await LiveApps.with { live in
      let bought = try live.buy()
      for user in [live[1], live[2]] {
        try await live.setProfile(user, bought.originalTransactionID, until: bought.transaction.expiresDate)
      }
      let report = try await live.adopt()
      #expect(report.outcomes == ["claimed_twice": 2])
      #expect(
        report.description.contains(
          "\(live[1].uuidString.lowercased()) claims \(bought.originalTransactionID)"))
      #expect(try await live.harness.row(of: bought.originalTransactionID).userID == nil)
      // Both rows stay as they are until support decides.
      #expect(try await live.profile(live[1]).product == SwiftClimb.monthly)
    }
  }

  @Test
  func
    `a claim of the original transaction binds the purchase, and one of another transaction stays contested`()
    async throws
  {
    try await LiveApps.with { live in
      // The thief's row sorts and is looked up in any order: several purchases.
      for _ in 0..<4 {
        let bought = try live.buy(SwiftClimb.annual)
        let renewed = try live.harness.store.perform(.renew, on: bought.originalTransactionID)
        try await live.setProfile(live[1], renewed.transaction.transactionId, until: .distantFuture)
        try await live.setProfile(
          live[2], bought.originalTransactionID, until: renewed.transaction.expiresDate)
        let dry = try await live.adopt(isDryRun: true)
        let report = try await live.adopt()
        #expect(dry.outcomes == report.outcomes)
        #expect(report.listed.map(\.customer).contains(live[1].uuidString.lowercased()))
        #expect(!report.listed.map(\.customer).contains(live[2].uuidString.lowercased()))
        #expect(try await live.harness.row(of: bought.originalTransactionID).userID == live[2])
        // Either of them may have paid, so the row stays as it is until support decides.
        #expect(
          try await live.profile(live[1]).originalTransactionID == renewed.transaction.transactionId)
      }
    }
  }

  @Test func `a further run does not count the row that the first run wrote`() async throws {
    try await LiveApps.with { live in
      let bought = try live.buy(SwiftClimb.annual)
      let renewed = try live.harness.store.perform(.renew, on: bought.originalTransactionID)
      try await live.setProfile(live[1], renewed.transaction.transactionId, until: .distantFuture)
      for _ in 0..<2 {
        let report = try await live.adopt()
        #expect(report.outcomes == ["bound": 1])
        #expect(try await live.profile(live[1]).originalTransactionID == bought.originalTransactionID)
      }
    }
  }

  @Test func `claims of two customers to different transactions of one purchase bind it to neither`()
    async throws
  {
    try await LiveApps.with { live in
      let bought = try live.buy(SwiftClimb.annual)
      let id = bought.originalTransactionID
      let first = try live.harness.store.perform(.renew, on: id)
      let second = try live.harness.store.perform(.renew, on: id)
      try await live.setProfile(live[1], first.transaction.transactionId, until: .distantFuture)
      try await live.setProfile(live[2], second.transaction.transactionId, until: .distantFuture)
      #expect(try await live.adopt(isDryRun: true).outcomes == ["claimed_twice": 2])
      #expect(try await live.adopt().outcomes == ["claimed_twice": 2])
      #expect(try await live.harness.row(of: id).userID == nil)
      // Alone it binds the purchase.
      try await live.setProfile(live[2], nil, product: nil, until: nil)
      _ = try await live.harness.pool.query("DELETE FROM adoptions")
      #expect(try await live.adopt().outcomes == ["bound": 1])
      #expect(try await live.harness.row(of: id).userID == live[1])
    }
  }

  @Test func `values that clients wrote in accept go with the next run in observe`() async throws {
    try await LiveApps.with([SwiftClimb.bundleID: "accept"]) { live in
      let claimed = try await live.legacyCustomer(live[1])
      let known = try live.buy(token: live[3])
      try await live.harness.arrives(known)
      #expect(try await live.adopt().outcomes == ["bound": 2])
      let rows = [try await live.profile(live[1]), try await live.profile(live[3])]
      try await live.writesPremium(live[1], claimed.originalTransactionID, until: "2099-01-01T00:00:00Z")
      try await live.run(
        "UPDATE profiles SET premium_expires_at = '2099-01-01', premium_original_transaction_id = NULL "
          + "WHERE id = '\(live[3])'", as: live[3])
      // Nothing is known of this user.
      try await live.setProfile(live[4], nil, until: live.harness.clock.now - 60)
      let waiting = try await live.profile(live[4])
      #expect(try await live.adopt().rowsCorrected == 0)
      #expect(try await live.profile(live[1]).expiresAt?.rfc3339 == "2099-01-01T00:00:00Z")

      let other = try await live.harness.service(configuration: LiveApps.configuration([:]))
      let report = try #require(
        try await other.adoption.adopt(bundleID: SwiftClimb.bundleID, isDryRun: false).first)
      await other.close()
      #expect(report.rowsCorrected == 2)
      #expect(report.description.contains("2 rows had other values and now have the true status"))
      #expect([try await live.profile(live[1]), try await live.profile(live[3])] == rows)
      #expect(try await live.profile(live[4]) == waiting)
    }
  }

  @Test func `a false claim stays in accept, and goes with the next run in observe`() async throws {
    try await LiveApps.with([SwiftClimb.bundleID: "accept"]) { live in
      try await live.setProfile(live[4], "2999999999999999", until: live.harness.clock.now + 1e8)
      let report = try await live.adopt()
      #expect(report.outcomes == ["unknown": 1])
      #expect(report.falseClaimsLeft == 1)
      #expect(try await live.profile(live[4]).product == SwiftClimb.monthly)
      let other = try await live.harness.service(configuration: LiveApps.configuration([:]))
      let again = try #require(
        try await other.adoption.adopt(bundleID: SwiftClimb.bundleID, isDryRun: false).first)
      await other.close()
      #expect(again.falseClaimsCleared == 1)
      #expect(try await live.profile(live[4]) == ProfileRow())
    }
  }

  @Test func `a customer who paid without a transaction id keeps access by an award`() async throws {
    try await LiveApps.with { live in
      let end = live.harness.clock.now + 20 * 86_400
      try await live.setProfile(live[1], nil, until: end)
      let climb = try await live.adopt()
      #expect(climb.outcomes == ["awarded": 1])
      #expect(try await live.profile(live[1]).expiresAt == end)
      #expect(try await live.profile(live[1]).product == "grant:premium")

      let tafsir = try await live.adopt(Thaqalayn.bundleID)
      #expect(tafsir.outcomes == ["awarded": 3])
      let again = try await live.adopt(Thaqalayn.bundleID)
      #expect(again.outcomes == ["awarded": 3])
      let grants = try await live.harness.pool.query(
        "SELECT user_id, ends_at, reason, granted_by FROM grants WHERE bundle_id = \(Thaqalayn.bundleID) ORDER BY user_id"
      )
      #expect(try grants.map { try $0.decode("user_id", as: UUID.self) } == [live[5], live[6], live[7]])
      #expect(try grants[0].decode("ends_at", as: Date?.self) == nil)
      #expect(try grants[0].decode("granted_by", as: String.self) == "adopt")
      #expect(
        try grants[0].decode("reason", as: String.self) == "legacy: is_premium = true in user_preferences")
      #expect(try await live.harness.count("grants") == 4)

      // Nothing that happens later takes it away: a refund of a further purchase, for one.
      let bought = try live.buy(Thaqalayn.tafsir, bundleID: Thaqalayn.bundleID, token: live[6])
      try await live.harness.arrives(bought)
      try await live.harness.happens(.refundLatest, to: bought.originalTransactionID)
      try await live.harness.pass(days: 400)
      #expect(try await live.harness.isPremiumInPreferences(live[6]) == true)
      #expect(try await live.harness.isPremiumInPreferences(live[8]) == false)
      #expect(try await live.profile(live[1]) == ProfileRow())
    }
  }

  @Test func `a device of a legacy subscription owns it`() async throws {
    try await LiveApps.with { live in
      let bought = try live.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      let insert = { (device: String, id: String) async throws in
        _ = try await live.harness.pool.query(
          """
          INSERT INTO subscriptions (device_id, original_transaction_id, transaction_id, product_id, tier, status,
            purchase_date, expiry_date)
          VALUES (\(device), \(id), \(id), \(ScreenTime.family), 'family', 'active', now(), now() + interval '20 days')
          """)
      }
      try await insert("ABC123-DEF456", bought.originalTransactionID)
      try await insert("DEVICE-D", "2000000123456792")
      let long = try live.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      try await insert(String(repeating: "d", count: 255), long.originalTransactionID)
      let report = try await live.adopt(ScreenTime.bundleID)
      #expect(report.outcomes == ["bound": 2, "unknown": 1])
      let row = try await live.harness.row(of: bought.originalTransactionID)
      #expect(row.deviceID == "ABC123-DEF456")
      #expect(row.expiry == bought.transaction.expiresDate)
      let entitlements = try await live.harness.entitlements("ABC123-DEF456", of: ScreenTime.bundleID)
      #expect(entitlements.string("entitlements.tier") == "family")
      // A claim of Heatlab is none.
      #expect(try await live.adopt(Heatlab.bundleID).claims == 0)
      let again = try await live.adopt(ScreenTime.bundleID)
      #expect(again.outcomes == report.outcomes)
    }
  }

  @Test func `a run that was stopped twice continues and ends with the whole report`() async throws {
    try await LiveApps.with { live in
      let count = 60
      var expected: [UUID: String] = [:]
      for number in 1...count {
        let user = UUID()
        let bought = try live.buy()
        let id = number % 5 == 0 ? "29999999999999\(number)" : bought.originalTransactionID
        expected[user] = number % 5 == 0 ? "unknown" : "bound"
        _ = try await live.harness.pool.query("INSERT INTO auth.users (id) VALUES (\(user))")
        _ = try await live.harness.pool.query("INSERT INTO profiles (id) VALUES (\(user))")
        try await live.setProfile(user, id, until: bought.transaction.expiresDate)
      }
      for stop in [10, 30] {
        let (reached, continuation) = AsyncStream.makeStream(of: Void.self)
        let service = try await live.harness.service(configuration: LiveApps.configuration([:]))
        let run = Task {
          try await service.adoption.adopt(bundleID: SwiftClimb.bundleID, isDryRun: false) { _, done, _ in
            if done >= stop { continuation.yield() }
          }
        }
        _ = await reached.first { true }
        run.cancel()
        await service.close()
        _ = try? await run.value
      }
      let report = try await live.adopt()
      #expect(report.claims == count)
      #expect(report.outcomes == ["bound": 48, "unknown": 12])
      let rows = try await live.harness.pool.query(
        "SELECT customer, outcome FROM adoptions WHERE original_transaction_id <> ''")
      var stored: [UUID: String] = [:]
      for row in rows {
        stored[try #require(UUID(uuidString: try row.decode("customer")))] = try row.decode("outcome")
      }
      #expect(stored == expected)
      // A further run asks about unknown ids only, and keeps its verdicts without an answer.
      live.harness.store.add(.error(.generalInternal))
      #expect(try await live.adopt().outcomes == report.outcomes)
    }
  }

  @Test func `without a key every claim waits, and the report says so`() async throws {
    try await LiveApps.with(environment: [
      "APP_STORE_KEY": "", "APP_STORE_KEY_ID": "", "APP_STORE_ISSUER_ID": "",
    ]) {
      live in
      try await live.setProfile(live[1], "2000000000001001", until: .distantFuture)
      let report = try await live.adopt()
      #expect(report.outcomes == ["failed": 1])
      #expect(!report.isComplete)
      #expect(report.listed.first?.detail == "No App Store Connect key is configured for this app.")
      #expect(try await live.profile(live[1]).originalTransactionID == "2000000000001001")
    }
  }
}
