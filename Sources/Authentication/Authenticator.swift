import Configuration
import CoreMetrics
import Curl
import Foundation
import HTTP
import HTTPTypes
import Logging
import PrometheusText
import Requests
import Subscriptions
import Work

/// Authenticates requests: reads the user from the access token in `Authorization: Bearer`, and notes each user for
/// support.
package struct Authenticator: Sendable {
  private let catalog: AppCatalog
  private let verifiers: [TokenIssuer: TokenVerifier]
  /// By URL of the key set.
  private let publicKeys: [String: PublicKeys]
  private let clock: ServiceClock
  private let metrics: AuthenticationMetrics
  private let seenUsers: SeenUsers

  /// - Parameters:
  ///   - environment: the environment variables that hold shared secrets.
  ///   - former: the authenticator before a reload; its cached public keys stay in use.
  package init(
    catalog: AppCatalog, environment: [String: String], client: CurlClient, clock: ServiceClock,
    logger: Logger, metrics: AuthenticationMetrics, seenUsers: SeenUsers, after former: Authenticator? = nil
  ) async {
    self.catalog = catalog
    self.clock = clock
    self.metrics = metrics
    self.seenUsers = seenUsers
    var publicKeys: [String: PublicKeys] = [:]
    for address in Set(catalog.apps.compactMap { $0.auth?.jwks }) {
      publicKeys[address] =
        former?.publicKeys[address]
        ?? PublicKeys(address: address, client: client, clock: clock, logger: logger, metrics: metrics)
    }
    self.publicKeys = publicKeys
    var verifiers: [TokenIssuer: TokenVerifier] = [:]
    for issuer in Set(catalog.apps.compactMap(\.auth)) {
      verifiers[issuer] = await TokenVerifier(
        requirements: TokenRequirements(issuer: issuer.issuer, audience: issuer.audience),
        secrets: issuer.secrets(in: environment), publicKeys: issuer.jwks.flatMap { publicKeys[$0] })
    }
    self.verifiers = verifiers
  }

  /// Reports metrics for the public keys of its apps, and stops reporting those that only the former one used.
  package func takeOver(from former: Authenticator?) async {
    for (address, keys) in former?.publicKeys ?? [:] where publicKeys[address] == nil { await keys.serve([]) }
    for (address, keys) in publicKeys {
      await keys.serve(Set(catalog.apps.filter { $0.auth?.jwks == address }.map(\.bundleID)))
    }
  }

  /// Fetches public keys that could not be fetched before. So an outage ends also where no request comes.
  package var job: BackgroundJob {
    BackgroundJob("public key retry", every: .seconds(30)) {
      for keys in publicKeys.values { await keys.retryIfDue() }
    }
  }

  /// The user of one app, or `nil` where the request carries no token.
  /// - Throws: ``Problem`` `unauthenticated` for a token that is not valid for this app.
  package func user(of request: Request, in app: App) async throws -> UUID? {
    guard let token = try Self.token(of: request) else { return nil }
    guard let issuer = app.auth, let verifier = verifiers[issuer] else { throw ServiceError.unauthenticated }
    do {
      let user = try await verifier.user(of: token, at: clock.now())
      note(user, of: app)
      return user
    } catch let refused as RefusedToken {
      throw refuse(refused)
    }
  }

  /// Notes for support that a user's token is valid for an app.
  package func note(_ user: UUID, of app: App) { seenUsers.note(user, of: app.bundleID) }

  /// The user, and the apps for which the token is valid. The caller notes the user for the app that the request is
  /// about.
  /// - Throws: ``Problem`` `unauthenticated` without a token, or for a token that no app accepts.
  package func user(of request: Request) async throws -> (user: UUID, apps: [App]) {
    guard let token = try Self.token(of: request) else { throw ServiceError.unauthenticated }
    var users: [TokenIssuer: UUID] = [:]
    var refusals: [RefusedToken] = []
    var unavailable: (any Error)?
    for (issuer, verifier) in verifiers {
      do {
        users[issuer] = try await verifier.user(of: token, at: clock.now())
      } catch let refused as RefusedToken {
        refusals.append(refused)
      } catch {
        unavailable = error
      }
    }
    let apps = catalog.apps.filter { app in app.auth.map { users[$0] != nil } ?? false }
    guard let user = users.values.first, users.values.allSatisfy({ $0 == user }) else {
      throw unavailable ?? refuse(RefusedToken.mostTelling(refusals) ?? RefusedToken(.noUser))
    }
    return (user, apps)
  }

  /// The one app for which the token is valid; `nil` where several are.
  /// - Throws: as ``user(of:)``.
  package func onlyApp(of request: Request) async throws -> App? {
    let apps = try await user(of: request).apps
    return apps.count == 1 ? apps.first : nil
  }

  private func refuse(_ token: RefusedToken) -> Problem {
    metrics.tokenRefusals[token.reason].increment()
    var problem = ServiceError.invalidToken(token.reason)
    problem.logFields = token.logFields
    return problem
  }

  /// The token of `Authorization: Bearer` (RFC 6750 section 2.1).
  private static func token(of request: Request) throws -> String? {
    guard let field = request.headers[.authorization] else { return nil }
    let parts = field.utf8.split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
    guard parts.count == 2, String(decoding: parts[0], as: UTF8.self).lowercased() == "bearer",
      !parts[1].isEmpty
    else { throw ServiceError.invalidToken(.malformed) }
    return String(decoding: parts[1], as: UTF8.self)
  }
}

extension TokenIssuer {
  /// The least number of bytes of an HS256 secret: that of the hash (RFC 7518 section 3.2).
  package static let advisedSecretLength = 32

  /// The shared secrets that are set. An empty one counts as missing, because any client could sign with it.
  package func secrets(in environment: [String: String]) -> [String] {
    secretEnvironmentVariables.compactMap { environment[$0] }.filter { !$0.isEmpty }
  }

  /// The variables of shared secrets that are not set.
  package func unsetVariables(in environment: [String: String]) -> [String] {
    secretEnvironmentVariables.filter { environment[$0, default: ""].isEmpty }
  }

  /// The variables of shared secrets that are shorter than advised.
  package func variablesOfShortSecrets(in environment: [String: String]) -> [String] {
    secretEnvironmentVariables.filter {
      (1..<Self.advisedSecretLength).contains(environment[$0, default: ""].utf8.count)
    }
  }
}
