import Actions
import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import Testing

@testable import Adoption
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
}
