import Foundation
import Testing

@testable import AppStore

struct AppReceiptTests {
  private func read(_ file: ReceiptFile, _ form: ReceiptFile.Form = .der) throws -> AppReceipt {
    try AppReceipt(file.encoded(form))
  }

  // MARK: Reading

  @Test(arguments: ReceiptFile.Form.allCases)
  func `an app receipt is parsed in each encoding that Apple uses`(form: ReceiptFile.Form) throws {
    let file = ReceiptFile(purchases: [
      .init(expiresDate: "2025-02-01T00:00:00Z"),
      .init(
        productID: "life", transactionID: "7", originalTransactionID: "7",
        cancellationDate: "2025-01-05T00:00:00Z"),
    ])
    let receipt = try read(file, form)
    #expect(receipt.bundleID == "com.example.app")
    #expect(receipt.purchases.map(\.productID) == ["com.example.monthly", "life"])
    let subscription = try #require(receipt.purchases.first)
    #expect(subscription.transactionID == "2000000000000001")
    #expect(subscription.originalTransactionID == "1000000000000001")
    #expect(subscription.purchaseDate == Date(timeIntervalSince1970: 1_735_689_600))
    #expect(subscription.expiresDate == Date(timeIntervalSince1970: 1_738_368_000))
    #expect(!subscription.isCancelled)
    #expect(receipt.purchases.last?.expiresDate == nil)
    #expect(receipt.purchases.last?.isCancelled == true)
  }

  @Test func `the base64 of an app receipt may have line breaks, and its length is limited`() throws {
    let bytes = ReceiptFile(purchases: [.init()]).encoded()
    let text = Data(bytes).base64EncodedString(options: [.lineLength64Characters])
    #expect(text.contains("\r\n"))
    #expect(try AppReceipt(base64: text) == AppReceipt(bytes))
    for bad in ["", "\n", "%%%%", "abc", text + "="] {
      #expect(throws: AppReceipt.Failure.notBase64) { try AppReceipt(base64: bad) }
    }
    #expect(throws: AppReceipt.Failure.tooLong) {
      try AppReceipt(base64: String(repeating: "A", count: 2 << 20))
    }
    #expect(throws: AppReceipt.Failure.tooLong) { try AppReceipt(Array(repeating: 0, count: 1 << 20 + 1)) }
  }

  @Test func `an app receipt omits purchases without a usable transaction id`() throws {
    let receipt = try read(
      ReceiptFile(purchases: [
        .init(transactionID: nil, originalTransactionID: nil),
        .init(transactionID: "x", originalTransactionID: ""),
        .init(transactionID: "../1", originalTransactionID: nil), .init(transactionID: nil),
        .init(transactionID: "5", originalTransactionID: nil, purchaseDate: "yesterday"),
        .init(transactionID: "6", originalTransactionID: nil, purchaseDate: "2025-13-45T99:00:00Z"),
      ]))
    #expect(receipt.purchases.map(\.transactionID) == ["1000000000000001", "5", "6"])
    #expect(receipt.purchases.map(\.originalTransactionID) == ["1000000000000001", "5", "6"])
    #expect(receipt.purchases[1].purchaseDate == nil)
  }

  @Test func `data that is not an app receipt is refused with the reason`() throws {
    #expect(throws: AppReceipt.Failure.notAReceipt("no bundle id")) { try read(ReceiptFile(bundleID: nil)) }
    #expect(throws: AppReceipt.Failure.notAReceipt("no bundle id")) { try read(ReceiptFile(bundleID: "")) }
    #expect(throws: AppReceipt.Failure.notAReceipt("no PKCS #7 signed data")) { try AppReceipt([]) }
    #expect(throws: AppReceipt.Failure.notAReceipt("no PKCS #7 signed data")) {
      try AppReceipt(ReceiptFile().payload)
    }
    #expect(try read(ReceiptFile()).purchases.isEmpty)
  }

  @Test func `an app receipt in an OpenSSL container is parsed, streamed or not`() async throws {
    let authority = try await OpenSSLAuthority()
    defer { try? authority.remove() }
    let file = ReceiptFile(purchases: [.init(), .init(transactionID: "9")])
    let expected = try read(file)
    for isStreamed in [false, true] {
      let signed = try await authority.signCMS(file.payload, isStreamed: isStreamed)
      // Streamed means indefinite lengths.
      #expect((signed[1] == 0x80) == isStreamed)
      #expect(try AppReceipt(signed) == expected)
    }
  }

  // MARK: Order of purchases

  @Test func `purchasesByInterest does not depend on the order of purchases in the receipt`() throws {
    let purchases: [ReceiptFile.Purchase] = [
      .init(transactionID: "1", purchaseDate: "2025-03-01T00:00:00Z", expiresDate: "2025-04-01T00:00:00Z"),
      .init(transactionID: "2", purchaseDate: "2025-02-01T00:00:00Z", expiresDate: "2025-03-01T00:00:00Z"),
      .init(transactionID: "3", purchaseDate: "2025-06-01T00:00:00Z"),
      .init(transactionID: "4", purchaseDate: "2025-05-01T00:00:00Z"),
      .init(transactionID: "5", purchaseDate: "2025-05-01T00:00:00Z"),
      .init(
        transactionID: "6", purchaseDate: "2025-07-01T00:00:00Z", expiresDate: "2026-07-01T00:00:00Z",
        cancellationDate: "2025-07-02T00:00:00Z"),
    ]
    var random = SeededGenerator(state: 1)
    for _ in 0..<50 {
      let receipt = try read(ReceiptFile(purchases: purchases.shuffled(using: &random)))
      #expect(receipt.purchasesByInterest.map(\.transactionID) == ["1", "2", "3", "5", "4", "6"])
    }
  }

  // MARK: Malformed input

  @Test(arguments: ReceiptFile.Form.allCases)
  func `a truncated app receipt is refused and does not crash the reader`(form: ReceiptFile.Form) {
    let bytes = ReceiptFile(purchases: [.init(), .init()]).encoded(form)
    for length in bytes.indices {
      #expect(throws: AppReceipt.Failure.self) { try AppReceipt(Array(bytes[..<length])) }
    }
  }

  @Test(arguments: ReceiptFile.Form.allCases)
  func `an app receipt with random changes never crashes the reader`(form: ReceiptFile.Form) {
    let bytes = ReceiptFile(purchases: [.init(), .init(expiresDate: "2025-02-01T00:00:00Z")]).encoded(form)
    var random = SeededGenerator(state: 42)
    var readable = 0
    for _ in 0..<6_000 {
      var changed = bytes
      for _ in 0..<Int.random(in: 1...4, using: &random) {
        let place = Int.random(in: changed.indices, using: &random)
        switch Int.random(in: 0..<4, using: &random) {
        case 0: changed[place] = UInt8.random(in: .min ... .max, using: &random)
        case 1: changed[place] ^= 1 << UInt8.random(in: 0..<8, using: &random)
        case 2: changed.remove(at: place)
        default: changed.insert([0x00, 0x80, 0xFF, 0x24].randomElement(using: &random) ?? 0, at: place)
        }
      }
      if let receipt = try? AppReceipt(changed) {
        readable += 1
        for purchase in receipt.purchasesByInterest {
          #expect((1...20).contains(purchase.originalTransactionID.utf8.count))
        }
      }
    }
    #expect(readable > 0)
  }

  @Test func `the nesting depth and the number of purchases of an app receipt are limited`() throws {
    for tag: UInt8 in [0x30, 0x24, 0xA0] {
      let depth = 200_000
      let bytes = (0..<2 * depth).map { $0 % 2 == 0 ? tag : 0x80 }
      #expect(throws: AppReceipt.Failure.self) { try AppReceipt(bytes) }
      #expect(throws: AppReceipt.Failure.self) {
        try AppReceipt(bytes + Array(repeating: 0, count: 2 * depth))
      }
    }
    let many = Array(repeating: ReceiptFile.Purchase(productID: ""), count: 3_000)
    #expect(try read(ReceiptFile(purchases: many)).purchases.count == 2_048)
  }
}

extension OpenSSLAuthority {
  /// PKCS #7 signed data from `openssl cms`.
  func signCMS(_ content: [UInt8], isStreamed: Bool) async throws -> [UInt8] {
    try Data(content).write(to: folder.appending(path: "content"))
    try await Self.openssl(
      [
        "cms", "-sign", "-binary", "-nodetach", "-in", "content", "-signer", "leaf.pem", "-inkey", "leaf.key",
        "-outform", "DER", "-out", "cms",
      ] + (isStreamed ? ["-stream"] : []), in: folder)
    return Array(try Data(contentsOf: folder.appending(path: "cms")))
  }
}
