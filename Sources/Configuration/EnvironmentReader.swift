import AppStore
import Crypto
import Foundation
import HTTP
import JWTKit
import Logging

/// Reads settings from the environment. An empty variable counts as missing.
struct EnvironmentReader {
  private let environment: [String: String]

  init(_ environment: [String: String]) { self.environment = environment }

  func text(_ name: String) -> String? {
    environment[name].flatMap { $0.isEmpty ? nil : $0 }
  }

  func required(_ name: String) throws(ConfigurationProblem) -> String {
    guard let value = text(name) else { throw ConfigurationProblem(name, "is not set") }
    return value
  }

  func port(_ name: String) throws(ConfigurationProblem) -> UInt16? {
    guard let value = text(name) else { return nil }
    guard let port = UInt16(value) else {
      throw ConfigurationProblem(name, "must be a port from 0 to 65535")
    }
    return port
  }

  func storeAddress(_ name: String) throws(ConfigurationProblem) -> AppStoreAddress? {
    guard let value = text(name) else { return nil }
    guard let address = AppStoreAddress(value) else {
      throw ConfigurationProblem(name, "must be an http or https address")
    }
    return address
  }

  /// The App Store Connect key. Its three settings must all be set, or none.
  func storeCredentials() throws(ConfigurationProblem) -> AppStoreCredentials? {
    let names = ["APP_STORE_KEY", "APP_STORE_KEY_ID", "APP_STORE_ISSUER_ID"]
    let values = names.map { text($0) }
    guard values.contains(where: { $0 != nil }) else { return nil }
    for (name, value) in zip(names, values) where value == nil {
      throw ConfigurationProblem(name, "is not set, but other settings of the key are; set all three")
    }
    return try AppStoreCredentials(
      file: values[0] ?? "", keyID: values[1] ?? "", issuerID: values[2] ?? "", setting: "APP_STORE_KEY")
  }

  /// The keys in the colon-separated files.
  func entitlementKeys() throws(ConfigurationProblem) -> [Curve25519.Signing.PrivateKey]? {
    guard let files = text("ENTITLEMENT_KEY") else { return nil }
    let names = files.split(separator: ":")
    guard !names.isEmpty else { throw ConfigurationProblem("ENTITLEMENT_KEY", "names no file") }
    return try names.map { file throws(ConfigurationProblem) in
      let data = try ConfigurationFile.read(
        String(file), setting: "ENTITLEMENT_KEY", shownAs: KeyFile.shown(file))
      guard let key = try? Curve25519.Signing.PrivateKey(pem: String(decoding: data, as: UTF8.self)) else {
        throw ConfigurationProblem(
          "ENTITLEMENT_KEY", "\(KeyFile.shown(file)) is not PEM of an Ed25519 private key")
      }
      return key
    }
  }

  func logLevel() throws(ConfigurationProblem) -> Logger.Level {
    guard let value = text("LOG_LEVEL") else { return .info }
    guard let level = Logger.Level(rawValue: value) else {
      let known = Logger.Level.allCases.map(\.rawValue).joined(separator: ", ")
      throw ConfigurationProblem("LOG_LEVEL", "must be one of \(known)")
    }
    return level
  }

  func logsAsJSON() throws(ConfigurationProblem) -> Bool? {
    switch text("LOG_FORMAT") {
    case nil: nil
    case "json": true
    case "text": false
    default: throw ConfigurationProblem("LOG_FORMAT", "must be json or text")
    }
  }
}

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

  /// The header field of a single-sign-on proxy. Anyone could send it where no proxy is trusted.
  func consoleUserHeader() throws(ConfigurationProblem) -> String? {
    guard let value = text("CONSOLE_USER_HEADER") else { return nil }
    let isName =
      value.utf8.count <= 100
      && value.utf8.allSatisfy {
        switch $0 {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
          UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"):
          true
        default: false
        }
      }
    guard isName, !Self.headersOfBrowsers.contains(value.lowercased()) else {
      throw ConfigurationProblem(
        "CONSOLE_USER_HEADER",
        "must be the name of a header field of the proxy's own, such as X-Forwarded-User")
    }
    guard text("TRUSTED_PROXIES") != nil else {
      throw ConfigurationProblem(
        "CONSOLE_USER_HEADER",
        "needs TRUSTED_PROXIES: without it nothing tells the proxy's header from a browser's")
    }
    guard try !trustedProxies().isEveryone else {
      throw ConfigurationProblem(
        "CONSOLE_USER_HEADER",
        "needs the proxy's own address in TRUSTED_PROXIES: a network of all addresses lets anyone sign in as anyone"
      )
    }
    return value
  }

  /// The host name of the console. A page elsewhere whose name leads to this machine (DNS rebinding) has another one.
  func consoleHost() throws(ConfigurationProblem) -> String {
    guard let value = text("CONSOLE_HOST") else {
      throw ConfigurationProblem(
        "CONSOLE_USER_HEADER",
        "needs CONSOLE_HOST, the host name of the console, such as console.example.com: without it a page elsewhere "
          + "could act through the proxy")
    }
    guard value.utf8.count <= 253, !value.contains(where: { "/:@ ".contains($0) }) else {
      throw ConfigurationProblem(
        "CONSOLE_HOST", "must be a host name without scheme, port and path, such as console.example.com")
    }
    return value.lowercased()
  }

  /// Fields that a proxy passes on, or that say something else.
  private static let headersOfBrowsers: Set = [
    "authorization", "cookie", "forwarded", "from", "host", "origin", "referer", "user-agent",
    "x-forwarded-for",
    "x-forwarded-host", "x-forwarded-proto",
  ]

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

extension AppStoreCredentials {
  /// Reads a key from its file.
  /// - Parameter setting: the name of the setting in errors.
  package init(
    file: String, keyID: String, issuerID: String, setting: String
  ) throws(ConfigurationProblem) {
    let data = try ConfigurationFile.read(file, setting: setting, shownAs: KeyFile.shown(file))
    do throws(AppStoreCredentials.Failure) {
      try self.init(
        privateKey: String(decoding: data, as: UTF8.self), keyID: keyID, issuerID: issuerID)
    } catch {
      throw ConfigurationProblem(setting, "\(KeyFile.shown(file)) is not a .p8 file of App Store Connect")
    }
  }
}

extension Curve25519.Signing.PrivateKey {
  /// - Parameter pem: PKCS #8 (RFC 8410), as `openssl genpkey -algorithm ed25519` writes it.
  package init(pem: String) throws {
    try self.init(rawRepresentation: EdDSA.PrivateKey(pem: pem).rawRepresentation)
  }
}
