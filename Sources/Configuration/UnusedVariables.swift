import Foundation
import Logging
import Subscriptions

/// An environment variable that receiptd does not read and whose name is one edit away from a setting.
package struct MistypedSetting: Hashable, CustomStringConvertible {
  package var variable: String
  var setting: String

  package var description: String {
    "\(variable) is not a setting of receiptd; is it meant to be \(setting)?"
  }

  /// Names that are shorter than this are near too many variables of other programs.
  private static let shortestName = 8

  /// - Parameter catalog: its secrets may have any name, so they are left out.
  package static func all(in environment: [String: String], catalog: AppCatalog) -> [MistypedSetting] {
    catalog.unnamedVariables(in: environment).filter { !Settings.names.contains($0) }.compactMap { variable in
      Settings.names.first { $0.count >= shortestName && isOneEdit(from: variable, to: $0) }.map {
        MistypedSetting(variable: variable, setting: $0)
      }
    }
  }

  /// Whether one character inserted, deleted, replaced or swapped with the next turns one name into the other.
  static func isOneEdit(from first: String, to second: String) -> Bool {
    let (a, b) = (Array(first.utf8), Array(second.utf8))
    let prefix = zip(a, b).prefix { $0 == $1 }.count
    let (restA, restB) = (a.dropFirst(prefix), b.dropFirst(prefix))
    if restA.dropFirst().elementsEqual(restB) || restB.dropFirst().elementsEqual(restA) { return a != b }
    let isSwap = restA.count >= 2 && restA.prefix(2).elementsEqual(restB.prefix(2).reversed())
    return restA.count == restB.count
      && (restA.dropFirst().elementsEqual(restB.dropFirst())
        || isSwap && restA.dropFirst(2).elementsEqual(restB.dropFirst(2)))
  }
}

/// Environment variables of the apps' old backends, which receiptd does not read.
package struct ReplacedVariables {
  /// The log lines: the names of the variables that are set, and what replaces them. Values are never shown.
  package let lines: [(names: [String], message: String)]

  /// - Parameter catalog: its secrets may have any name, so they are left out.
  package init(in environment: [String: String], catalog: AppCatalog) {
    let names = catalog.unnamedVariables(in: environment)
    var lines: [(names: [String], message: String)] = []
    if names.contains("APPLE_SHARED_SECRET") {
      lines.append(
        (
          ["APPLE_SHARED_SECRET"],
          "is not used, because receiptd does not call verifyReceipt; set APP_STORE_KEY, APP_STORE_KEY_ID and "
            + "APP_STORE_ISSUER_ID instead"
        ))
    }
    let cloudKit = names.filter { $0.hasPrefix("CLOUDKIT_") }
    if !cloudKit.isEmpty {
      lines.append(
        (
          cloudKit,
          "is not used; set \"cloudkit\" of the app in RECEIPTD_CONFIG instead: container, keyID and key, the "
            + "file of a server-to-server key"
        ))
    }
    let environment = names.filter { $0 == "NODE_ENV" || $0 == "PRODUCTION" }
    if !environment.isEmpty {
      lines.append(
        (
          environment,
          "is not used, because Apple signs the environment of each purchase; set \"environments\" and "
            + "\"sandboxGrants\" of the app in RECEIPTD_CONFIG instead"
        ))
    }
    self.lines = lines
  }

  package func report(to logger: Logger) {
    for line in lines {
      let names = line.names.joined(separator: ", ")
      logger.warning("\(names) \(line.message)", metadata: ["setting": "\(names)"])
    }
  }
}

extension Settings {
  /// The names of all settings, which docs/configuration.md lists.
  static let names = [
    "ADMIN_HOST", "ADMIN_PORT", "APP_STORE_ISSUER_ID", "APP_STORE_KEY", "APP_STORE_KEY_ID", "APP_STORE_ROOTS",
    "APP_STORE_SANDBOX_URL", "APP_STORE_URL", "CONSOLE_HOST", "CONSOLE_USER_HEADER", "DATABASE_POOLER",
    "DATABASE_URL",
    "DRAIN_DELAY",
    "ENTITLEMENT_KEY", "FORWARDED_HEADER", "HOST", "LOG_FORMAT", "LOG_LEVEL", "NOTIFICATION_RETENTION_MONTHS",
    "PORT", "RATE_LIMIT", "RECEIPTD_CONFIG", "RECEIPTD_MIGRATIONS", "RECEIPTD_TOKEN",
    "SUPPORT_TOKEN",
    "TRANSACTION_RETENTION_MONTHS", "TRUSTED_PROXIES",
  ]
}

extension AppCatalog {
  /// The variables that have a value and are not named by the configuration as a secret, in order.
  func unnamedVariables(in environment: [String: String]) -> [String] {
    let named = Set(
      apps.flatMap { app in
        (app.auth?.secretEnvironmentVariables ?? []) + app.webhooks.map(\.secretEnvironmentVariable)
      })
    return environment.filter { !$0.value.isEmpty && !named.contains($0.key) }.keys.sorted()
  }
}
