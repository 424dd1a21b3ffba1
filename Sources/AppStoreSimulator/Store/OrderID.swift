/// The order id that stands in a customer's receipt e-mail, such as `M00G3Z8Q5TK`.
///
/// It is the transaction id in another notation, so that every transaction has one: `M` and ten of the
/// digits and capital letters, which hold the 15 or 16 digits of a transaction id.
struct OrderID: Hashable, Sendable {
  private static let digits = Array("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ".utf8)
  private static let length = 10

  /// The transaction that was ordered.
  let transactionID: String

  /// The order of a transaction.
  init(transactionID: String) {
    self.transactionID = transactionID
  }

  /// Reads an order id; nil for what cannot be one.
  init?(_ text: String) {
    let bytes = Array(text.utf8)
    guard bytes.count == Self.length + 1, bytes[0] == UInt8(ascii: "M") else { return nil }
    var number: UInt64 = 0
    for byte in bytes.dropFirst() {
      guard let value = Self.digits.firstIndex(of: byte) else { return nil }
      // Ten digits of base 36 stay far below what 64 bits hold.
      number = number * 36 + UInt64(value)
    }
    transactionID = String(number)
  }

  /// The order id; nil for a transaction id that the store did not give out.
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
