import AppStore
import AppStoreSimulator
import Foundation
import Testing

@testable import Ledger
@testable import ReceiptService

@Suite struct ReceiptTests {
  @Test func `a legacy receipt returns the App Store's state of its purchase`() async throws {
    try await withHarness { harness in
      let user = UUID()
      let bought = try harness.buy()
      let receipt = LegacyReceipt(purchases: [bought.transaction])
      let answer = try await harness.validate(
        ["receipt": receipt.base64], token: try await harness.token(for: user))
      #expect(answer.status == 200)
      #expect(answer.string("subscription.originalTransactionID") == bought.originalTransactionID)
      #expect(answer.string("subscription.status") == "active")
      #expect(answer.bool("entitlements.isAccessGranted") == true)
      #expect(try await harness.row(of: bought.originalTransactionID).userID == user)
    }
  }

  @Test func `a legacy receipt returns changes from after the receipt was made`() async throws {
    try await withHarness { harness in
      let bought = try harness.buy()
      let receipt = LegacyReceipt(purchases: [bought.transaction])
      harness.clock.advance(days: 1)
      _ = try harness.store.perform(
        .refund(transactionID: nil, percentage: 100, reason: .refundedForOtherReason),
        on: bought.originalTransactionID)
      let answer = try await harness.validate(["receipt": receipt.base64, "bundleID": TestApps.climbing])
      #expect(answer.string("subscription.status") == "cancelled")
      #expect(answer.bool("entitlements.isAccessGranted") == false)
    }
  }

  @Test func `a legacy receipt of a lifetime or sandbox purchase is found`() async throws {
    try await withHarness { harness in
      let lifetime = try harness.buy(TestApps.lifetime)
      let forGood = try await harness.validate([
        "receipt": LegacyReceipt(purchases: [lifetime.transaction]).base64
      ])
      #expect(forGood.status == 200)
      #expect(forGood.isNull("subscription.expiryDate"))
      let tested = try harness.buy(in: .sandbox)
      let sandbox = try await harness.validate([
        "receipt": LegacyReceipt(purchases: [tested.transaction]).base64
      ])
      #expect(sandbox.string("subscription.environment") == "Sandbox")
    }
  }

  @Test func `a legacy receipt prefers the purchase of a product in the catalog`() async throws {
    try await withHarness { harness in
      let bought = try harness.buy(TestApps.lifetime)
      var coins = bought.transaction
      coins.productId = "com.example.climbing.coins"
      coins.transactionId = "2000000999999999"
      coins.originalTransactionId = coins.transactionId
      coins.purchaseDate += 3_600
      let answer = try await harness.validate([
        "receipt": LegacyReceipt(purchases: [coins, bought.transaction]).base64
      ])
      #expect(answer.string("subscription.originalTransactionID") == bought.originalTransactionID)
    }
  }

  @Test func `an unusable legacy receipt gets an error with the reason`() async throws {
    try await withHarness { harness in
      let bought = try harness.buy()
      let receipt = LegacyReceipt(purchases: [bought.transaction])
      var stranger = receipt
      stranger.bundleID = "com.example.unknown"
      #expect(try await harness.validate(["receipt": stranger.base64]).code == "wrong_app")
      let mismatched = try await harness.validate(["receipt": receipt.base64, "bundleID": TestApps.family])
      #expect(mismatched.code == "wrong_app")

      let empty = try await harness.validate(["receipt": LegacyReceipt(purchases: []).base64])
      #expect(empty.status == 404)
      #expect(empty.code == "transaction_not_found")

      var invented = bought.transaction
      invented.originalTransactionId = "2000000999999998"
      let unknown = try await harness.validate(["receipt": LegacyReceipt(purchases: [invented]).base64])
      #expect(unknown.code == "transaction_not_found")

      // The App Store does not find another app's transaction under this app's bundle id.
      let foreign = try harness.buy(TestApps.individual, bundleID: TestApps.family)
      let stolen = try await harness.validate([
        "receipt": LegacyReceipt(purchases: [foreign.transaction]).base64
      ])
      #expect(stolen.code == "transaction_not_found")

      for bad in ["", "%", "AAAA", String(receipt.base64.dropLast(4))] {
        let answer = try await harness.validate(["receipt": bad])
        #expect(answer.status == 400)
        #expect(answer.code == "invalid_request")
      }
    }
  }
}

/// A minimal app receipt with some purchases.
struct LegacyReceipt {
  var bundleID = TestApps.climbing
  var purchases: [TransactionInfo]

  var base64: String { Data(bytes).base64EncodedString() }

  private var bytes: [UInt8] {
    let payload = set([(2, element(0x0C, bundleID))] + purchases.map { (17, purchase($0)) })
    let content = element(0x30, oid(1) + element(0xA0, element(0x04, payload)))
    return element(0x30, oid(2) + element(0xA0, element(0x30, integer(1) + element(0x31, []) + content)))
  }

  private func purchase(_ info: TransactionInfo) -> [UInt8] {
    set([
      (1702, element(0x0C, info.productId)), (1703, element(0x0C, info.transactionId)),
      (1705, element(0x0C, info.originalTransactionId)),
      (1704, element(0x16, info.purchaseDate.formatted(.iso8601))),
      (1708, element(0x16, info.expiresDate?.formatted(.iso8601) ?? "")),
    ])
  }

  private func set(_ attributes: [(Int, [UInt8])]) -> [UInt8] {
    element(0x31, attributes.flatMap { element(0x30, integer($0.0) + integer(1) + element(0x04, $0.1)) })
  }

  private func integer(_ value: Int) -> [UInt8] { element(0x02, [UInt8(value >> 8), UInt8(value & 0xFF)]) }
  private func element(_ tag: UInt8, _ text: String) -> [UInt8] { element(tag, Array(text.utf8)) }

  private func element(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
    [tag, 0x82, UInt8(content.count >> 8), UInt8(content.count & 0xFF)] + content
  }

  /// The PKCS #7 types: 1 is data, 2 is signed data.
  private func oid(_ last: UInt8) -> [UInt8] {
    element(0x06, [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x07, last])
  }
}
