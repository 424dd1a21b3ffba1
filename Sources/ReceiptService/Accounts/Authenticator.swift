import Curl
import FoundationEssentials
import HTTP
import HTTPTypes
import Logging
import Subscriptions

/// Finds out which user a request comes from.
struct Authenticator: Sendable {
  private let catalog: AppCatalog
  private let verifiers: [TokenIssuer: TokenVerifier]
  /// By address.
  private let publicKeys: [String: PublicKeys]
  private let clock: ServiceClock

  /// - Parameters:
  ///   - environment: where shared secrets are.
  ///   - former: the one before a reload; the public keys that it knows stay in use.
  init(
    catalog: AppCatalog, environment: [String: String], client: CurlClient, clock: ServiceClock,
    logger: Logger, metrics: ServiceMetrics, after former: Authenticator? = nil
  ) async {
    self.catalog = catalog
    self.clock = clock
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
        secret: issuer.secret(in: environment), publicKeys: issuer.jwks.flatMap { publicKeys[$0] })
    }
    self.verifiers = verifiers
  }

  /// Shows the public keys of its apps in the metrics, and those of the former's no more.
  func takeOver(from former: Authenticator?) async {
    for (address, keys) in former?.publicKeys ?? [:] where publicKeys[address] == nil { await keys.serve([]) }
    for (address, keys) in publicKeys {
      await keys.serve(Set(catalog.apps.filter { $0.auth?.jwks == address }.map(\.bundleID)))
    }
  }

  /// Fetches public keys again that could not be fetched, until the task is cancelled: an outage ends here also where no
  /// request comes.
  func retryForever() async {
    while !Task.isCancelled {
      for keys in publicKeys.values { await keys.retryIfDue() }
      try? await Task.sleep(for: .seconds(30) * Double.random(in: 0.75...1.25))
    }
  }

  /// The user of one app, or `nil` where the request carries no token.
  /// - Throws: ``Problem`` `unauthenticated` for a token that is not valid for this app.
  func user(of request: Request, in app: App) async throws -> UUID? {
    guard let token = try Self.token(of: request) else { return nil }
    guard let issuer = app.auth, let verifier = verifiers[issuer],
      let user = try await verifier.user(of: token, at: clock.now())
    else { throw ServiceError.unauthenticated }
    return user
  }

  /// The user, and the apps for which the token is valid.
  /// - Throws: ``Problem`` `unauthenticated` without a token, or for one that no app knows.
  func user(of request: Request) async throws -> (user: UUID, apps: [App]) {
    guard let token = try Self.token(of: request) else { throw ServiceError.unauthenticated }
    var users: [TokenIssuer: UUID] = [:]
    var unavailable: (any Error)?
    for (issuer, verifier) in verifiers {
      do {
        users[issuer] = try await verifier.user(of: token, at: clock.now())
      } catch {
        unavailable = error
      }
    }
    let apps = catalog.apps.filter { app in app.auth.map { users[$0] != nil } ?? false }
    guard let user = users.values.first, users.values.allSatisfy({ $0 == user }) else {
      throw unavailable ?? ServiceError.unauthenticated
    }
    return (user, apps)
  }

  /// The token of `Authorization: Bearer` (RFC 6750 section 2.1).
  private static func token(of request: Request) throws -> String? {
    guard let field = request.headers[.authorization] else { return nil }
    let parts = field.utf8.split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
    guard parts.count == 2, String(decoding: parts[0], as: UTF8.self).lowercased() == "bearer",
      !parts[1].isEmpty
    else { throw ServiceError.unauthenticated }
    return String(decoding: parts[1], as: UTF8.self)
  }
}

extension TokenIssuer {
  /// An HS256 secret should have at least as many bytes as the hash (RFC 7518 section 3.2).
  static let advisedSecretLength = 32

  /// The shared secret; an empty one is none, and would let anybody sign.
  func secret(in environment: [String: String]) -> String? {
    secretEnvironmentVariable.flatMap { environment[$0] }.flatMap { $0.isEmpty ? nil : $0 }
  }
}
