import AppStore
import Foundation
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
  func entitlementKeys() throws(ConfigurationProblem) -> [EntitlementKey]? {
    guard let files = text("ENTITLEMENT_KEY") else { return nil }
    let names = files.split(separator: ":")
    guard !names.isEmpty else { throw ConfigurationProblem("ENTITLEMENT_KEY", "names no file") }
    return try names.map { file throws(ConfigurationProblem) in
      let data = try ConfigurationFile.read(
        String(file), setting: "ENTITLEMENT_KEY", shownAs: KeyFile.shown(file))
      guard let key = try? EntitlementKey(pem: String(decoding: data, as: UTF8.self)) else {
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

extension AppStoreCredentials {
  /// Reads a key from its file.
  /// - Parameter setting: the name of the setting in errors.
  init(
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
