import Foundation
import Subscriptions

/// The apps of a configuration file.
public struct AppCatalog: Sendable {
  /// In the order of the file.
  public let apps: [App]
  private let byBundleID: [String: App]
  private let byHost: [String: App]

  /// Creates a catalog of apps with distinct bundle ids.
  public init(apps: [App]) {
    self.apps = apps
    byBundleID = Dictionary(apps.map { ($0.bundleID, $0) }, uniquingKeysWith: { first, _ in first })
    byHost = Dictionary(
      apps.flatMap { app in app.hosts.map { ($0, app) } }, uniquingKeysWith: { first, _ in first })
  }

  /// The app with this bundle id.
  public subscript(bundleID: String) -> App? { byBundleID[bundleID] }

  /// The app with this host name.
  /// - Parameter host: in lower case, without a port.
  func app(atHost host: String) -> App? { byHost[host] }

  /// Reads a configuration file.
  /// - Throws: an error that names the file, the path in it and the reason.
  public init(contentsOf file: String) throws(ConfigurationProblem) {
    let data: Data
    do {
      data = try Data(contentsOf: URL(filePath: file))
    } catch {
      throw ConfigurationProblem("RECEIPTD_CONFIG", "cannot read \(file)")
    }
    try self.init(json: data, named: file)
  }

  /// Reads a configuration.
  /// - Parameter name: the file name in errors.
  init(json: Data, named name: String) throws(ConfigurationProblem) {
    let root: JSONValue
    do {
      root = try JSONDecoder().decode(JSONValue.self, from: json)
    } catch {
      throw ConfigurationProblem(name, "is not JSON")
    }
    let top = try ConfigurationObject(root, at: name + ": $")
    try top.allowOnly(["apps"])
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
    self.init(apps: apps)
  }
}
