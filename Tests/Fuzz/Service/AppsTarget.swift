import Configuration
import Foundation
import FuzzSupport
import Subscriptions

@testable import ReceiptService

/// Parses `config/apps.json`.
enum AppsTarget {
  @Sendable static func check(_ bytes: [UInt8]) {
    let catalog: AppCatalog
    do throws(ConfigurationProblem) {
      catalog = try AppCatalog(json: Data(bytes), named: "apps.json")
    } catch {
      claim(error.description.hasPrefix("apps.json"), "a problem names the file")
      return claim(error.description.isOneLine, "a problem is one line")
    }
    claim(!catalog.apps.isEmpty, "there is an app")
    claim(Set(catalog.apps.map(\.bundleID)).count == catalog.apps.count, "each is there once")
    let hosts = catalog.apps.flatMap(\.hosts)
    claim(Set(hosts).count == hosts.count, "a host is of one app")
    claim(catalog.apps.filter(\.isDefault).count <= 1, "one app at most is the default")
    for app in catalog.apps {
      claim(catalog[app.bundleID] === app, "each is found")
      for product in app.products.values {
        claim(app.tiers[product.tier] != nil, "a product has a tier that there is")
        for name in [product.id] + product.aliases {
          claim(app.product(named: name)?.id == product.id, "a product is found under each of its names")
        }
      }
    }
  }
}

/// Parses the environment variables: one line `NAME=value` for each.
enum SettingsTarget {
  @Sendable static func check(_ bytes: [UInt8]) {
    var environment = ["DATABASE_URL": "postgresql://localhost/receiptd"]
    for line in String(decoding: bytes, as: UTF8.self).split(separator: "\n") {
      let parts = line.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      // These settings name files; other targets read the files' contents.
      guard parts.count == 2, !files.contains(String(parts[0])) else { continue }
      environment[String(parts[0])] = String(parts[1])
    }
    let secret = "kept-secret-0123456789"
    environment["SUPPORT_TOKEN"] = secret
    // The input's `PASSWORD` continues the password in the URL.
    if let rest = environment["PASSWORD"] { environment["DATABASE_URL"] = "postgresql://u:\(secret)\(rest)" }
    do throws(ConfigurationProblem) {
      let settings = try Settings(environment: environment)
      claim(settings.rateLimit.map { $0 > 0 } != false, "a limit lets something through")
      claim(settings.drainDelay >= .zero && settings.drainDelay <= .seconds(300), "a delay has an end")
    } catch {
      claim(
        environment[error.subject] != nil || error.subject.hasPrefix("APP_STORE"), "a problem names a setting"
      )
      claim(!error.description.contains(secret), "no secret is printed")
    }
  }

  private static let files: Set = ["ENTITLEMENT_KEY", "APP_STORE_KEY", "APP_STORE_ROOTS"]
}

extension String {
  fileprivate var isOneLine: Bool { utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F } }
}
