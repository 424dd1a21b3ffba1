import AppStore
import FoundationEssentials
import Subscriptions

extension Doctor {
  /// Reads the file with the apps and looks at each of them.
  func configuration(_ file: String) -> (AppCatalog?, [Finding]) {
    do throws(ConfigurationProblem) {
      let catalog = try AppCatalog(contentsOf: file)
      let count = catalog.apps.count == 1 ? "1 app" : "\(catalog.apps.count) apps"
      return (catalog, [.ok("configuration", "\(file): \(count)")] + catalog.apps.map { finding($0, file) })
    } catch {
      return (nil, [.fail("configuration", "\(error)", "correct it there")])
    }
  }

  private func finding(_ app: App, _ file: String) -> Finding {
    let subject = "app \(app.bundleID)"
    let problem =
      bundleProblem(app) ?? catalogProblem(app) ?? secretProblem(app) ?? keyProblem(app, file)
      ?? placesProblem(app)
    if let problem { return .fail(subject, problem.finding, problem.remedy) }
    let tiers = app.tiers.values.sorted { $0.rank < $1.rank }.map(\.name).joined(separator: " < ")
    let places = app.writeTo.map(\.rawValue).sorted().joined(separator: ", ")
    let products = app.products.count == 1 ? "1 product" : "\(app.products.count) products"
    return .ok(
      subject,
      "\(products), tiers \(tiers); customers are \(app.customer.rawValue)s"
        + (places.isEmpty ? "" : "; writes to \(places)") + secretNote(app))
  }

  private typealias Trouble = (finding: String, remedy: String)

  private func bundleProblem(_ app: App) -> Trouble? {
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
      return ("its bundleID has other characters than letters, digits, '-' and '.'", "copy it from Xcode")
    }
    if app.environments.contains(.production), app.appAppleID == nil {
      return (
        "it has no appAppleID, so production notifications cannot be told from another app's",
        "set it to the Apple ID in App Store Connect, App Information"
      )
    }
    return nil
  }

  private func catalogProblem(_ app: App) -> Trouble? {
    if app.products.isEmpty { return ("it sells nothing", "list its products") }
    let byRank = Dictionary(grouping: app.tiers.values, by: \.rank)
    if let (rank, tiers) = byRank.filter({ $1.count > 1 }).min(by: { $0.key < $1.key }) {
      return (
        "the tiers \(tiers.map(\.name).sorted().joined(separator: ", ")) have the same rank \(rank)",
        "give the better one the higher rank, or a customer with both gets either"
      )
    }
    return nil
  }

  private func secretProblem(_ app: App) -> Trouble? {
    guard let auth = app.auth, let name = auth.secretEnvironmentVariable else { return nil }
    guard auth.secret(in: environment) == nil, auth.jwks == nil else { return nil }
    return ("\(name) is not set", "set it: without it no token of its users can be checked")
  }

  private func secretNote(_ app: App) -> String {
    guard let auth = app.auth, let name = auth.secretEnvironmentVariable else { return "" }
    guard let secret = auth.secret(in: environment) else {
      return "; \(name) is not set, only the public keys count"
    }
    return secret.utf8.count < TokenIssuer.advisedSecretLength
      ? "; \(name) is short: at least \(TokenIssuer.advisedSecretLength) bytes are advised" : ""
  }

  private func keyProblem(_ app: App, _ file: String) -> Trouble? {
    guard let key = app.storeKey else { return nil }
    do throws(ConfigurationProblem) {
      _ = try AppStoreCredentials(
        file: key.file, keyID: key.keyID, issuerID: key.issuerID, setting: "appStore.key")
      return nil
    } catch {
      return (error.description, "name the .p8 file of an In-App Purchase key that this user may read")
    }
  }

  private func placesProblem(_ app: App) -> Trouble? {
    let usersPlaces = app.writeTo.filter { $0 != .cloudkit }.map(\.rawValue).sorted()
    guard app.customer == .device, let place = usersPlaces.first else { return nil }
    return (
      "it writes to \(place), which has a row per user, but its customers are devices",
      "take it out of writeTo"
    )
  }
}
