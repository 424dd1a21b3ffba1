import Foundation
import Subscriptions
import Testing

@Suite struct ConsumptionTests {
  private static let start = Date(timeIntervalSince1970: 1_800_000_000)

  private func fact(days: Double?, kind: PurchaseKind = .autoRenewable) -> TransactionFact {
    TransactionFact(
      transactionID: "1", originalTransactionID: "1", bundleID: "b", environment: .production, productID: "p",
      kind: kind, purchaseDate: Self.start, expiresDate: days.map { Self.start + $0 * 86_400 },
      signedAt: Self.start)
  }

  @Test(arguments: [(-1.0, 0.0), (0, 0), (7.5, 0.25), (15, 0.5), (30, 1), (45, 1)] as [(Double, Double)])
  func `the consumed share is the elapsed part of the period`(day: Double, share: Double) {
    #expect(fact(days: 30).consumedShare(at: Self.start + day * 86_400, accessDays: nil) == share)
  }

  @Test func `a purchase without an end has no consumed share, unless the product gives access for a time`() {
    let lifetime = fact(days: nil, kind: .nonConsumable)
    #expect(lifetime.consumedShare(at: Self.start + 86_400, accessDays: nil) == nil)
    let season = fact(days: nil, kind: .nonRenewing)
    #expect(season.consumedShare(at: Self.start + 9 * 86_400, accessDays: 90) == 0.1)
  }

  @Test func `a period without a length is consumed`() {
    #expect(fact(days: 0).consumedShare(at: Self.start, accessDays: nil) == 1)
  }
}
