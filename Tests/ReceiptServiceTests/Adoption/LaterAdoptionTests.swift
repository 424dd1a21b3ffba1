import Actions
import AppStore
import AppStoreSimulator
import Configuration
import Customers
import Foundation
import Postgres
import Subscriptions
import Testing

@testable import Adoption
@testable import ReceiptService
@testable import Support

/// Further runs of `receiptd adopt`: what clients wrote since the first one, and what the App Store says by now.
@Suite struct LaterAdoptionTests {
  private static func id(_ user: UUID) -> String { user.uuidString.lowercased() }

  /// What an old build writes without a transaction id.
  private static func writesUnnamed(_ live: LiveApps, _ user: UUID) async throws {
    try await live.run(
      """
      UPDATE profiles SET premium_expires_at = '2099-01-01', premium_product_id = '\(SwiftClimb.annual)', \
      premium_original_transaction_id = NULL WHERE id = '\(user)'
      """, as: user)
  }

  // MARK: Awards

  @Test func `a row of user_preferences that a client made premium after the first run gets no award`()
    async throws
  {
    try await LiveApps.with { live in
      let first = try await live.adopt(Thaqalayn.bundleID)
      #expect(first.outcomes == ["awarded": 3])
      #expect(first.awardsToClientWrites == [])
      #expect(first.awardsWithheld == [])
      try await live.run("INSERT INTO user_preferences (user_id) VALUES ('\(live[9])')", as: live[9])
      for user in [live[8], live[9]] { #expect(try await live.writesIsPremium(user) == true) }
      for _ in 0..<2 {
        let report = try await live.adopt(Thaqalayn.bundleID)
        #expect(report.outcomes == ["awarded": 3])
        #expect(report.awardsWithheld == [Self.id(live[8]), Self.id(live[9])])
        #expect(
          report.description.contains("  2 premium since the first adoption by a client's word")
        )
      }
      #expect(try await live.harness.count("grants") == 3)
      // In accept the row keeps what the client wrote.
      #expect(try await live.harness.isPremiumInPreferences(live[9]) == true)
    }
  }

  @Test func `with a flag it gets an award that ends, and no second one`() async throws {
    try await LiveApps.with { live in
      _ = try await live.adopt(Thaqalayn.bundleID)
      try await live.run("INSERT INTO user_preferences (user_id) VALUES ('\(live[9])')", as: live[9])
      for user in [live[8], live[9]] { #expect(try await live.writesIsPremium(user) == true) }

      for isDryRun in [true, false] {
        let report = try await live.adopt(Thaqalayn.bundleID, isDryRun: isDryRun, clientAwardDays: 30)
        #expect(report.outcomes == ["awarded": 5])
        #expect(report.awardsToClientWrites == [Self.id(live[8]), Self.id(live[9])])
        #expect(report.description.contains("  2 \(isDryRun ? "would get" : "got") an award with an end"))
        #expect(report.description.contains("because a client made the row premium after the first adoption"))
        let json = String(decoding: try JSONEncoder().encode(report), as: UTF8.self)
        #expect(json.contains(#""awardsToClientWrites":["\#(Self.id(live[8]))","#))
      }
      let end = live.harness.clock.now + 30 * 86_400
      let grants = try await live.harness.pool.query(
        "SELECT reason, ends_at FROM grants WHERE user_id = \(live[9])")
      #expect(
        try grants[0].decode("reason", as: String.self).hasSuffix(
          "written by a client after the first adoption"))
      #expect(try grants[0].decode("ends_at", as: Date?.self) == end)
      // They are of that run, and not of a later one.
      #expect(try await live.adopt(Thaqalayn.bundleID, clientAwardDays: 30).awardsToClientWrites == [])
      try await live.harness.pass(days: 31)
      #expect(try await live.harness.isPremiumInPreferences(live[9]) == false)
      #expect(try await live.writesIsPremium(live[9]) == true)
      let report = try await live.adopt(Thaqalayn.bundleID, clientAwardDays: 30)
      #expect(report.awardsDenied == [Self.id(live[9])])
      #expect(try await live.harness.count("grants") == 5)
    }
  }

  @Test func `a client's write to profiles after the first run gets no award, whatever the flag`()
    async throws
  {
    try await LiveApps.with([SwiftClimb.bundleID: "accept"]) { live in
      try await live.setProfile(live[1], nil, until: live.harness.clock.now + 20 * 86_400)
      // Written by a client between the migration and the first adoption: as any claim from before.
      try await Self.writesUnnamed(live, live[2])
      #expect(try await live.adopt().outcomes == ["awarded": 2])
      try await Self.writesUnnamed(live, live[3])
      // The former backend writes with the rights of the service.
      try await live.setProfile(live[4], nil, until: live.harness.clock.now + 20 * 86_400)
      for days in [nil, 30] {
        let report = try await live.adopt(clientAwardDays: days)
        #expect(report.outcomes == ["awarded": 3])
        #expect(report.awardsWithheld == [Self.id(live[3])])
      }
      #expect(try await live.harness.count("grants") == 3)
      #expect(try await live.profile(live[3]).product == SwiftClimb.annual)
      let answer = try await live.harness.pool.query("SELECT 1 FROM grants WHERE user_id = \(live[3])")
      #expect(answer.count == 0)
    }
  }

  @Test func `for an app that comes to a table later, the first adoption there counts`() async throws {
    try await LiveApps.with([SwiftClimb.bundleID: "accept"]) { live in
      _ = try await live.adopt()
      let service = live.harness.service
      let (first, later) = (
        try #require(service.support.catalog[SwiftClimb.bundleID]),
        try #require(service.support.catalog[Thaqalayn.bundleID])
      )
      let modes = service.adoption.modes
      func run(_ tables: [ProfileTable]) async throws -> AdoptionRun {
        try await AdoptionRun.begin(
          for: later, on: tables, modes: modes, isOfFile: false, isDryRun: true, in: live.harness.pool)
      }
      #expect(try await run([.userPreferences]).firstStarts["user_preferences"] == nil)
      #expect(try await run([.profiles]).firstStarts["profiles"] != nil)
      // Of two tables only the one with a run has a first adoption.
      #expect(try await run([.profiles, .userPreferences]).firstStarts.keys.sorted() == ["profiles"])
      // A run of an earlier version does not tell its tables.
      _ = try await live.harness.pool.query("UPDATE adoption_runs SET tables = NULL")
      #expect(try await run([.userPreferences]).firstStarts["user_preferences"] == nil)
      #expect(try await run([.profiles]).firstStarts["profiles"] != nil)
      #expect(!modes.bundleIDs(notWritingTo: [.profiles]).contains(first.bundleID))
    }
  }

  @Test func `a stopped first run and an import of a file are no first adoption`() async throws {
    try await LiveApps.with([SwiftClimb.bundleID: "accept"]) { live in
      let bought = try live.buy()
      _ = try await live.adopt(
        csv: "customer,original_transaction_id\n\(live[5]),\(bought.originalTransactionID)\n")
      try await Self.writesUnnamed(live, live[1])
      // A first run that was stopped at once.
      _ = try await live.harness.pool.query(
        "INSERT INTO adoption_runs (bundle_id) VALUES (\(SwiftClimb.bundleID))")
      try await Self.writesUnnamed(live, live[2])
      #expect(try await live.adopt().outcomes["awarded"] == 2)
      #expect(try await live.harness.count("adoption_runs") == 2)
      try await Self.writesUnnamed(live, live[3])
      #expect(try await live.adopt().awardsWithheld == [Self.id(live[3])])
    }
  }

  @Test func `a customer whose claim was decided gets no award by writing premium again`() async throws {
    try await LiveApps.with([SwiftClimb.bundleID: "accept"]) { live in
      try await live.setProfile(live[1], "2999999999999999", until: .distantFuture)
      let refunded = try live.buy()
      try await live.setProfile(live[2], refunded.originalTransactionID, until: .distantFuture)
      _ = try live.harness.store.perform(.refundLatest, on: refunded.originalTransactionID)
      let first = try await live.adopt()
      #expect(first.outcomes == ["unknown": 1, "refunded": 1])
      // The job decides this claim.
      try await live.writesPremium(live[3], "2999999999999998")
      try await live.verifyClaims()

      for number in 1...4 { try await Self.writesUnnamed(live, live[number]) }
      let report = try await live.adopt()
      #expect(report.outcomes == ["unknown": 1, "refunded": 1])
      #expect(report.awardsWithheld == [Self.id(live[4])])
      #expect(report.awardsDenied == [1, 2, 3].map { Self.id(live[$0]) })
      #expect(report.description.contains("  3 premium by a client's word only, against"))
      #expect(try await live.harness.count("grants") == 0)
    }
  }

  @Test func `an award that support revoked is not given again, and the report says that it is over`()
    async throws
  {
    try await LiveApps.with { live in
      #expect(try await live.adopt(Thaqalayn.bundleID).outcomes == ["awarded": 3])
      let grant = try await live.harness.pool.query(
        "SELECT id FROM grants WHERE user_id = \(live[6])")[0].decode("id", as: UUID.self)
      _ = try await live.harness.desk.revokeGrant(grant, by: SupportAuthor.adoption("test"))
      #expect(try await live.harness.isPremiumInPreferences(live[6]) == false)
      #expect(try await live.writesIsPremium(live[6]) == true)
      // A purchase that was refunded decides the row, too.
      let bought = try live.buy(Thaqalayn.tafsir, bundleID: Thaqalayn.bundleID, token: live[8])
      try await live.harness.arrives(bought)
      try await live.harness.happens(.refundLatest, to: bought.originalTransactionID)
      #expect(try await live.writesIsPremium(live[8]) == true)

      let report = try await live.adopt(Thaqalayn.bundleID)
      #expect(report.outcomes == ["awarded": 2, "award_ended": 1])
      #expect(report.awardsDenied == [Self.id(live[6]), Self.id(live[8])])
      #expect(try await live.harness.count("grants") == 3)
    }
  }

  // MARK: Verdicts

  @Test func `a further run has the verdicts of now, and asks again where Apple may say something else`()
    async throws
  {
    try await LiveApps.with { live in
      let (renewed, refunded) = (try live.buy(), try live.buy(SwiftClimb.annual))
      let (ended, moved) = (try live.buy(), try live.buy(SwiftClimb.annual))
      for (number, bought) in [renewed, refunded, ended, moved].enumerated() {
        try await live.setProfile(
          live[number + 1], bought.originalTransactionID, until: bought.transaction.expiresDate)
      }
      live.harness.store.add(ServerFault.error(.transactionIdNotFound))
      #expect(try await live.adopt().outcomes == ["unknown": 4])
      live.harness.store.clearServerFaults()
      #expect(try await live.adopt().outcomes == ["bound": 4])

      // No notification tells of the renewal. Of the refund and the transfer receiptd knows.
      _ = try live.harness.store.perform(.setAutoRenew(false), on: ended.originalTransactionID)
      live.harness.clock.set(try #require(renewed.transaction.expiresDate) + 60)
      _ = try live.harness.store.perform(.expire(nil), on: ended.originalTransactionID)
      _ = try live.harness.store.perform(.renew, on: renewed.originalTransactionID)
      try await live.harness.happens(.refundLatest, to: refunded.originalTransactionID)
      _ = try await live.harness.desk.transfer(
        moved.originalTransactionID, to: live[9].uuidString, by: SupportAuthor.adoption("test"))
      let third = try await live.adopt()
      // The row of the new owner is a claim, too.
      #expect(third.outcomes == ["bound": 2, "refunded": 1, "another_customer": 1, "expired": 1])
      #expect(try await live.profile(live[1]).product == SwiftClimb.monthly)
      #expect(third.notAskedAgain == 0)

      // Without an answer the verdicts stay.
      live.harness.store.add(.error(.generalInternal))
      let fourth = try await live.adopt()
      #expect(fourth.outcomes == third.outcomes)
      #expect(fourth.notAskedAgain == 2)
      #expect(fourth.isComplete)
      #expect(fourth.description.contains("2 verdicts are of an earlier run"))
    }
  }

  @Test func `no claim is false because production answered 401 and the sandbox does not know it`()
    async throws
  {
    try await LiveApps.with { live in
      let bought = try live.buy()
      try await live.setProfile(live[1], bought.originalTransactionID, until: bought.transaction.expiresDate)
      live.harness.store.add(.unauthorized.in(.production))
      let report = try await live.adopt()
      #expect(report.outcomes == ["failed": 1])
      #expect(!report.isComplete)
      #expect(try await live.profile(live[1]).product == SwiftClimb.monthly)
      let members = ["transactionID": bought.originalTransactionID, "bundleID": SwiftClimb.bundleID]
      #expect(try await live.harness.validate(members).status == 503)
      live.harness.store.clearServerFaults()
      #expect(try await live.adopt().outcomes == ["bound": 1])
    }
  }

  // MARK: Files

  @Test func `a file binds no purchase to a user whom the app does not have`() async throws {
    try await LiveApps.with { live in
      let (stranger, bought, shared) = (UUID(), try live.buy(), try live.buy())
      let csv = """
        customer,original_transaction_id
        \(stranger),\(bought.originalTransactionID)
        \(stranger),\(shared.originalTransactionID)
        \(live[1]),\(shared.originalTransactionID)
        """
      for isDryRun in [true, false] {
        let report = try await live.adopt(isDryRun: isDryRun, csv: csv)
        // A claim of no user contests no other.
        #expect(report.outcomes == ["unknown_customer": 2, "bound": 1])
        #expect(Set(report.listed.map(\.customer)) == [Self.id(stranger)])
        #expect(report.description.contains("2 of an unknown customer"))
      }
      #expect(try await live.harness.count("subscriptions") == 1)
      #expect(try await live.harness.row(of: shared.originalTransactionID).userID == live[1])

      // The user signs up later.
      _ = try await live.harness.pool.query("INSERT INTO auth.users (id) VALUES (\(stranger))")
      _ = try await live.harness.pool.query("INSERT INTO profiles (id) VALUES (\(stranger))")
      #expect(
        try await live.adopt(csv: csv).outcomes == ["bound": 2, "another_customer": 1])
    }
  }

  @Test func `the app's own table tells which users there are, if accounts cannot be read`() async throws {
    try await LiveApps.with { live in
      _ = try await live.harness.pool.query("ALTER TABLE profiles DROP CONSTRAINT profiles_id_fkey")
      _ = try await live.harness.pool.query(
        "ALTER TABLE user_preferences DROP CONSTRAINT user_preferences_user_id_fkey")
      _ = try await live.harness.pool.query("DROP TABLE auth.users")
      let bought = try live.buy()
      let csv = "customer,original_transaction_id\n\(UUID()),\(bought.originalTransactionID)\n"
      #expect(try await live.adopt(csv: csv).outcomes == ["unknown_customer": 1])
      let known = "customer,original_transaction_id\n\(live[1]),\(bought.originalTransactionID)\n"
      #expect(try await live.adopt(csv: known).outcomes == ["bound": 1])
    }
    // Tables that receiptd made tell nothing.
    try await withHarness { harness in
      let app = try #require(harness.service.support.catalog.apps.first { $0.customer == .user })
      #expect(try await KnownUsers.find(for: app, in: harness.pool) == nil)
    }
  }

  // MARK: Contested purchases

  @Test func `doctor names purchases that several customers claim, until support decides`() async throws {
    try await LiveApps.with { live in
      func warning() async -> CheckResult? {
        var found: CheckResult?
        _ = await Doctor(environment: live.harness.environment, clock: live.harness.clock.service).check {
          if $0.subject == "contested purchases" { found = $0 }
        }
        return found
      }
      #expect(await warning() == nil)
      let (legacy, written) = (try live.buy(SwiftClimb.annual), try live.buy(SwiftClimb.annual))
      let renewed = try live.harness.store.perform(.renew, on: legacy.originalTransactionID)
      let again = try live.harness.store.perform(.renew, on: legacy.originalTransactionID)
      try await live.setProfile(live[1], renewed.transaction.transactionId, until: .distantFuture)
      try await live.setProfile(live[2], again.transaction.transactionId, until: .distantFuture)
      let named = try live.buy(SwiftClimb.annual)
      let renewal = try live.harness.store.perform(.renew, on: named.originalTransactionID)
      try await live.setProfile(live[5], named.originalTransactionID, until: .distantFuture)
      try await live.setProfile(live[6], renewal.transaction.transactionId, until: .distantFuture)
      #expect(try await live.adopt().outcomes == ["claimed_twice": 3, "bound": 1])
      for user in [live[3], live[4]] {
        try await live.writesPremium(user, written.originalTransactionID)
      }
      try await live.verifyClaims()

      let line = try #require(await warning()).line
      #expect(line.hasPrefix("warn  contested purchases: 3 claimed by several customers"))
      let holders = [Self.id(live[5]) + " has it", Self.id(live[6])].sorted()
      #expect(line.contains("\(named.originalTransactionID) (\(holders.joined(separator: ", ")))"))
      #expect(line.contains("\(legacy.originalTransactionID) (\(Self.id(live[1])), \(Self.id(live[2])))"))
      #expect(line.contains("receiptd transfer \(legacy.originalTransactionID) --to CUSTOMER"))
      for bought in [legacy, written, named] {
        _ = try await live.harness.desk.transfer(
          bought.originalTransactionID, to: live[1].uuidString, by: SupportAuthor.adoption("test"))
      }
      #expect(await warning() == nil)
    }
  }
}
