import AppStore
import Foundation
import Platform

/// Generates the store's ids. The same seed gives the same ids in the same order, so that a failing life can be
/// repeated.
struct StoreIdentifiers: Sendable {
  private var random: SplitMix64
  private var lastTransaction: UInt64
  private var lastOrderLine: UInt64
  private let isOfXcode: Bool

  init(environment: Environment, seed: UInt64) {
    // Two environments with one seed must not generate the same UUIDs.
    random = SplitMix64(state: environment == .production ? seed : ~seed)
    // As at Apple, ids of production have 15 digits and those of the sandbox 16. The random start prevents a restarted
    // simulator from reusing ids.
    guard environment != .xcode else {
      // Xcode numbers from 0, and again from 0 in each run.
      (isOfXcode, lastTransaction, lastOrderLine) = (true, .max, .max)
      return
    }
    isOfXcode = false
    let base: UInt64 = environment == .production ? 100_000_000_000_000 : 2_000_000_000_000_000
    lastTransaction = base + random.next() % 800_000_000_000_000
    lastOrderLine = base + random.next() % 800_000_000_000_000
  }

  mutating func transactionID() -> String {
    lastTransaction &+= 1
    return String(lastTransaction)
  }

  mutating func orderLineID() -> String {
    lastOrderLine &+= 1
    return String(lastOrderLine)
  }

  /// A random id of 18 digits, as at Apple; 0 in Xcode.
  mutating func appTransactionID() -> String {
    isOfXcode ? "0" : String(700_000_000_000_000_000 + random.next() % 100_000_000_000_000_000)
  }

  /// A random UUID (version 4).
  mutating func uuid() -> UUID { UUID(randomFrom: &random) }

  /// A name for a new Apple Account.
  mutating func accountID() -> String { "account-\(uuid().uuidString.lowercased())" }

  /// Random bytes of the length of a SHA-384, in base64.
  mutating func deviceVerification() -> String {
    var bytes: [UInt8] = []
    for _ in 0..<48 { bytes.append(UInt8(truncatingIfNeeded: random.next())) }
    return Base64.string(bytes, .standard)
  }
}

extension UUID {
  /// Makes a random UUID (version 4) with the generator.
  init(randomFrom random: inout SplitMix64) {
    let (high, low) = (random.next(), random.next())
    func byte(_ word: UInt64, _ index: UInt64) -> UInt8 {
      UInt8(truncatingIfNeeded: word >> (56 - 8 * index))
    }
    self.init(
      uuid: (
        byte(high, 0), byte(high, 1), byte(high, 2), byte(high, 3), byte(high, 4), byte(high, 5),
        byte(high, 6) & 0x0F | 0x40, byte(high, 7), byte(low, 0) & 0x3F | 0x80, byte(low, 1),
        byte(low, 2), byte(low, 3), byte(low, 4), byte(low, 5), byte(low, 6), byte(low, 7)
      ))
  }
}

/// The order id in a customer's receipt e-mail, such as `M00G3Z8Q5TK`.
///
/// It encodes the transaction id: `M` and ten base-36 digits, which hold the 15 or 16 digits of a transaction id.
struct OrderID: Hashable, Sendable {
  private static let digits = Array("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ".utf8)
  private static let length = 10

  /// The transaction of the order.
  let transactionID: String

  /// Makes the order id of a transaction.
  init(transactionID: String) {
    self.transactionID = transactionID
  }

  /// Parses an order id; nil for other texts.
  init?(_ text: String) {
    let bytes = Array(text.utf8)
    guard bytes.count == Self.length + 1, bytes[0] == UInt8(ascii: "M") else { return nil }
    var number: UInt64 = 0
    for byte in bytes.dropFirst() {
      guard let value = Self.digits.firstIndex(of: byte) else { return nil }
      // Ten digits of base 36 fit in 64 bits.
      number = number * 36 + UInt64(value)
    }
    transactionID = String(number)
  }

  /// The order id; nil for a transaction id of another form.
  var text: String? {
    guard var number = UInt64(transactionID) else { return nil }
    var text: [UInt8] = []
    for _ in 0..<Self.length {
      text.append(Self.digits[Int(number % 36)])
      number /= 36
    }
    guard number == 0 else { return nil }
    return "M" + String(decoding: text.reversed(), as: UTF8.self)
  }
}
