import AppStore
import Curl
import FoundationEssentials
import Postgres
import Subscriptions

/// Looks at everything that receiptd needs before it is needed: configuration, roots, database, clock, credentials.
///
/// It changes nothing, and goes on after whatever it finds.
public struct Doctor: Sendable {
  let environment: [String: String]
  let clock: ServiceClock

  /// Characters that a token has at least which nobody guesses.
  static let lengthOfSupportToken = 32
  /// Clocks may differ by this much: seconds.
  static let clockTolerance = 2.0

  /// - Parameters:
  ///   - environment: the settings.
  ///   - clock: what the other clocks are compared with.
  public init(environment: [String: String], clock: ServiceClock = .system) {
    self.environment = environment
    self.clock = clock
  }

  /// Looks at everything, one after the other.
  /// - Parameter tell: hears of each finding as it is made.
  /// - Returns: whether all is well.
  public func examine(_ tell: (Finding) -> Void) async -> Bool {
    var isWell = true
    func note(_ findings: [Finding]) {
      for finding in findings {
        isWell = isWell && finding.isWell
        tell(finding)
      }
    }
    let (settings, first) = settings()
    note(first)
    let file = settings?.configurationFile ?? EnvironmentReader(environment).text("RECEIPTD_CONFIG")
    let (catalog, apps) = configuration(file ?? "config/apps.json")
    note(apps)
    guard let settings else { return false }
    note([roots(settings)])
    note(await database(settings, catalog))
    if let catalog { note(await store(settings, catalog)) }
    return isWell
  }

  private func settings() -> (Settings?, [Finding]) {
    do throws(ConfigurationProblem) {
      let settings = try Settings(environment: environment)
      if let token = settings.supportToken, token.count < Self.lengthOfSupportToken {
        let finding = Finding.fail(
          "settings",
          "SUPPORT_TOKEN has \(token.count) characters, and whoever guesses it may do all that support may",
          "openssl rand -hex 32")
        return (settings, [finding])
      }
      return (settings, [.ok("settings", "all that are set can be read")])
    } catch {
      return (nil, [.fail("settings", "\(error)", "set it as the README's table of settings says")])
    }
  }

  private func roots(_ settings: Settings) -> Finding {
    do throws(ConfigurationProblem) {
      let roots = try TrustedRoots(settings)
      let now = clock.now()
      for (fingerprint, validity) in zip(roots.fingerprints, roots.validity)
      where now < validity.from || validity.until < now {
        return .fail(
          "roots", "\(fingerprint) is valid from \(validity.from.inWords) until \(validity.until.inWords)",
          "get the current Apple Root CA - G3 from apple.com/certificateauthority")
      }
      let names = zip(roots.fingerprints, roots.validity).map {
        "\($0 == TrustedRoots.appleRootG3Fingerprint ? "Apple Root CA - G3" : "NOT APPLE'S") \($0.prefix(16))…"
          + " until \($1.until.inWords)"
      }
      return .ok("roots", names.joined(separator: ", "))
    } catch {
      return .fail("roots", "\(error)", "unset APP_STORE_ROOTS, or name DER or PEM files")
    }
  }
}
