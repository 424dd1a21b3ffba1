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
