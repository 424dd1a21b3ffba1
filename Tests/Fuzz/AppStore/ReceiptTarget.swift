import FuzzSupport

@testable import AppStore

/// Parses legacy receipts: PKCS #7 in BER, and its attributes.
enum ReceiptTarget {
  @Sendable static func check(_ bytes: [UInt8]) {
    let receipt = try? AppReceipt(bytes)
    // In base64 without line breaks, as clients send it, and with line breaks.
    let text = Base64.encode(bytes, .standard)
    let lines = text.enumerated().flatMap { ($0 % 64 == 63 ? [$1, 0x0D, 0x0A] : [$1]) as [UInt8] }
    for form in [text, lines] where !text.isEmpty {
      let again = try? AppReceipt(base64: String(decoding: form, as: UTF8.self))
      claim(again == receipt, "a receipt is the same in base64")
    }
    _ = try? AppReceipt(base64: String(decoding: bytes, as: UTF8.self))
    guard let receipt else { return }
    claim(!receipt.bundleID.isEmpty, "a receipt has an app")
    claim(receipt.purchases.count <= AppReceipt.maximumPurchases, "as many purchases as the limit")
    for purchase in receipt.purchases {
      for id in [purchase.transactionID, purchase.originalTransactionID] {
        claim((1...20).contains(id.utf8.count) && id.utf8.allSatisfy { (0x30...0x39).contains($0) }, "ids")
      }
    }
    let interest = receipt.purchasesByInterest
    claim(interest.count == receipt.purchases.count, "none is lost")
    claim(Set(interest) == Set(receipt.purchases), "none is made up")
    for (first, second) in zip(interest, interest.dropFirst()) {
      claim(!first.isCancelled || second.isCancelled, "what was not refunded comes first")
    }
  }
}
