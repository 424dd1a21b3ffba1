import AppStore
import AppStoreSimulator
import Foundation
import Testing

@testable import ReceiptService

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
        try await live.harness.service.adopt(bundleID: SwiftClimb.bundleID, isDryRun: false).first)
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
      _ = try await live.harness.service.adopt(bundleID: SwiftClimb.bundleID, isDryRun: false)
      #expect(try await live.harness.row(of: id).userID == payer)
      #expect(try await live.profile(stranger) == ProfileRow())
    }
  }
}
