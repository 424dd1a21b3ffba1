import AppStoreSimulator
import HTTPTypes
import Postgres
import Testing

@testable import Deliveries
@testable import ReceiptService
@testable import Support

@Suite struct FormerSecretTests {
  @Test func `a consent that came with a former secret of the device ends with it`() async throws {
    try await withScreenTime { harness in
      let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      try await harness.arrives(bought)
      let (stranger, own) = (ScreenTime.secret(1), ScreenTime.secret(2))
      // Nothing is on record of the device, so the first secret is kept.
      let consent = try await harness.send(
        .post, "/api/v1/consent",
        json: #"{"consent": true, "deviceID": "phone", "bundleID": "\#(ScreenTime.bundleID)"}"#,
        secret: stranger)
      #expect(consent.status == 200)
      let proof = ["signedTransaction": bought.signedTransaction, "deviceID": "phone"]
      #expect(try await harness.validate(proof, secret: own).status == 200)
      let given = try await harness.pool.query("SELECT is_given FROM consents WHERE customer = 'phone'")
      #expect(try given.map { try $0.decode("is_given", as: Bool.self) } == [false])
    }
  }

  @Test func `a consent ends when support resets the device's secret, and a new secret does not renew it`()
    async throws
  {
    let configuration = try ScreenTime.configuration().replacing(
      #""bundleID": "com.screentimerewards","#,
      with: #""bundleID": "com.screentimerewards", "refundAnswers": "facts","#)
    try await withHarness(configuration: configuration) { harness in
      let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      try await harness.arrives(bought)
      let secrets = (1...2).map(ScreenTime.secret)
      let proof = ["signedTransaction": bought.signedTransaction, "deviceID": "phone"]
      func consents(secret: String) async throws -> Int {
        try await harness.send(
          .post, "/api/v1/consent",
          json: #"{"consent": true, "deviceID": "phone", "bundleID": "\#(ScreenTime.bundleID)"}"#,
          secret: secret
        ).status
      }
      #expect(try await harness.validate(proof, secret: secrets[0]).status == 200)
      #expect(try await consents(secret: secrets[0]) == 200)
      let reset = try await harness.desk.resetDeviceSecret(
        of: "phone", bundleID: ScreenTime.bundleID, by: #require(Harness.ada))
      #expect(reset.isChanged)
      try await harness.requestsRefund(of: bought)
      try await harness.service.deliveries.storeCalls.run()
      #expect(try await harness.validate(proof, secret: secrets[1]).status == 200)
      harness.clock.advance(seconds: 600)
      try await harness.service.deliveries.storeCalls.run()
      #expect(harness.store.consumptionReports.isEmpty)
      #expect(try await consents(secret: secrets[1]) == 200)
      try await harness.service.deliveries.storeCalls.run()
      #expect(harness.store.consumptionReports.count == 1)
    }
  }
}
