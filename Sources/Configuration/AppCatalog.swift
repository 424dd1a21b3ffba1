import Crypto
import Foundation
import HTTP
import JSON
import Subscriptions

/// The apps of a configuration file.
package struct AppCatalog: Sendable {
  /// In the order of the file.
  package let apps: [App]
  private let byBundleID: [String: App]
  private let byHost: [String: App]
  /// The most days that an agent of support gives by one grant or trial extension.
  package let agentGrantDays: Int
  /// The first twelve digits of the SHA-256 of the file.
  package let digest: String

  static let defaultAgentGrantDays = 14
  /// The longest grant or trial extension, in days.
  package static let maximumGrantDays = 36_500

  private init(apps: [App], agentGrantDays: Int, digest: String) {
    self.apps = apps
    self.agentGrantDays = agentGrantDays
    self.digest = digest
    byBundleID = Dictionary(apps.map { ($0.bundleID, $0) }, uniquingKeysWith: { first, _ in first })
    byHost = Dictionary(
      apps.flatMap { app in app.hosts.map { ($0, app) } }, uniquingKeysWith: { first, _ in first })
  }

  /// The app with this bundle id.
  package subscript(bundleID: String) -> App? { byBundleID[bundleID] }

  /// The app with this host name.
  /// - Parameter host: in lower case, without a port.
  package func app(atHost host: String) -> App? { byHost[host] }

  /// Reads a configuration file.
  /// - Throws: an error that names the file, the path in it and the reason.
  package init(contentsOf file: String) throws(ConfigurationProblem) {
    try self.init(json: ConfigurationFile.read(file, setting: "RECEIPTD_CONFIG"), named: file)
  }

  /// Reads a configuration.
  /// - Parameter name: the file name in errors.
  package init(json: Data, named name: String) throws(ConfigurationProblem) {
    let top = try ConfigurationObject(Self.value(of: json, named: name), at: name + ": $")
    try top.allowOnly(["apps", "support"])
    let support = try top.object("support")
    try support?.allowOnly(["agentGrantDays"])
    let agentGrantDays = try support?.integer("agentGrantDays", in: 0...Self.maximumGrantDays)
    guard case .array(let elements) = try top.required("apps") else {
      throw ConfigurationProblem(name + ": apps", "must be a list")
    }
    guard !elements.isEmpty else { throw ConfigurationProblem(name + ": apps", "must not be empty") }
    var apps: [App] = []
    for (index, element) in elements.enumerated() {
      let path = name + ": apps[\(index)]"
      let app = try App(ConfigurationObject(element, at: path))
      if apps.contains(where: { $0.bundleID == app.bundleID }) {
        throw ConfigurationProblem(path + ".bundleID", "'\(app.bundleID)' appears twice")
      }
      for host in app.hosts where apps.contains(where: { $0.hosts.contains(host) }) {
        throw ConfigurationProblem(path + ".hosts", "'\(host)' is a host of another app")
      }
      if app.isDefault, let other = apps.first(where: \.isDefault) {
        throw ConfigurationProblem(path + ".default", "\(other.bundleID) is the default app; mark only one")
      }
      apps.append(app)
    }
    self.init(
      apps: apps, agentGrantDays: agentGrantDays ?? Self.defaultAgentGrantDays,
      digest: SHA256.hash(data: json).prefix(6).map { String(format: "%02x", $0) }.joined())
  }

  /// Checks the syntax first: Foundation's decoder takes trailing commas and does not say where an error is.
  private static func value(of json: Data, named name: String) throws(ConfigurationProblem) -> JSONValue {
    let bytes = Array(json)
    do throws(JSONFailure) {
      try JSONReader.check(bytes, maximumDepth: JSONCoding.maximumDepth)
    } catch {
      throw ConfigurationProblem(name + Self.place(of: error.position, in: bytes), error.words(in: bytes))
    }
    guard let value = try? JSONDecoder().decode(JSONValue.self, from: json) else {
      throw ConfigurationProblem(name, "has a number that is out of range")
    }
    return value
  }

  /// `:3:14`, the line and the column in characters.
  private static func place(of position: Int, in bytes: [UInt8]) -> String {
    let before = bytes.prefix(position)
    let line = before.count { $0 == UInt8(ascii: "\n") } + 1
    let start = before.lastIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? 0
    return ":\(line):\(String(decoding: before[start...], as: UTF8.self).count + 1)"
  }
}

extension JSONFailure {
  /// The error in words for the author of a file.
  fileprivate func words(in bytes: [UInt8]) -> String {
    switch reason {
    case .notUTF8: return "is not UTF-8 without a byte order mark"
    case .tooDeep: return "is nested deeper than \(JSONCoding.maximumDepth) levels"
    default:
      guard position < bytes.count else { return "is not JSON: the file ends too early" }
      let isAfterComma =
        bytes.prefix(position).last { !Character(UnicodeScalar($0)).isWhitespace } == UInt8(ascii: ",")
      let isEnd = bytes[position] == UInt8(ascii: "}") || bytes[position] == UInt8(ascii: "]")
      return isAfterComma && isEnd ? "is not JSON: remove the comma before this bracket" : "is not JSON here"
    }
  }
}
