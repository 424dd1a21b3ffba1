import AppStore
import Configuration
import Curl
import Foundation
import Postgres
import Subscriptions
import Text
import Work

/// Checks everything that receiptd needs: configuration, roots, database, clock and credentials.
///
/// It changes nothing, and continues after a failed check.
package struct Doctor: Sendable {
  let environment: [String: String]
  let clock: ServiceClock

  /// The least number of characters of a token that cannot be guessed.
  static let lengthOfSupportToken = 32

  /// - Parameters:
  ///   - environment: the settings.
  ///   - clock: the clock to compare with those of the database and the App Store.
  package init(environment: [String: String], clock: ServiceClock = .system) {
    self.environment = environment
    self.clock = clock
  }

  /// Runs all checks, one after the other.
  /// - Parameter report: called with each result.
  /// - Returns: whether all checks passed.
  package func check(_ report: (CheckResult) -> Void) async -> Bool {
    var isOK = true
    func add(_ results: [CheckResult]) {
      for result in results {
        isOK = isOK && result.isOK
        report(result)
      }
    }
    let (settings, first) = settings()
    add(first)
    let (catalog, apps) = configuration(Settings.configurationFile(in: environment))
    add(apps)
    guard let settings else { return false }
    add([roots(settings)])
    if let problem = catalog.flatMap({ xcodeCertificates(settings, $0) }) { add([problem]) }
    add(await database(settings, catalog))
    if let catalog {
      add(await store(settings, catalog))
      add(replacedVariables(catalog))
    }
    return isOK
  }

  private func settings() -> (Settings?, [CheckResult]) {
    do throws(ConfigurationProblem) {
      let settings = try Settings(environment: environment)
      if let token = settings.supportToken, token.count < Self.lengthOfSupportToken {
        let result = CheckResult.fail(
          "settings",
          "SUPPORT_TOKEN has \(token.count) characters; an attacker who guesses it has all rights of support",
          "use the output of openssl rand -hex 32")
        return (settings, [result])
      }
      return (settings, [.ok("settings", "all are valid")])
    } catch {
      return (nil, [.fail("settings", "\(error)", "see docs/configuration.md#settings-of-the-environment")])
    }
  }

  private func replacedVariables(_ catalog: AppCatalog) -> [CheckResult] {
    ReplacedVariables(in: environment, catalog: catalog).lines.map { line in
      CheckResult(
        subject: "settings", isOK: true, isWarning: true,
        message: "\(line.names.joined(separator: ", ")) \(line.message)")
    }
  }

  /// A certificate of Xcode that cannot be used: the server does not start with it.
  private func xcodeCertificates(_ settings: Settings, _ catalog: AppCatalog) -> CheckResult? {
    do throws(ConfigurationProblem) {
      _ = try XcodeCertificates(catalog, settings)
      return nil
    } catch {
      return .fail("xcode", "\(error)", "name the certificate that Xcode saved; see docs/xcode.md")
    }
  }

  private func roots(_ settings: Settings) -> CheckResult {
    do throws(ConfigurationProblem) {
      let roots = try TrustedRoots(settings)
      let now = clock.now()
      for (fingerprint, validity) in zip(roots.fingerprints, roots.validity)
      where now < validity.from || validity.until < now {
        return .fail(
          "roots", "\(fingerprint) is valid from \(validity.from.rfc3339) until \(validity.until.rfc3339)",
          "get the current Apple Root CA - G3 from apple.com/certificateauthority")
      }
      let names = zip(roots.fingerprints, roots.validity).map {
        "\($0 == TrustedRoots.appleRootG3Fingerprint ? "Apple Root CA - G3" : "NOT APPLE'S") \($0.prefix(16))…"
          + " until \($1.until.rfc3339)"
      }
      return .ok("roots", names.joined(separator: ", "))
    } catch {
      return .fail("roots", "\(error)", "unset APP_STORE_ROOTS, or name DER or PEM files in it")
    }
  }
}

/// The result of one check of ``Doctor``.
package struct CheckResult: Sendable, Hashable {
  /// The checked part, such as `database` or `app com.example.app`.
  package var subject: String
  /// Whether the check passed.
  package var isOK: Bool
  /// Whether the operator should do something although the check passed.
  package var isWarning = false
  /// The result in words.
  package var message: String
  /// The action that repairs a failed check or ends a warning; `nil` if there is none.
  package var remedy: String?

  static func ok(_ subject: String, _ message: String) -> CheckResult {
    CheckResult(subject: subject, isOK: true, message: message)
  }

  static func warn(_ subject: String, _ message: String, _ remedy: String) -> CheckResult {
    CheckResult(subject: subject, isOK: true, isWarning: true, message: message, remedy: remedy)
  }

  static func fail(_ subject: String, _ message: String, _ remedy: String) -> CheckResult {
    CheckResult(subject: subject, isOK: false, message: message, remedy: remedy)
  }

  /// One line.
  package var line: String {
    "\(isOK ? isWarning ? "warn " : "ok   " : "FAIL ") \(subject): \(message)\(remedy.map { "; \($0)" } ?? "")"
      // A library's error message may have several lines.
      .split(whereSeparator: \.isNewline).joined(separator: " ")
  }
}
