import Actions
import AppStore
import AppStoreSimulator
import Configuration
import Foundation
import Postgres
import Testing

@testable import Adoption
@testable import Customers
@testable import ReceiptService
@testable import Support

/// `receiptd adopt` where several apps write, or wrote, their status to one table.
@Suite struct SharedTableTests {
  private static let second = "com.second.app"
  private static let monthly = "com.second.pro.monthly"

  /// The shipped apps, and another one that writes to `user_preferences`.
  private static func twoApps(_ mode: String) throws -> String {
    let text = try LiveApps.configuration([Thaqalayn.bundleID: mode])
    var root = try #require(JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
    var apps = try #require(root["apps"] as? [[String: Any]])
    var app = try #require(apps.first { $0["bundleID"] as? String == Thaqalayn.bundleID })
    app["bundleID"] = second
    app["appAppleID"] = 1_500_000_009
    app["products"] = [monthly: ["tier": "premium", "price": ["USD": 4.99]]]
    app["grandfather"] = nil
    apps.append(app)
    root["apps"] = apps
    return String(decoding: try JSONSerialization.data(withJSONObject: root), as: UTF8.self)
  }

  private static func id(_ user: UUID) -> String { user.uuidString.lowercased() }

  @Test(arguments: ["accept", "refuse"])
  func `a status that receiptd wrote for one app is no claim on another app of the table`(mode: String)
    async throws
  {
    try await LiveApps.with(configuration: Self.twoApps(mode)) { live in
      #expect(try await live.adopt(Thaqalayn.bundleID).outcomes == ["awarded": 3])
      let (buyer, guest) = (live[8], live[9])
      let bought = try live.buy(Self.monthly, bundleID: Self.second, token: buyer)
      try await live.harness.arrives(bought)
      _ = try await live.harness.desk.grant(
        to: guest.uuidString, bundleID: Self.second, tier: "premium", days: 1,
        by: SupportAuthor(by: .operatorNamed("ben"), reason: "ticket 811"))
      for user in [buyer, guest] { #expect(try await live.harness.isPremiumInPreferences(user) == true) }

      for days in [nil, 30] {
        let report = try await live.adopt(Thaqalayn.bundleID, clientAwardDays: days)
        #expect(report.outcomes == ["awarded": 3])
        #expect(report.awardsDenied == [])
      }
      // No server runs when the grant ends, so the row still says premium.
      live.harness.clock.advance(days: 2)
      #expect(try await live.adopt(Thaqalayn.bundleID).awardsDenied == [Self.id(guest)])
      #expect(try await live.harness.isPremiumInPreferences(guest) == (mode == "accept"))
      #expect(try await live.harness.isPremiumInPreferences(buyer) == true)

      // The other app leaves the configuration.
      let alone = try await live.harness.service(
        configuration: LiveApps.configuration([Thaqalayn.bundleID: mode]))
      let report = try #require(
        try await alone.adoption.adopt(bundleID: Thaqalayn.bundleID, isDryRun: false).first)
      await alone.close()
      #expect(report.outcomes == ["awarded": 3])
      #expect(try await live.harness.count("grants") == 4)
      #expect(try await live.clientWrites().isEmpty)
    }
  }

  @Test func `a status counts as receiptd's after its app has stopped writing to the table`() async throws {
    try await LiveApps.with(configuration: Self.twoApps("refuse")) { live in
      let (buyer, guest) = (live[8], live[9])
      try await live.harness.arrives(live.buy(Self.monthly, bundleID: Self.second, token: buyer))
      _ = try await live.harness.desk.grant(
        to: guest.uuidString, bundleID: Self.second, tier: "premium", days: 1,
        by: SupportAuthor(by: .operatorNamed("ben"), reason: "ticket 811"))
      var root = try #require(
        JSONSerialization.jsonObject(with: Data(Self.twoApps("refuse").utf8)) as? [String: Any])
      var apps = try #require(root["apps"] as? [[String: Any]])
      let place = try #require(apps.firstIndex { $0["bundleID"] as? String == Self.second })
      apps[place]["writeTo"] = ["profiles"]
      root["apps"] = apps
      let moved = try await live.harness.service(
        configuration: String(decoding: JSONSerialization.data(withJSONObject: root), as: UTF8.self))
      try await moved.adoption.modes.write(to: live.pool)
      let report = try #require(
        try await moved.adoption.adopt(bundleID: Thaqalayn.bundleID, isDryRun: false).first)
      await moved.close()
      #expect(report.outcomes == ["awarded": 3])
    }
  }

  @Test func `the first adoption of a table counts after its app has left the configuration`() async throws {
    try await LiveApps.with([Thaqalayn.bundleID: "accept"]) { live in
      #expect(try await live.adopt(Thaqalayn.bundleID).outcomes == ["awarded": 3])
      try await live.signsUp(live[9])
      #expect(try await live.writesIsPremium(live[9]) == true)

      let renamed = "com.thaqalayn.second"
      let other = try await live.harness.service(
        configuration: LiveApps.configuration([Thaqalayn.bundleID: "accept"])
          .replacing(#""bundleID": "\#(Thaqalayn.bundleID)""#, with: #""bundleID": "\#(renamed)""#))
      for isDryRun in [true, false] {
        let report = try #require(try await other.adoption.adopt(bundleID: renamed, isDryRun: isDryRun).first)
        #expect(report.awardsWithheld == [Self.id(live[9])])
        // The awards are those of the former app.
        #expect(report.outcomes == [:])
      }
      await other.close()
      #expect(try await live.harness.count("grants") == 3)
    }
  }

  @Test func `an award of one app leaves the claim that another app has in the same row`() async throws {
    var root = try #require(
      JSONSerialization.jsonObject(with: Data(LiveApps.configuration([:]).utf8)) as? [String: Any])
    var apps = try #require(root["apps"] as? [[String: Any]])
    let place = try #require(apps.firstIndex { $0["bundleID"] as? String == Thaqalayn.bundleID })
    // It is adopted first, and writes to both tables.
    var first = apps.remove(at: place)
    first["writeTo"] = ["profiles", "user_preferences"]
    apps.insert(first, at: 0)
    root["apps"] = apps
    let text = String(decoding: try JSONSerialization.data(withJSONObject: root), as: UTF8.self)
    for adoptsAlone in [false, true] {
      try await LiveApps.with(configuration: text) { live in
        // The user has premium of the first app, and a running purchase of the second one.
        let user = live[1]
        let bought = try await live.legacyCustomer(user)
        try await live.harness.pool.withConnection { connection in
          _ = try await connection.query(
            "INSERT INTO user_preferences (user_id, is_premium) VALUES (\(user), true) ON CONFLICT (user_id) DO UPDATE SET is_premium = true"
          )
        }
        if adoptsAlone {
          _ = try await live.adopt(Thaqalayn.bundleID)
          _ = try await live.adopt(SwiftClimb.bundleID)
        } else {
          _ = try await live.harness.service.adoption.adopt(isDryRun: false)
        }
        #expect(try await live.harness.row(of: bought.originalTransactionID).userID == user)
      }
    }
  }

  @Test func `a claim that another app's run wrote down ends with its user, and denies no award`()
    async throws
  {
    var root = try #require(
      JSONSerialization.jsonObject(with: Data(LiveApps.configuration([:]).utf8)) as? [String: Any])
    var apps = try #require(root["apps"] as? [[String: Any]])
    let place = try #require(apps.firstIndex { $0["bundleID"] as? String == Thaqalayn.bundleID })
    apps[place]["writeTo"] = ["profiles"]
    root["apps"] = apps
    let text = String(decoding: try JSONSerialization.data(withJSONObject: root), as: UTF8.self)
    try await LiveApps.with(configuration: text) { live in
      let (payer, owner) = (live[1], live[2])
      let former = try await live.legacyCustomer(live[3])
      _ = try await live.legacyCustomer(owner)
      _ = try await live.adopt(Thaqalayn.bundleID)
      // The backend makes one user's premium one without end; another user deletes the account and opens a new one.
      try await live.setProfile(owner, nil, product: SwiftClimb.monthly, until: nil)
      try await LiveTables.run(
        "DELETE FROM profiles WHERE id = '\(live[3].uuidString)'", on: live.pool)
      try await live.setProfile(
        payer, former.originalTransactionID, product: SwiftClimb.monthly,
        until: former.transaction.expiresDate)
      let report = try await live.adopt(SwiftClimb.bundleID)
      #expect(report.outcomes["awarded"] == 1, "\(report.outcomes)")
      #expect(report.awardsDenied == [])
      #expect(try await live.harness.row(of: former.originalTransactionID).userID == payer)
    }
  }

  @Test func `runs that begin at once are one run`() async throws {
    try await LiveApps.with { live in
      let adoption = live.harness.service.adoption
      let app = try #require(adoption.modes.catalog[SwiftClimb.bundleID])
      for _ in 0..<5 {
        let runs = try await withThrowingTaskGroup(of: AdoptionRun.self) { group in
          for _ in 0..<8 {
            group.addTask {
              try await AdoptionRun.begin(
                for: app, on: [.profiles], modes: adoption.modes, isOfFile: false, isDryRun: false,
                in: live.pool)
            }
          }
          return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(Set(runs.map(\.id)).count == 1)
        for run in runs { try await run.finish(in: live.pool) }
        #expect(try await live.pool.query("SELECT FROM adoption_runs WHERE finished_at IS NULL").isEmpty)
      }
    }
  }
}
