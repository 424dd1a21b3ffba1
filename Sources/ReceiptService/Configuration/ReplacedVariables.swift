import Logging
import Subscriptions

/// Environment variables of the apps' old backends, which receiptd does not read.
struct ReplacedVariables {
  /// The log lines: the names of the variables that are set, and what replaces them. Values are never shown.
  let lines: [(names: [String], message: String)]

  /// - Parameter catalog: its secrets may have any name, so they are left out.
  init(in environment: [String: String], catalog: AppCatalog) {
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
    self.lines = lines
  }

  func report(to logger: Logger) {
    for line in lines {
      let names = line.names.joined(separator: ", ")
      logger.warning("\(names) \(line.message)", metadata: ["setting": "\(names)"])
    }
  }
}
