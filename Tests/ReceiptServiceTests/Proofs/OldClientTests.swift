import AppStore
import AppStoreSimulator
import Foundation
import HTTPTypes
import Testing

@testable import ReceiptService

/// The old builds of ScreenTime Rewards: a bare transaction id and a device id, no token, no bundle id.
@Suite struct OldClientTests {
  @Test func `an old build's request is answered as its decoder needs it, in every status`() async throws {
    try await withScreenTime { harness in
      let bought = try harness.buy(ScreenTime.individual, bundleID: ScreenTime.bundleID)
      let id = bought.originalTransactionID
      let active = try await harness.oldBuild(validates: bought.transactionID)
      #expect(active.tier == .individual)
      #expect(active.status == .active)
      #expect(active.autoRenewEnabled)
      #expect(try await harness.row(of: id).deviceID == "ABC123-DEF456")

      harness.clock.set(try #require(bought.transaction.expiresDate))
      _ = try harness.store.perform(.failToRenew(grace: true), on: id)
      harness.clock.advance(seconds: 10)
      #expect(try await harness.oldBuild(validates: bought.transactionID).status == .grace)
      harness.clock.advance(days: 60)
      #expect(try await harness.oldBuild(validates: bought.transactionID).status == .expired)

      let other = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      #expect(try await harness.oldBuild(validates: other.transactionID).tier == .family)
      _ = try harness.store.perform(.refundLatest, on: other.originalTransactionID)
      harness.clock.advance(seconds: 10)
      #expect(try await harness.oldBuild(validates: other.transactionID).status == .cancelled)
    }
  }

  @Test func `after a delete and reinstall the request with a new device id works as before`() async throws {
    try await withScreenTime { harness in
      let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      for device in ["ABC123-DEF456", "NEW-1", "NEW-2", "ABC123-DEF456"] {
        let answer = try await harness.oldBuild(device, validates: bought.transactionID)
        #expect(answer.status == .active)
        #expect(answer.tier == .family)
        #expect(try await harness.entitlements(device).string("entitlements.tier") == "family")
      }
    }
  }

  @Test func `an id that the App Store does not know is no 200`() async throws {
    try await withScreenTime { harness in
      let answer = try await harness.send(
        .post, "/api/v1/subscriptions/validate",
        json: #"{"transactionID": "2000000123456789", "deviceID": "ABC123-DEF456"}"#)
      #expect(answer.status == 404)
      #expect(answer.code == "transaction_not_found")
    }
  }
}
