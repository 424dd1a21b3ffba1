import AppStore
import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import Testing

@testable import Deliveries
@testable import ReceiptService
@testable import Support

/// A customer that only named a transaction's id says nothing about the refund of the purchase.
@Suite struct UnprovenConsentTests {
  @Test func `a user who names a transaction id consents to nothing, and is preferred in nothing`()
    async throws
  {
    try await withHarness(configuration: Harness.apps(#""refundAnswers": "facts""#)) { harness in
      let bought = try harness.buy()
      try await harness.arrives(bought)
      let (stranger, buyer) = (UUID(), UUID())
      let named = ["transactionID": bought.transactionID, "bundleID": TestApps.climbing]
      let token = try await harness.token(for: stranger)
      #expect(try await harness.validate(named, token: token).status == 200)
      #expect(try await harness.row(of: bought.originalTransactionID).userID == stranger)
      _ = try await harness.consent(true, of: stranger)
      let told = try await harness.desk.preferRefund(
        .grant, for: stranger.uuidString, by: #require(Harness.ada))
      #expect(told.purchases == [])
      #expect(told.description.contains("the customer has no proven purchase"), "\(told)")
      try await harness.requestsRefund(of: bought)
      try await harness.service.deliveries.storeCalls.run()
      #expect(harness.store.consumptionReports.isEmpty)

      let own = try await harness.token(for: buyer)
      _ = try await harness.sync([bought.signedTransaction], user: buyer, token: own)
      _ = try await harness.consent(true, of: buyer)
      try await harness.service.deliveries.storeCalls.run()
      #expect(harness.store.consumptionReports.map(\.body.refundPreference) == [nil])
    }
  }

  @Test(arguments: [1, 2])
  func `a device that names a transaction id consents to nothing`(devices: Int) async throws {
    let configuration = try ScreenTime.configuration().replacing(
      #""bundleID": "com.screentimerewards","#,
      with: #""bundleID": "com.screentimerewards", "refundAnswers": "facts","#
    ).replacing(/"devicesPerPurchase": \d+/, with: #""devicesPerPurchase": \#(devices)"#)
    try await withHarness(configuration: configuration) { harness in
      let bought = try harness.buy(ScreenTime.individual, bundleID: ScreenTime.bundleID)
      try await harness.arrives(bought)
      for (number, device) in ["first", "second", "third"].enumerated() {
        harness.clock.advance(seconds: 1)
        let secret = ScreenTime.secret(UInt8(number + 1))
        let named = [
          "transactionID": bought.transactionID, "deviceID": device, "bundleID": ScreenTime.bundleID,
        ]
        #expect(try await harness.validate(named, secret: secret).status < 500)
        let consent = try await harness.send(
          .post, "/api/v1/consent",
          json: #"{"consent": true, "deviceID": "\#(device)", "bundleID": "\#(ScreenTime.bundleID)"}"#,
          secret: secret)
        #expect(consent.status == 200)
      }
      try await harness.requestsRefund(of: bought)
      try await harness.service.deliveries.storeCalls.run()
      #expect(harness.store.consumptionReports.isEmpty)
      #expect(try await harness.storeCalls().map(\.outcome) == [nil])
    }
  }
}
