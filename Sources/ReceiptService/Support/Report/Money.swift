import HTTP
import JSON

/// An amount in a currency, as a decimal text: a binary fraction could not be added up.
struct Money: Sendable, Hashable, CustomStringConvertible {
  /// In the currency's unit, such as `4.99`.
  var amount: String
  /// ISO 4217.
  var currency: String

  /// - Returns: `nil` if either is unknown.
  init?(_ amount: String?, _ currency: String?) {
    guard let amount, let currency else { return nil }
    self.amount = amount
    self.currency = currency
  }

  var description: String { "\(amount) \(currency)" }
}

extension Money: JSONWritable {
  func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("amount", amount)
      json.member("currency", currency)
    }
  }
}
