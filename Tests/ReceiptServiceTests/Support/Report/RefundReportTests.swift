import AppStore
import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import Testing
import Text

@testable import Deliveries
@testable import ReceiptService
@testable import Support

/// What a report says of the App Store's questions about refunds.
@Suite struct RefundReportTests {
  private static let decline = Harness.apps(#""refundAnswers": "prefer-decline""#)

  private func text(_ id: String, _ harness: Harness) async throws -> String {
    let report = try await harness.desk.customer(id).description
    #expect(report.split(separator: "\n").allSatisfy { $0.count <= 80 }, "\(report)")
    return report.split(whereSeparator: \.isWhitespace).joined(separator: " ")
  }

  private func request(_ id: String, _ harness: Harness) async throws -> ReportedRefundRequest {
    let report = try await harness.desk.customer(id)
    return try #require((report.customers.first?.purchases ?? report.unclaimed).first?.refundRequests.first)
  }

  @Test func `an open refund request shows its deadline, the missing consent, and then the answer`()
    async throws
  {
    try await withHarness(configuration: Self.decline) { harness in
      let (user, bought) = try await harness.customer()
      let id = user.uuidString.lowercased()
      #expect(try await !text(id, harness).contains("refund of"))
      harness.clock.advance(days: 15)
      try await harness.requestsRefund(of: bought)
      let asked = harness.clock.now
      let deadline = asked + 12 * 3_600
      // The queue looks at it only later.
      #expect(
        try await text(id, harness).contains(
          "refund of \(bought.transactionID) requested \(asked.rfc3339) (UNINTENDED_PURCHASE) no answer yet, "
            + "Apple takes one until \(deadline.rfc3339): the customer has not consented"))
      try await harness.service.deliveries.storeCalls.run()
      let waiting = try await request(id, harness)
      #expect(waiting.state == "waiting" && !waiting.hasConsent && waiting.answer == nil)
      #expect(waiting.deadline == deadline)

      _ = try await harness.consent(true, of: user)
      let ready = try await request(id, harness)
      #expect(ready.because == nil && ready.hasConsent)
      #expect(ready.answer?.hasPrefix("prefers no refund; delivered, ") == true, "\(ready)")
      _ = try await harness.desk.preferRefund(.grant, for: id, by: #require(Harness.ada))
      #expect(try await text(id, harness).contains("the answer: prefers the refund; delivered, "))
      #expect(try await text(id, harness).contains(", as ada set it"))

      harness.clock.advance(seconds: 60)
      try await harness.service.deliveries.storeCalls.run()
      let sent = try await request(id, harness)
      #expect(sent.state == "sent" && sent.settledAt == harness.clock.now && sent.preferredBy == "ada")
      #expect(
        try await text(id, harness).contains(
          "answered \(harness.clock.now.rfc3339) told Apple: prefers the refund; delivered, "))
      let answer = try await harness.send(
        .get, "/support/v1/customer/\(id)", token: Harness.supportToken, to: harness.adminAddress)
      let customers = try #require(answer["customers"] as? [[String: Any]])
      let purchases = try #require(customers.first?["purchases"] as? [[String: Any]])
      let requests = try #require(purchases.first?["refundRequests"] as? [[String: Any]])
      #expect(requests.map { $0["state"] as? String } == ["sent"])
    }
  }

  @Test func `a request that was not answered shows why`() async throws {
    try await withHarness(configuration: Self.decline) { harness in
      let (user, bought) = try await harness.customer()
      let (other, refused) = try await harness.customer()
      try await harness.requestsRefund(of: bought)
      _ = try await harness.consent(true, of: other)
      harness.store.add(.error(.transactionIdNotFound).at(.consumption).next(1))
      try await harness.requestsRefund(of: refused)
      try await harness.service.deliveries.storeCalls.run()
      let end = harness.clock.now
      #expect(
        try await text(other.uuidString, harness).contains(
          "Apple refused the answer \(end.rfc3339): status 404, code 4040010"))
      harness.clock.advance(seconds: 12 * 3_600 + 60)
      try await harness.service.deliveries.storeCalls.run()
      #expect(
        try await text(user.uuidString, harness).contains(
          "not answered \(harness.clock.now.rfc3339): the customer has not consented"))
      #expect(try await request(user.uuidString, harness).state == "no_consent")
    }
  }

  @Test func `a request that waits for a policy, or of a purchase without an owner, shows it`() async throws {
    try await withHarness { harness in
      let bought = try harness.buy()
      try await harness.arrives(bought)
      try await harness.requestsRefund(of: bought)
      #expect(
        try await text(bought.transactionID, harness).contains(
          "the app's refundAnswers is none; the customer has not consented either"))
    }
  }

  @Test func `an attempt that failed, and a missing key, are the reason of an open request`() async throws {
    try await withHarness(configuration: Self.decline) { harness in
      let (user, bought) = try await harness.customer()
      _ = try await harness.consent(true, of: user)
      harness.store.add(.unauthorized.at(.consumption))
      try await harness.requestsRefund(of: bought)
      try await harness.service.deliveries.storeCalls.run()
      let failed = try await request(user.uuidString, harness)
      #expect(failed.state == "waiting" && failed.because != nil, "\(failed)")
      #expect(failed.answer?.hasPrefix("prefers no refund") == true)
      let keyless = try await harness.service(
        configuration: Self.decline,
        settings: ["APP_STORE_KEY": "", "APP_STORE_KEY_ID": "", "APP_STORE_ISSUER_ID": ""])
      let report = try await keyless.support.customer(user.uuidString)
      await keyless.close()
      #expect(
        report.customers.first?.purchases.first?.refundRequests.first?.because
          == "no App Store Connect key is configured for the app")
    }
  }
}
