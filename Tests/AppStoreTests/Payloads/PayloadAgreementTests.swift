import Foundation
import Identifiers
import JSON
import Testing

@testable import AppStore

/// Compares the payload reader with Foundation's decoder on the same types.
struct PayloadAgreementTests {
  @Test(
    arguments: [Texts.transaction, Texts.renewalInfo, Texts.appTransaction] + Texts.notifications)
  func `the payload reader reads every payload as Foundation does`(text: String) throws {
    for bytes in [
      Array(text.utf8), Array(text.replacing(":", with: " :\t ").replacing(",", with: "\n,").utf8),
    ] {
      try agree(bytes, as: TransactionInfo.self)
      try agree(bytes, as: RenewalInfo.self)
      try agree(bytes, as: AppTransaction.self)
      try agree(bytes, as: NotificationPayload.self)
    }
  }

  @Test func `the payload reader reads a mutated payload as Foundation does, or it is not JSON`()
    async throws
  {
    var random = SeededGenerator(state: 11)
    var outcomes: [Agreement: Int] = [:]
    for _ in 0..<1_200 {
      // Let other tests use the thread.
      await Task.yield()
      let changes = [
        try agree(mutate(Texts.transaction, using: &random), as: TransactionInfo.self),
        try agree(mutate(Texts.renewalInfo, using: &random), as: RenewalInfo.self),
        try agree(mutate(Texts.appTransaction, using: &random), as: AppTransaction.self),
        try agree(
          mutate(Texts.notifications.randomElement(using: &random) ?? "", using: &random),
          as: NotificationPayload.self),
      ]
      for outcome in changes { outcomes[outcome, default: 0] += 1 }
    }
    // Both outcomes must be frequent for the test to mean anything.
    #expect(outcomes[.accepted, default: 0] > 500 && outcomes[.refused, default: 0] > 500)
  }

  private enum Agreement { case accepted, refused, stricter }

  @discardableResult
  private func agree<Payload: SignedPayload>(_ bytes: [UInt8], as _: Payload.Type) throws -> Agreement {
    let ours = try? Payload(signedJSON: bytes)
    let theirs = try? JSONDecoder().decode(Payload.self, from: Data(bytes))
    if ours == theirs { return ours == nil ? .refused : .accepted }
    // Foundation accepts trailing commas, skips unread members, and accepts UUID forms that only scanf(3) accepts.
    let isJSON = (try? JSONReader.check(bytes, maximumDepth: 512)) != nil
    let isStricter = ours == nil && (!isJSON || hasStrangeUUID(bytes))
    #expect(isStricter, "\(Payload.self): \(String(decoding: bytes, as: UTF8.self))")
    return .stricter
  }

  /// Whether a string of the payload is a UUID only for scanf(3), which Foundation uses.
  private func hasStrangeUUID(_ bytes: [UInt8]) -> Bool {
    bytes.indices.dropLast(37).contains { start in
      guard bytes[start] == UInt8(ascii: "\""), bytes[start + 37] == UInt8(ascii: "\"") else { return false }
      let text = String(decoding: bytes[(start + 1)...(start + 36)], as: UTF8.self)
      return UUID(uuidString: text) != nil && UUID(rfc9562: text) == nil
    }
  }

  private func mutate(_ text: String, using random: inout SeededGenerator) -> [UInt8] {
    var bytes = Array(text.utf8)
    for _ in 0..<Int.random(in: 1...2, using: &random) {
      let index = Int.random(in: bytes.indices, using: &random)
      switch Int.random(in: 0..<5, using: &random) {
      case 0: bytes[index] ^= 1 << UInt8.random(in: 0..<8, using: &random)
      case 1: bytes[index] = UInt8.random(in: 0x20..<0x7F, using: &random)
      case 2: bytes.remove(at: index)
      case 3: bytes.insert(contentsOf: Self.pieces.randomElement(using: &random)?.utf8 ?? "".utf8, at: index)
      default:
        let end = min(bytes.count, index + Int.random(in: 0..<12, using: &random))
        bytes.replaceSubrange(index..<end, with: Self.pieces.randomElement(using: &random)?.utf8 ?? "".utf8)
      }
    }
    return bytes
  }

  private static let pieces = [
    "{", "}", "[", "]", ",", ":", "\"", "\\", "\\u0041", "\\ud800", "null", "true", "0", "-", ".", "e2", " ",
    "é", "\u{1}",
    "\"price\":", "\"signedDate\":null,", "\"x\":[1.50,{}],", "\"type\":\"", "00", "99999999999999999999",
  ]
}
