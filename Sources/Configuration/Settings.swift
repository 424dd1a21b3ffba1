import AppStore
import Crypto
import Foundation
import HTTP
import Logging
import Postgres
import Subscriptions

/// The settings of the environment, which docs/configuration.md lists.
package struct Settings: Sendable {
  /// The connection settings of the database.
  package var database: PostgresConfiguration
  /// The address of the server for clients and the App Store.
  package var host: String
  /// The port of the server for clients and the App Store.
  package var port: UInt16
  /// The address of the admin server.
  package var adminHost: String
  /// The port of the admin server.
  package var adminPort: UInt16
  /// The file with the apps.
  package var configurationFile: String
  /// The folder of the migrations.
  package var migrationsFolder: String
  /// The files with root certificates; empty for the shipped root.
  package var rootFiles: [String]
  /// The addresses of the App Store Server API.
  package var storeAddresses: (production: AppStoreAddress, sandbox: AppStoreAddress)
  /// The App Store Connect key; `nil` if none is set.
  package var storeCredentials: AppStoreCredentials?
  /// The keys of entitlement tokens, the signing key first; `nil` if they are in the database.
  package var entitlementKeys: [Curve25519.Signing.PrivateKey]?
  /// The bearer token of the support API; `nil` turns the support API off.
  package var supportToken: String?
  /// Requests a second of one address or user; `nil` for no limit.
  package var rateLimit: Int?
  /// The proxies whose forwarding header is trusted, and the name of the header.
  package var trustedProxies: TrustedProxies
  /// The header field in which these proxies name the person who uses the console; `nil` for none.
  package var consoleUserHeader: String?
  /// The name of the host under which people reach the console; `nil` without ``consoleUserHeader``.
  package var consoleHost: String?
  /// For how long a stopping process still serves requests, so that load balancers notice its `/readyz`.
  package var drainDelay: Duration
  /// For how long notifications and transactions are kept.
  package var retention: Retention
  /// The least severe level that is logged.
  package var logLevel: Logger.Level
  /// `true` for JSON, `false` for text, `nil` for text on a terminal and JSON elsewhere.
  package var logsAsJSON: Bool?
  /// The environment, for the secrets that the apps' configuration names.
  package var environment: [String: String]

  /// Reads the environment.
  /// - Throws: an error that names the setting, and never contains a secret.
  package init(environment: [String: String]) throws(ConfigurationProblem) {
    let reader = EnvironmentReader(environment)
    self.environment = environment
    let uri = try reader.required("DATABASE_URL")
    do throws(PostgresError) {
      database = try PostgresConfiguration(uri: uri, applicationName: "receiptd")
    } catch {
      throw ConfigurationProblem("DATABASE_URL", "\(error)")
    }
    // The App Store's webhook timeout is a few seconds. An unavailable database must be reported before that.
    database.queryTimeout = .seconds(3)
    database.acquireTimeout = .milliseconds(1_500)
    database.maximumConnections = 16
    let pooler = try reader.pooler()
    database.usesPreparedStatements = pooler != .transaction
    database.setsOptions = pooler == .none
    host = reader.text("HOST") ?? "127.0.0.1"
    port = try reader.port("PORT") ?? 3000
    adminHost = reader.text("ADMIN_HOST") ?? "127.0.0.1"
    adminPort = try reader.port("ADMIN_PORT") ?? 3001
    configurationFile = Self.configurationFile(in: environment)
    migrationsFolder = reader.text("RECEIPTD_MIGRATIONS") ?? "migrations"
    rootFiles = (reader.text("APP_STORE_ROOTS") ?? "").split(separator: ":").map(String.init)
    storeAddresses = (
      production: try reader.storeAddress("APP_STORE_URL") ?? .production,
      sandbox: try reader.storeAddress("APP_STORE_SANDBOX_URL") ?? .sandbox
    )
    storeCredentials = try reader.storeCredentials()
    entitlementKeys = try reader.entitlementKeys()
    supportToken = reader.text("SUPPORT_TOKEN")
    rateLimit = try reader.rateLimit()
    trustedProxies = try reader.trustedProxies()
    consoleUserHeader = try reader.consoleUserHeader()
    consoleHost = try consoleUserHeader == nil ? nil : reader.consoleHost()
    drainDelay = try reader.seconds("DRAIN_DELAY", atMost: 300) ?? .zero
    retention = Retention(
      notifications: try reader.monthsKept("NOTIFICATION_RETENTION_MONTHS"),
      transactions: try reader.monthsKept("TRANSACTION_RETENTION_MONTHS"))
    logLevel = try reader.logLevel()
    logsAsJSON = try reader.logsAsJSON()
  }

  /// The file with the apps, also where other settings are invalid.
  package static func configurationFile(in environment: [String: String]) -> String {
    EnvironmentReader(environment).text("RECEIPTD_CONFIG") ?? "config/apps.json"
  }
}

/// The number of whole months of each table to keep besides the current one; `nil` keeps all.
package struct Retention: Sendable, Equatable {
  /// `NOTIFICATION_RETENTION_MONTHS`
  package var notifications: Int?
  /// `TRANSACTION_RETENTION_MONTHS`
  package var transactions: Int?

  package init(notifications: Int? = nil, transactions: Int? = nil) {
    self.notifications = notifications
    self.transactions = transactions
  }
}

extension TrustedRoots {
  /// The file name of Apple's root in `config`.
  static let shippedFileName = "AppleRootCA-G3.cer"

  /// Reads the roots of `APP_STORE_ROOTS`, or the shipped one in `config/` of the working directory or beside the
  /// configuration file.
  /// - Throws: an error that names `APP_STORE_ROOTS`, also if the shipped file is not Apple's root.
  package init(_ settings: Settings) throws(ConfigurationProblem) {
    guard settings.rootFiles.isEmpty else {
      try self.init(paths: settings.rootFiles)
      return
    }
    let candidates = Self.shippedFiles(settings)
    guard let file = candidates.first(where: { FileManager.default.isReadableFile(atPath: $0) }) else {
      throw ConfigurationProblem(
        "APP_STORE_ROOTS", "is not set, and there is no \(candidates.joined(separator: " or "))")
    }
    try self.init(paths: [file])
    guard fingerprints == [Self.appleRootG3Fingerprint] else {
      throw ConfigurationProblem(
        "APP_STORE_ROOTS", "is not set, and \(file) is not Apple Root CA - G3: its fingerprint differs")
    }
  }

  /// The possible paths of the shipped root.
  fileprivate static func shippedFiles(_ settings: Settings) -> [String] {
    let beside = URL(filePath: settings.configurationFile).deletingLastPathComponent()
      .appending(path: shippedFileName).path(percentEncoded: false)
    return ["config/" + shippedFileName, beside]
  }

  private init(paths: [String]) throws(ConfigurationProblem) {
    var files: [[UInt8]] = []
    for path in paths {
      let file = Array(try ConfigurationFile.read(path, setting: "APP_STORE_ROOTS"))
      _ = try Self.certificates(of: [file], named: path)
      files.append(file)
    }
    self = try Self.certificates(of: files, named: paths.joined(separator: ":"))
  }

  private static func certificates(
    of files: [[UInt8]], named name: String
  ) throws(ConfigurationProblem) -> TrustedRoots {
    do throws(TrustedRoots.ReadingFailure) {
      return try TrustedRoots(files: files)
    } catch {
      switch error {
      case .notCertificates(let reason): throw ConfigurationProblem("APP_STORE_ROOTS", "\(name): \(reason)")
      }
    }
  }
}

extension XcodeCertificates {
  /// The certificates of all apps that accept data of Xcode.
  /// - Throws: ``ConfigurationProblem`` for a file that cannot be read or has no certificate.
  package init(_ catalog: AppCatalog, _ settings: Settings) throws(ConfigurationProblem) {
    var files: [[UInt8]] = []
    for app in catalog.apps {
      for path in app.xcodeCertificates {
        let setting = "\(settings.configurationFile): xcode.certificates of \(app.bundleID)"
        let file = Array(try ConfigurationFile.read(path, setting: setting))
        do throws(TrustedRoots.ReadingFailure) {
          _ = try XcodeCertificates(files: [file])
        } catch {
          switch error {
          case .notCertificates(let reason): throw ConfigurationProblem(setting, "\(path): \(reason)")
          }
        }
        files.append(file)
      }
    }
    do throws(TrustedRoots.ReadingFailure) {
      try self.init(files: files)
    } catch {
      switch error {
      case .notCertificates(let reason): throw ConfigurationProblem("xcode.certificates", reason)
      }
    }
  }
}

extension Settings {
  /// The files that a reload reads again: the apps and the roots.
  package var reloadableFiles: [String] {
    [configurationFile] + (rootFiles.isEmpty ? TrustedRoots.shippedFiles(self) : rootFiles)
  }
}

/// Reads files that settings name.
enum ConfigurationFile {
  /// - Parameters:
  ///   - setting: the setting that names the file, for errors.
  ///   - shown: the name of the file in errors.
  /// - Throws: an error that says why the file cannot be read.
  static func read(
    _ path: String, setting: String, shownAs shown: String? = nil
  ) throws(ConfigurationProblem) -> Data {
    do {
      return try Data(contentsOf: URL(filePath: path))
    } catch {
      let shown = shown ?? path
      // Without the path, a reason would say nothing.
      throw ConfigurationProblem(
        setting, "cannot read \(shown)" + (shown == path ? ": \(reason(error, path))" : ""))
    }
  }

  private static func reason(_ error: any Error, _ path: String) -> String {
    var isFolder: ObjCBool = false
    if FileManager.default.fileExists(atPath: path, isDirectory: &isFolder), isFolder.boolValue {
      return "it is a folder"
    }
    switch (error as? CocoaError)?.code {
    case .fileReadNoSuchFile: return "it does not exist"
    case .fileReadNoPermission: return "this system user has no permission"
    default: return "the system cannot open it"
    }
  }
}

/// Shows the name of a key file in an error message.
package enum KeyFile {
  /// The name, if it is a path. Otherwise the setting may contain the key itself, which must not reach the log.
  package static func shown(_ name: some StringProtocol) -> String {
    let isPath = ["/", "./", "../"].contains { name.hasPrefix($0) } && !name.contains(where: \.isNewline)
    return isPath ? String(name) : "the file that it should name; give an absolute path"
  }
}
