import HTTP

/// Settings of proxies, rate limits, poolers and retention.
extension EnvironmentReader {
  /// Requests a second: 20 by default, `nil` for `off`.
  func rateLimit() throws(ConfigurationProblem) -> Int? {
    guard let value = text("RATE_LIMIT") else { return 20 }
    if value == "off" { return nil }
    guard let rate = number(value), (1...1_000_000).contains(rate) else {
      throw ConfigurationProblem(
        "RATE_LIMIT", "must be a whole number of requests a second, at least 1, or off")
    }
    return rate
  }

  /// The proxies, as comma-separated addresses and networks, and the header field that they write.
  func trustedProxies() throws(ConfigurationProblem) -> TrustedProxies {
    let header = try forwardedHeader()
    guard let value = text("TRUSTED_PROXIES") else { return TrustedProxies() }
    var networks: [IPNetwork] = []
    for part in value.split(separator: ",", omittingEmptySubsequences: false) {
      let name = part.drop { $0 == " " }.reversed().drop { $0 == " " }.reversed()
      guard let network = IPNetwork(String(name)) else {
        throw ConfigurationProblem(
          "TRUSTED_PROXIES",
          "must be comma-separated addresses or networks such as 10.0.0.0/8; '\(String(name))' is neither"
        )
      }
      networks.append(network)
    }
    return TrustedProxies(networks, header: header)
  }

  private func forwardedHeader() throws(ConfigurationProblem) -> ForwardedHeader {
    guard let value = text("FORWARDED_HEADER") else { return .xForwardedFor }
    guard let header = ForwardedHeader(rawValue: value.lowercased()) else {
      throw ConfigurationProblem("FORWARDED_HEADER", "must be x-forwarded-for or forwarded")
    }
    return header
  }

  /// A whole number of seconds.
  func seconds(_ name: String, atMost maximum: Int) throws(ConfigurationProblem) -> Duration? {
    guard let value = text(name) else { return nil }
    guard let seconds = number(value), seconds <= maximum else {
      throw ConfigurationProblem(name, "must be a whole number of seconds from 0 to \(maximum)")
    }
    return .seconds(seconds)
  }

  /// A whole number of months; `nil` keeps everything. The minimum covers the 180 days of the App Store's notification
  /// history: a reconciliation would restore a notification that was deleted earlier.
  func monthsKept(_ name: String) throws(ConfigurationProblem) -> Int? {
    guard let value = text(name) else { return nil }
    guard let months = number(value), (7...1_200).contains(months) else {
      throw ConfigurationProblem(
        name, "must be a whole number of months from 7 to 1200, or unset to keep everything")
    }
    return months
  }

  /// The kind of the connection pooler between receiptd and the database.
  enum Pooler {
    case none
    /// A pooler that refuses settings at login.
    case session
    /// A pooler that also may give each transaction another connection.
    case transaction
  }

  func pooler() throws(ConfigurationProblem) -> Pooler {
    switch text("DATABASE_POOLER") {
    case nil, "none": .none
    case "session": .session
    case "transaction": .transaction
    default: throw ConfigurationProblem("DATABASE_POOLER", "must be none, session or transaction")
    }
  }

  /// Parses a number of one to nine digits.
  private func number(_ text: String) -> Int? {
    guard (1...9).contains(text.utf8.count), text.utf8.allSatisfy({ (48...57).contains($0) }) else {
      return nil
    }
    return Int(text)
  }
}
