import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import Testing

@testable import ReceiptService

/// Thaqalayn's unlock: bought, refunded and bought again.
@Suite struct RepurchaseScenarioTests {
  /// Checks the purchase's row, the response and the app's own table.
  private func expect(
    _ status: String, of id: String, isPremium: Bool, for user: ShippedUser,
    sourceLocation: SourceLocation = #_sourceLocation
  ) async throws {
    let row = try await user.harness.row(of: id)
    #expect(row.status == status, sourceLocation: sourceLocation)
    #expect(try await user.isPremium() == isPremium, sourceLocation: sourceLocation)
    let preferences = try await user.harness.pool.query(
      "SELECT is_premium, bookmark_limit FROM user_preferences WHERE user_id = \(user.id)")
    #expect(try preferences.map { try $0.decode("is_premium", as: Bool.self) } == [isPremium])
    #expect(
      try preferences.map { try $0.decode("bookmark_limit", as: Int.self) } == [isPremium ? 999 : 2],
      sourceLocation: sourceLocation)
  }

  /// The next purchase under the original id of the first.
  private func again(_ first: SignedOutcome, at date: Date) -> TransactionInfo {
    var second = first.transaction
    second.transactionId = "2999999999999999"
    second.purchaseDate = date
    second.signedDate = date
    return second
  }

  private func sync(_ info: TransactionInfo, by user: ShippedUser) async throws -> Answer {
    try await user.harness.sync([user.harness.sign(info)], user: user.id, token: user.token)
  }

  @Test(arguments: [0, 86_400] as [TimeInterval])
  func `a purchase after a refund under the same original id gives premium`(later: TimeInterval) async throws
  {
    try await withShippedApps { harness in
      let anna = harness.user(of: Thaqalayn.bundleID)
      let first = try await anna.buys(Thaqalayn.tafsir)
      let id = first.originalTransactionID
      harness.clock.advance(days: 1)
      let refund = try await harness.happens(.refundLatest, to: id)
      try await expect("cancelled", of: id, isPremium: false, for: anna)

      harness.clock.advance(seconds: later)
      var second = again(first, at: harness.clock.now)
      #expect(try await sync(second, by: anna).bool("isPremium") == true)
      try await expect("active", of: id, isPremium: true, for: anna)
      #expect(try await harness.row(of: id).transactionID == second.transactionId)
      #expect(try await harness.row(of: id).revoked == nil)

      // The refund of the first purchase is delivered again, with a new signature.
      harness.clock.advance(days: 1)
      #expect(try await harness.notify(refund.notification.signedPayload).status == 200)
      var refunded = refund.transaction
      refunded.signedDate = harness.clock.now
      _ = try await sync(refunded, by: anna)
      try await expect("active", of: id, isPremium: true, for: anna)

      second.revocationDate = harness.clock.now
      second.signedDate = harness.clock.now
      _ = try await sync(second, by: anna)
      try await expect("cancelled", of: id, isPremium: false, for: anna)
    }
  }

  @Test func `a late refund of the first purchase does not end the second purchase`()
    async throws
  {
    try await withShippedApps { harness in
      let anna = harness.user(of: Thaqalayn.bundleID)
      let first = try await anna.buys(Thaqalayn.tafsir)
      let id = first.originalTransactionID
      harness.clock.advance(days: 1)
      let refund = try harness.store.perform(.refundLatest, on: id)
      harness.clock.advance(days: 1)
      _ = try await sync(again(first, at: harness.clock.now), by: anna)
      try await harness.arrives(refund)
      try await expect("active", of: id, isPremium: true, for: anna)
    }
  }

  @Test func `a purchase after a refund under a new original id gives premium`() async throws {
    try await withShippedApps { harness in
      let anna = harness.user(of: Thaqalayn.bundleID)
      let first = try await anna.buys(Thaqalayn.tafsir, account: "anna")
      harness.clock.advance(days: 1)
      let refund = try harness.store.perform(.refundLatest, on: first.originalTransactionID)
      let second = try await anna.buys(Thaqalayn.tafsir, account: "anna")
      #expect(second.originalTransactionID != first.originalTransactionID)
      try await harness.arrives(refund)
      try await expect("cancelled", of: first.originalTransactionID, isPremium: true, for: anna)
      try await expect("active", of: second.originalTransactionID, isPremium: true, for: anna)
      harness.clock.advance(days: 1)
      try await harness.happens(.refundLatest, to: second.originalTransactionID)
      try await expect("cancelled", of: second.originalTransactionID, isPremium: false, for: anna)
    }
  }
}
