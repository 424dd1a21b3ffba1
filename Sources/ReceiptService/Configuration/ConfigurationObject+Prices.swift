extension ConfigurationObject {
  /// Reads amounts by currency such as `{"USD": 7.99}`, in thousandths of the currency unit.
  func prices(_ name: String) throws(ConfigurationProblem) -> [String: Int64]? {
    guard let amounts = try object(name) else { return nil }
    var prices: [String: Int64] = [:]
    for currency in amounts.names {
      let path = amounts.path(of: currency)
      guard currency.utf8.count == 3, currency.utf8.allSatisfy({ (0x41...0x5A).contains($0) }) else {
        throw ConfigurationProblem(path, "is not a currency of three capital letters (ISO 4217)")
      }
      guard let value = amounts.optional(currency), let milliunits = value.milliunits else {
        throw ConfigurationProblem(path, "must be an amount such as 7.99, with three decimals at most")
      }
      prices[currency] = milliunits
    }
    return prices
  }
}

extension JSONValue {
  /// An amount of money in thousandths, as Apple writes prices.
  fileprivate var milliunits: Int64? {
    let amount: Double
    switch self {
    case .integer(let whole): amount = Double(whole)
    case .number(let fractional): amount = fractional
    default: return nil
    }
    let thousandths = (amount * 1000).rounded()
    // 7.99 has no exact binary form. A larger difference means more than three decimals.
    guard amount >= 0, amount <= 1_000_000_000, abs(amount * 1000 - thousandths) < 1e-4 else { return nil }
    return Int64(thousandths)
  }
}
