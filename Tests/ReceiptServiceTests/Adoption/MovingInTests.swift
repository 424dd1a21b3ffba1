import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import Subscriptions
import Testing
import Text

@testable import Adoption
@testable import Ledger
@testable import ReceiptService

/// The four apps move in: their tables with their rows, statements and request bodies, letter by letter, on one
/// database.
@Suite struct MovingInTests {
  /// The modes of `clientWrites`: those of the shipped configuration, or one for all apps.
  enum Modes: String, CaseIterable {
    case shipped, accept, observe, refuse

    var clientWrites: [String: String] {
      guard self != .shipped else { return [:] }
      return [SwiftClimb.bundleID, Thaqalayn.bundleID, ScreenTime.bundleID].reduce(into: [:]) {
        $0[$1] = rawValue
      }
    }

    var ofSwiftClimb: ClientWrites { ClientWrites(rawValue: rawValue) ?? .observe }
    var ofThaqalayn: ClientWrites { ClientWrites(rawValue: rawValue) ?? .accept }
    var ofScreenTime: ClientWrites { ClientWrites(rawValue: rawValue) ?? .accept }
  }

  @Test(arguments: Modes.allCases)
  func `old builds work, and exactly the paying customers have access, until after a refund`(
    modes: Modes
  ) async throws {
    /// The customers who paid, as `climb`, `tafsir` or `device` and their number or id.
    var paying: Set = [
      "climb 1", "climb 2", "tafsir 5", "tafsir 6", "tafsir 7", "device ABC123-DEF456", "device DEVICE-B",
      "device DEVICE-C",
    ]
    // 4 invented a transaction id, and the App Store was not asked yet.
    var falseClaims: Set = ["climb 4"]
    try await LiveApps.with(modes.clientWrites) { pool in
      let former = FormerBackend(pool: pool)
      // Two purchases with old builds: 9 signs up and buys in Thaqalayn, and buys in SwiftClimb.
      try await former.signsUp(LiveTables.user(9))
      #expect(try await former.writesIsPremium(LiveTables.user(9)) == true)
      try await former.writesPremium(LiveTables.user(9), "2000000000001005")
      paying.insert("tafsir 9")
      // The statement has a fixed date, which the App Store's replaces later.
      let instant = Date()
      if instant.rfc3339 < "2027-01-19T10:00:00Z" { paying.insert("climb 9") }
      try await Self.oldBuildsWork(former)
      #expect(try await Self.columns(pool, at: instant) == paying.union(falseClaims))
      try await Migrator(pool: pool, folder: Harness.migrations).apply()
      try await Self.oldBuildsWork(former)
      #expect(try await Self.columns(pool, at: instant) == paying.union(falseClaims))
    } body: { live in
      let harness = live.harness
      try Self.sell(in: harness)
      func everythingIsAsPaid(sourceLocation: SourceLocation = #_sourceLocation) async throws {
        try await harness.service.sweepEverything()
        // The column has the first device of a purchase.
        let owners = paying.subtracting(["device NEW-DEVICE"])
        #expect(
          try await Self.columns(live.pool, at: harness.clock.now) == owners.union(falseClaims),
          sourceLocation: sourceLocation)
        #expect(try await Self.answers(harness) == paying, sourceLocation: sourceLocation)
        try await Self.oldBuildsWork(live, sourceLocation: sourceLocation)
      }

      // Adopt.
      let columns = try await Self.columns(live.pool, at: harness.clock.now)
      let dry = try await harness.service.adoption.adopt(isDryRun: true).map(\.outcomes)
      #expect(try await harness.count("adoptions") == 0)
      #expect(try await Self.columns(live.pool, at: harness.clock.now) == columns)
      #expect(try await harness.service.adoption.adopt(isDryRun: false).map(\.outcomes) == dry)
      #expect(
        dry == [
          ["bound": 3, "expired": 1, "unknown": 1], ["bound": 3, "expired": 1], ["awarded": 4], [:],
        ])
      if modes.ofSwiftClimb != .accept { falseClaims = [] }
      paying.insert("climb 9")
      try await everythingIsAsPaid()

      // Old builds and the running server.
      for (device, id, tier) in [
        ("ABC123-DEF456", "2000000123456789", OldBuildResponse.Subscription.Tier.family),
        ("DEVICE-B", "2000000123456790", .individual),
      ] {
        let answer = try await harness.oldBuild(device, validates: id)
        #expect(answer.status == .active)
        #expect(answer.tier == tier)
      }
      #expect(try await harness.oldBuild("DEVICE-C", validates: "2000000123456791").status == .grace)
      #expect(try await harness.oldBuild("DEVICE-D", validates: "2000000123456792").status == .expired)
      #expect(try await harness.oldBuildRequest("DEVICE-E", "2000000123459999").status == 404)
      // After delete and reinstall.
      if modes.ofScreenTime == .refuse {
        #expect(try await harness.oldBuildRequest("NEW-DEVICE", "2000000123456789").status == 409)
      } else {
        #expect(try await harness.oldBuild("NEW-DEVICE", validates: "2000000123456789").tier == .family)
        paying.insert("device NEW-DEVICE")
      }
      try await Self.oldBuildsBuy(live, modes)
      switch modes.ofSwiftClimb {
      case .accept: falseClaims.formUnion(["climb 7", "climb 8"])
      case .observe, .refuse: break
      }
      try await live.verifyClaims()
      if modes.ofSwiftClimb != .refuse { paying.insert("climb 6") }
      if modes.ofThaqalayn == .accept {
        // No transaction to verify: the customer has what the old build wrote, until a run with the flag gives the
        // award.
        #expect(try await live.readsIsPremium(live[4]) == true)
        let again = try await harness.service.adoption.adopt(
          bundleID: Thaqalayn.bundleID, isDryRun: false, clientAwardDays: 366)
        #expect(again.first?.outcomes == ["awarded": 5])
        paying.insert("tafsir 4")
      }
      try await everythingIsAsPaid()

      // Renewals.
      harness.clock.advance(days: 2)
      try await harness.happens(.recover, to: "2000000123456791")
      try await everythingIsAsPaid()
      harness.clock.set(try #require(harness.store.truth(of: "2000000000001001")?.expiresDate))
      for id in ["2000000000001001", "2000000123456789", "2000000123456790"] {
        try await harness.happens(.renew, to: id)
      }
      harness.clock.advance(seconds: 60)
      try await everythingIsAsPaid()

      // Refunds.
      for id in ["2000000000001002", "2000000123456789"] { try await harness.happens(.refundLatest, to: id) }
      paying.subtract(["climb 2", "device ABC123-DEF456", "device NEW-DEVICE"])
      harness.clock.advance(seconds: 60)
      #expect(
        try await harness.oldBuild("ABC123-DEF456", validates: "2000000123456789").status == .cancelled)
      try await everythingIsAsPaid()

      // Observe, adopt once more, refuse.
      for mode in ["observe", "refuse"] {
        let configuration = try LiveApps.configuration([
          SwiftClimb.bundleID: mode, Thaqalayn.bundleID: mode, ScreenTime.bundleID: mode,
        ])
        let server = try await harness.service(configuration: configuration)
        try await server.configuredApps.write()
        _ = try await server.adoption.adopt(isDryRun: false)
        await server.close()
        falseClaims = []
        try await everythingIsAsPaid()
      }
      #expect(try await live.isRefused { try await live.writesPremium(live[8], "2000000000001001") })
    }
  }

  // MARK: The App Store

  /// What the rows of the tables say, in the App Store. It does not know what user 4 invented.
  private static func sell(in harness: Harness) throws {
    var calendar = Calendar(identifier: .gregorian)
    calendar.timeZone = .gmt
    let monthAgo = try #require(calendar.date(byAdding: .month, value: -1, to: harness.clock.now))
    let climb = (SwiftClimb.bundleID, SwiftClimb.monthly)
    let family = (ScreenTime.bundleID, ScreenTime.family)
    for ((bundleID, product), id, daysLater) in [
      (climb, "2000000000001001", 20.0), ((climb.0, SwiftClimb.annual), "2000000000001002", -135),
      (climb, "2000000000001003", -3), ((climb.0, SwiftClimb.annual), "2000000000001005", 0),
      ((climb.0, SwiftClimb.annual), "2000000000001006", 0), (family, "2000000123456789", 20),
      ((family.0, ScreenTime.individual), "2000000123456790", 20), (family, "2000000123456791", -3),
      (family, "2000000123456792", -60),
    ] {
      _ = try harness.store.buy(
        PurchaseRequest(
          bundleID: bundleID, productID: product, purchaseDate: monthAgo + daysLater * 86_400,
          transactionID: id))
    }
    _ = try harness.store.perform(.failToRenew(grace: false), on: "2000000123456791")
    for id in ["2000000000001003", "2000000123456792"] {
      _ = try harness.store.perform(.expire(nil), on: id)
    }
  }

  // MARK: Old builds

  /// What old builds send and read without a purchase works as it did, and changes no premium column.
  private static func oldBuildsWork(
    _ builds: some OldBuilds, sourceLocation: SourceLocation = #_sourceLocation
  ) async throws {
    let user = LiveTables.user(1)
    let row = try #require(try await builds.readsProfile(user), sourceLocation: sourceLocation)
    try await builds.writesWholeRow(user, handle: "Ann", row)
    let after = try #require(try await builds.readsProfile(user), sourceLocation: sourceLocation)
    #expect(after.product == row.product, sourceLocation: sourceLocation)
    #expect(after.originalTransactionID == row.originalTransactionID, sourceLocation: sourceLocation)
    #expect(after.expiresAt?.rfc3339 == row.expiresAt?.rfc3339, sourceLocation: sourceLocation)
    // A restore by a customer who has premium.
    #expect(try await builds.writesIsPremium(LiveTables.user(6)) == true, sourceLocation: sourceLocation)
    #expect(try await builds.readsIsPremium(LiveTables.user(8)) == false, sourceLocation: sourceLocation)
    // Support.
    let found = try await builds.pool.query("SELECT * FROM subscriptions WHERE device_id = 'DEVICE-B'")
    #expect(found.count == 1, sourceLocation: sourceLocation)
    let grace = try await builds.pool.query("SELECT * FROM subscriptions WHERE status = 'grace'")
    #expect(grace.count <= 1, sourceLocation: sourceLocation)
  }

  /// Purchases and false claims of old builds beside the running server, as far as each mode promises.
  private static func oldBuildsBuy(_ live: LiveApps, _ modes: Modes) async throws {
    // 6 buys; 7 names a purchase of another app, and 8 that of user 1.
    let forever = "2099-01-01T00:00:00Z"
    for (number, id, expiry) in [
      (6, "2000000000001006", "2027-01-19T10:00:00Z"), (7, "2000000123456789", forever),
      (8, "2000000000001001", forever),
    ] {
      let write = { try await live.writesPremium(live[number], id, until: expiry) }
      if modes.ofSwiftClimb == .refuse {
        #expect(try await live.isRefused(write))
      } else {
        try await write()
        let row = try await live.readsProfile(live[number])
        #expect(row?.originalTransactionID == (modes.ofSwiftClimb == .accept ? id : nil))
      }
    }
    // 4 signs up and buys.
    try await live.signsUp(live[4])
    #expect(try await live.readsIsPremium(live[4]) == false)
    switch modes.ofThaqalayn {
    case .accept: #expect(try await live.writesIsPremium(live[4]) == true)
    case .observe: #expect(try await live.writesIsPremium(live[4]) == false)
    case .refuse: #expect(try await live.isRefused { _ = try await live.writesIsPremium(live[4]) })
    }
  }

  // MARK: Access

  /// The customers with access by the apps' own columns.
  private static func columns(_ pool: PostgresPool, at instant: Date) async throws -> Set<String> {
    let rows = try await pool.query(
      """
      SELECT 'climb ' || right(id::text, 1) AS customer FROM profiles
      WHERE premium_expires_at > \(instant) AND premium_product_id <> ''
      UNION ALL SELECT 'tafsir ' || right(user_id::text, 1) FROM user_preferences
      WHERE is_premium AND bookmark_limit = 999
      UNION ALL SELECT 'device ' || device_id FROM subscriptions
      WHERE device_id <> '' AND status IN ('trial', 'active', 'grace')
      """)
    return Set(try rows.map { try $0.decode("customer", as: String.self) })
  }

  /// The customers with access by receiptd's answers.
  private static func answers(_ harness: Harness) async throws -> Set<String> {
    var customers: Set<String> = []
    for number in 1...9 {
      let user = LiveTables.user(number)
      for (name, project) in [("climb", "swiftclimb"), ("tafsir", "thaqalayn")] {
        let token = try await harness.token(for: user) { $0.iss = "https://\(project).supabase.co/auth/v1" }
        let answer = try await harness.profile(of: user, token: token)
        #expect(answer.status == 200)
        if answer.bool("isPremium") == true { customers.insert("\(name) \(number)") }
      }
    }
    for device in [
      "ABC123-DEF456", "DEVICE-B", "DEVICE-C", "DEVICE-D", "DEVICE-E", "NEW-DEVICE",
    ] {
      let answer = try await harness.entitlements(device)
      if answer.bool("entitlements.isAccessGranted") == true { customers.insert("device \(device)") }
    }
    return customers
  }
}
