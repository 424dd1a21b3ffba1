import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import Testing
import Text

@testable import ReceiptService
@testable import Support

/// A report and the timeline name the same end of access.
@Suite struct AccessEndTests {
  private func text(_ id: String, _ harness: Harness) async throws -> String {
    let report = try await harness.desk.customer(id).description
    #expect(report.split(separator: "\n").allSatisfy { $0.count <= 80 }, "\(report)")
    return report.split(whereSeparator: \.isWhitespace).joined(separator: " ")
  }

  private func endInTimeline(_ id: String, _ harness: Harness) async throws -> [Date] {
    try await harness.pool.query(
      "SELECT at FROM support_timeline WHERE original_transaction_id = \(id) AND event = 'access ended'"
    ).map { try $0.decode("at") }
  }

  @Test
  func `in billing retry after Apple's billing grace, the page has the timeline's end and Apple's last day`()
    async throws
  {
    try await withHarness { harness in
      harness.clock.advance(days: -90)
      let (_, bought) = try await harness.customer()
      let id = bought.originalTransactionID
      let paid = try #require(bought.transaction.expiresDate)
      harness.clock.set(paid)
      try await harness.happens(.failToRenew(grace: true), to: id)
      let last = Day(of: paid + 60 * 86_400)
      #expect(try await text(id, harness).contains(": Apple tries to charge 4.99 USD until \(last)"))
      let grace = try #require(
        try await harness.desk.customer(id).customers.first?.purchases.first?.gracePeriodExpiryDate)
      harness.clock.set(grace)
      try await harness.happens(.endGrace, to: id)
      let story = try await text(id, harness)
      #expect(
        story.contains(
          "paid until \(paid.rfc3339), access ended \(grace.rfc3339), unpaid: Apple tries to charge 4.99 USD "
            + "until \(last)"), "\(story)")
      #expect(story.contains("could not be charged; Apple retries until \(last)"), "\(story)")
      #expect(try await endInTimeline(id, harness) == [grace])
      let purchase = try #require(try await harness.desk.customer(id).customers.first?.purchases.first)
      #expect(purchase.plan.accessEndsAt == grace)
      #expect(purchase.chargeRetriesUntil == paid + 60 * 86_400)

      harness.clock.set(paid + 60 * 86_400)
      try await harness.happens(.expire(.billingError), to: id)
      let over = try await text(id, harness)
      #expect(
        over.contains("paid until \(paid.rfc3339), access ended \(grace.rfc3339) (not paid)"), "\(over)")
      #expect(over.contains("ended at \(paid.rfc3339), and access at \(grace.rfc3339)"), "\(over)")
      #expect(!over.contains("tries to charge"))
    }
  }

  @Test func `with the app's own grace the page has both ends, during it and after it`() async throws {
    try await withScreenTime { harness in
      harness.clock.advance(days: -60)
      let bought = try await harness.device("phone", buys: ScreenTime.individual)
      let id = bought.originalTransactionID
      let paid = try #require(bought.transaction.expiresDate)
      harness.clock.set(paid)
      try await harness.happens(.failToRenew(grace: false), to: id)
      let end = paid + 7 * ScreenTime.day
      let last = Day(of: paid + 60 * 86_400)
      #expect(
        try await text("phone", harness).contains(
          "paid until \(paid.rfc3339), access until \(end.rfc3339), unpaid: Apple tries to charge 7.99 USD until "
            + "\(last)"))
      harness.clock.set(end)
      #expect(
        try await text("phone", harness).contains(
          "paid until \(paid.rfc3339), access ended \(end.rfc3339), unpaid"))
      #expect(try await endInTimeline(id, harness) == [end])
    }
  }
}
