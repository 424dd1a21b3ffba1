import AppStore
import Authentication
import Configuration
import Deliveries
import Foundation
import Subscriptions
import Text
import Work

extension Doctor {
  /// Reads the configuration file and checks each app.
  func configuration(_ file: String) -> (AppCatalog?, [CheckResult]) {
    do throws(ConfigurationProblem) {
      let catalog = try AppCatalog(contentsOf: file)
      let count = catalog.apps.count == 1 ? "1 app" : "\(catalog.apps.count) apps"
      return (
        catalog,
        [.ok("configuration", "\(file): \(count)")]
          + catalog.apps.flatMap {
            [check($0, file)] + [lostFeatures($0, file), sandboxWindow($0, file)].compactMap(\.self)
          }
          + MistypedSetting.all(in: environment, catalog: catalog).map {
            .warn("settings", "\($0)", "correct the name, or remove the variable")
          }
      )
    } catch {
      return (nil, [.fail("configuration", "\(error)", "correct the file")])
    }
  }

  private func check(_ app: App, _ file: String) -> CheckResult {
    let subject = "app \(app.bundleID)"
    let problem =
      bundleProblem(app) ?? catalogProblem(app) ?? secretProblem(app) ?? keyProblem(app, file)
      ?? destinationProblem(app) ?? senderProblem(app)
    if let problem { return .fail(subject, problem.message, problem.remedy) }
    let tiers = app.tiers.values.sorted { $0.rank < $1.rank }.map(\.name).joined(separator: " < ")
    let destinations = app.writeTo.map(\.rawValue).sorted().joined(separator: ", ")
    let products = app.products.count == 1 ? "1 product" : "\(app.products.count) products"
    return .ok(
      subject,
      "\(products), tiers \(tiers); customers are \(app.customer.rawValue)s"
        + (destinations.isEmpty ? "" : "; writes to \(destinations)") + secretNote(app))
  }

  /// Warns of a feature that a customer loses by paying.
  private func lostFeatures(_ app: App, _ file: String) -> CheckResult? {
    for tier in app.tiers.values.sorted(by: { $0.rank < $1.rank }) {
      let kept = Set(tier.features.ordered.map(\.name))
      let lost = app.free.ordered.map(\.name).filter { !kept.contains($0) }
      guard !lost.isEmpty else { continue }
      return .warn(
        "tiers of \(app.bundleID)",
        "the tier \(tier.name) lacks \(lost.joined(separator: ", ")), which free has",
        "add it to tiers.\(tier.name).features in \(file)")
    }
    return nil
  }

  /// Reminds of an open window for sandbox purchases, and warns of one that has ended.
  private func sandboxWindow(_ app: App, _ file: String) -> CheckResult? {
    guard case .everyoneUntil(let end) = app.sandboxGrants else { return nil }
    let subject = "sandbox of \(app.bundleID)"
    if clock.now() < end {
      return .ok(subject, "its purchases and trials give access to everyone until \(end.rfc3339)")
    }
    return .warn(
      subject, "the window of sandboxGrants ended at \(end.rfc3339)",
      "set sandboxGrants to nobody in \(file), or a later \"until\" for the next submission")
  }

  private typealias AppProblem = (message: String, remedy: String)

  private func bundleProblem(_ app: App) -> AppProblem? {
    // Apple: alphanumeric characters, hyphens and periods (CFBundleIdentifier).
    let isBundleID = app.bundleID.utf8.allSatisfy {
      switch $0 {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."):
        true
      default: false
      }
    }
    guard isBundleID else {
      return ("its bundleID has characters other than letters, digits, '-' and '.'", "copy it from Xcode")
    }
    if app.environments.contains(.production), app.appAppleID == nil {
      return (
        "it has no appAppleID, so receiptd cannot check that production notifications are for this app",
        "set it to the Apple ID in App Store Connect, App Information"
      )
    }
    return nil
  }

  private func catalogProblem(_ app: App) -> AppProblem? {
    if app.products.isEmpty { return ("it has no products", "list its products") }
    let byRank = Dictionary(grouping: app.tiers.values, by: \.rank)
    if let (rank, tiers) = byRank.filter({ $1.count > 1 }).min(by: { $0.key < $1.key }) {
      return (
        "the tiers \(tiers.map(\.name).sorted().joined(separator: ", ")) have the same rank \(rank)",
        "give the better tier the higher rank; a customer with both gets either one now"
      )
    }
    return nil
  }

  private func secretProblem(_ app: App) -> AppProblem? {
    guard let auth = app.auth, auth.jwks == nil, let name = auth.unsetVariables(in: environment).first
    else { return nil }
    return ("\(name) is not set", "set it; without it no token of the app's users can be verified")
  }

  private func secretNote(_ app: App) -> String {
    guard let auth = app.auth else { return "" }
    let unset = auth.unsetVariables(in: environment)
    let short = auth.variablesOfShortSecrets(in: environment)
    return unset.map { "; \($0) is not set, so tokens signed with it are refused" }.joined()
      + short.map { "; \($0) is short; use at least \(TokenIssuer.advisedSecretLength) bytes" }.joined()
  }

  private func keyProblem(_ app: App, _ file: String) -> AppProblem? {
    guard let key = app.storeKey else { return nil }
    do throws(ConfigurationProblem) {
      _ = try AppStoreCredentials(
        file: key.file, keyID: key.keyID, issuerID: key.issuerID, setting: "appStore.key")
      return nil
    } catch {
      return (error.description, "name the .p8 file of an In-App Purchase key that this system user can read")
    }
  }

  private func destinationProblem(_ app: App) -> AppProblem? {
    let userTables = app.writeTo.filter { $0 != .cloudkit }.map(\.rawValue).sorted()
    guard app.customer == .device, let table = userTables.first else { return nil }
    return (
      "it writes to \(table), which has a row per user, but its customers are devices",
      "remove it from writeTo"
    )
  }

  /// Without these secrets the server does not start.
  private func senderProblem(_ app: App) -> AppProblem? {
    do throws(ConfigurationProblem) {
      for endpoint in app.webhooks + [app.forwardedNotifications].compactMap(\.self) {
        _ = try endpoint.secrets(in: environment)
      }
      if app.writeTo.contains(.cloudkit) { _ = try app.cloudKit?.readKey(subject: "cloudkit") }
      return nil
    } catch {
      return (error.description, "the server does not start before this is right")
    }
  }
}
