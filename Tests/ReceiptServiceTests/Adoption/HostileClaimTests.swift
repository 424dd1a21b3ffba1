import AppStore
import AppStoreSimulator
import Foundation
import Testing

@testable import Adoption
@testable import ReceiptService
@testable import Support

/// Claims of clients that want more than they own.
@Suite struct HostileClaimTests {
  @Test func `a claim of 2,600 characters, control characters among them, does not stop adopt`() async throws
  {
    try await LiveApps.with { live in
      let bought = try live.buy()
      try await live.setProfile(live[2], bought.originalTransactionID, until: bought.transaction.expiresDate)
      let long = "\u{1B}]0;title\u{07}" + (0..<72).map { _ in UUID().uuidString }.joined()
      try await live.setProfile(live[3], long, until: live.harness.clock.now + 86_400)
      let report = try #require(
        try await live.harness.service.adoption.adopt(bundleID: SwiftClimb.bundleID, isDryRun: false).first)
      #expect(report.outcomes == ["bound": 1, "unknown": 1])
      #expect(report.description.unicodeScalars.allSatisfy { $0.value >= 0x20 || $0 == "\n" })
    }
  }

  @Test func `naming a renewal does not take the purchase that another profile names`() async throws {
    try await LiveApps.with([SwiftClimb.bundleID: "observe"]) { live in
      let (payer, stranger) = (live[2], live[9])
      let bought = try live.buy()
      let id = bought.originalTransactionID
      let expiry = try #require(bought.transaction.expiresDate)
      try await live.setProfile(payer, id, until: expiry + 30 * 86_400)
      live.harness.clock.set(expiry)
      let renewed = try live.harness.store.perform(.renew, on: id)
      try await live.writesPremium(stranger, renewed.transactionID)
      try await live.verifyClaims()
      #expect(try await live.harness.row(of: id).userID == nil)

      let token = try await live.harness.token(for: stranger) {
        $0.iss = "https://swiftclimb.supabase.co/auth/v1"
      }
      let bare = try await live.harness.validate(
        ["transactionID": renewed.transactionID, "bundleID": SwiftClimb.bundleID], token: token)
      #expect(bare.code == "belongs_to_another_customer")
      _ = try await live.harness.service.adoption.adopt(bundleID: SwiftClimb.bundleID, isDryRun: false)
      #expect(try await live.harness.row(of: id).userID == payer)
      #expect(try await live.profile(stranger) == ProfileRow())
    }
  }

  @Test func `a payer whose row names a renewal keeps it beside a row that names the original transaction`()
    async throws
  {
    try await LiveApps.with([SwiftClimb.bundleID: "observe"]) { live in
      let (payer, other) = (live[2], live[3])
      let bought = try live.buy()
      let id = bought.originalTransactionID
      live.harness.clock.set(try #require(bought.transaction.expiresDate))
      let renewed = try live.harness.store.perform(.renew, on: id)
      let until = try #require(renewed.transaction.expiresDate)
      try await live.setProfile(payer, renewed.transactionID, until: until)
      try await live.setProfile(other, id, until: until)
      let row = try await live.profile(payer)
      let plan = try await live.harness.service.adoption.adopt(bundleID: SwiftClimb.bundleID, isDryRun: true)
      #expect(plan.first?.outcomes == ["bound": 1, "claimed_twice": 1])
      for _ in 1...2 {
        let report = try await live.harness.service.adoption.adopt(
          bundleID: SwiftClimb.bundleID, isDryRun: false)
        #expect(report.first?.outcomes == ["bound": 1, "claimed_twice": 1])
        #expect(try await live.profile(payer) == row)
      }
      var warnings: [String] = []
      _ = await Doctor(environment: live.harness.environment).check {
        if $0.isWarning { warnings.append($0.line) }
      }
      #expect(
        warnings.contains { line in
          line.contains("contested purchases: 1 claimed by several") && line.contains(id)
            && [payer, other].allSatisfy { line.contains($0.uuidString.lowercased()) }
        })

      let ada = try #require(Harness.ada)
      _ = try await live.harness.desk.transfer(id, to: payer.uuidString, by: ada)
      let decided = try await live.harness.service.adoption.adopt(
        bundleID: SwiftClimb.bundleID, isDryRun: false)
      #expect(decided.first?.outcomes == ["another_customer": 1, "bound": 1])
      #expect(try await live.profile(payer).originalTransactionID == id)
      #expect(try await live.profile(other) == ProfileRow())
    }
  }
}
