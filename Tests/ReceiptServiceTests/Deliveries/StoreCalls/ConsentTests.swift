import AppStore
import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import Testing

@testable import Deliveries
@testable import ReceiptService

@Suite struct ConsentTests {
  @Test func `a user gives and withdraws the consent, and a repeated word keeps its time`() async throws {
    try await withHarness { harness in
      let user = UUID()
      let start = harness.clock.now
      _ = try await harness.consent(true, of: user)
      harness.clock.advance(days: 1)
      let again = try await harness.consent(true, of: user)
      #expect(again.date("since") == start)
      #expect(again.date("serverTime") == harness.clock.now)
      #expect(try await harness.consent(false, of: user).date("since") == harness.clock.now)
      let row = try #require(
        try await harness.pool.query(
          "SELECT is_given, given_at, withdrawn_at FROM consents WHERE customer = \(user.uuidString.lowercased())"
        ).first)
      #expect(try row.decode("is_given", as: Bool.self) == false)
      #expect(try row.decode("given_at", as: Date.self) == start)
      #expect(try row.decode("withdrawn_at", as: Date.self) == harness.clock.now)
    }
  }

  @Test func `a device consents with its secret, and a refusal of any device of a purchase counts`()
    async throws
  {
    let configuration = TestApps.json.replacing(
      #""customer": "device","#, with: #""customer": "device", "refundAnswers": "facts","#)
    try await withHarness(configuration: configuration) { harness in
      try harness.sellFamilySubscriptions()
      let bought = try harness.buy(TestApps.individual, bundleID: TestApps.family)
      try await harness.arrives(bought)
      _ = try await harness.device("phone", shows: bought)
      func consent(_ isGiven: Bool, _ device: String, secret: String? = nil) async throws -> Int {
        try await harness.send(
          .post, "/api/v1/consent",
          json: #"{"consent": \#(isGiven), "deviceID": "\#(device)", "bundleID": "\#(TestApps.family)"}"#,
          secret: secret
        ).status
      }
      let secrets = (1...2).map(ScreenTime.secret)
      // The id alone is a name, and a secret without a proof is not kept while something is on record.
      #expect(try await consent(true, "phone") == 401)
      #expect(try await consent(true, "phone", secret: secrets[0]) == 401)
      for (device, secret) in zip(["phone", "tablet"], secrets) {
        let proof = ["signedTransaction": bought.signedTransaction, "deviceID": device]
        #expect(try await harness.validate(proof, secret: secret).status == 200)
      }
      #expect(try await consent(false, "phone", secret: secrets[0]) == 200)
      harness.clock.advance(seconds: 60)
      #expect(try await consent(true, "tablet", secret: secrets[0]) == 401)
      #expect(try await consent(true, "tablet", secret: secrets[1]) == 200)
      try await harness.requestsRefund(of: bought)
      try await harness.service.deliveries.storeCalls.run()
      #expect(harness.store.consumptionReports.isEmpty)
      #expect(try await consent(true, "phone", secret: secrets[0]) == 200)
      harness.clock.advance(seconds: 600)
      try await harness.service.deliveries.storeCalls.run()
      #expect(harness.store.consumptionReports.count == 1)
    }
  }

  @Test func `a consent without a user, with another form or for another app is refused`() async throws {
    try await withHarness { harness in
      let token = try await harness.token(for: UUID())
      func status(_ json: String, token: String? = nil) async throws -> Int {
        try await harness.send(.post, "/api/v1/consent", json: json, token: token).status
      }
      #expect(try await status(#"{"consent": true, "bundleID": "\#(TestApps.climbing)"}"#) == 401)
      #expect(try await status(#"{"consent": "yes"}"#, token: token) == 400)
      #expect(try await status(#"{}"#, token: token) == 400)
      #expect(try await status(#"{"consent": true, "bundleID": "none"}"#, token: token) == 422)
      #expect(try await status(#"{"consent": true, "bundleID": "\#(TestApps.family)"}"#, token: token) == 422)
      // One app here has users for customers.
      #expect(try await status(#"{"consent": true}"#, token: token) == 200)
      #expect(try await harness.count("consents") == 1)
    }
  }
}
