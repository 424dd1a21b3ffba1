import AppStoreSimulator
import HTTPTypes
import Postgres
import Testing

@testable import ReceiptService

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
}
