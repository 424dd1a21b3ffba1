import Curl
import FoundationEssentials
import HTTP
import JWTKit
import Logging

/// An issuer's public keys (RFC 7517), fetched when they are needed and fresh for ten minutes.
///
/// While the issuer's key set cannot be fetched, the keys that are known stay in use for up to 24 hours after the last
/// fetch: an outage of the issuer must not sign its users out. A fetch that succeeds replaces all keys, so that one that the
/// issuer withdrew is gone at once. During a rotation several are valid; a token with a key that is not among them causes
/// a fetch, but not more often than twice a minute, so that made-up key ids do not become a flood at the issuer.
actor PublicKeys {
  private let address: String
  private let client: CurlClient
  private let clock: ServiceClock
  private let logger: Logger
  private let metrics: ServiceMetrics
  private let jitter: @Sendable () -> Double
  /// The apps whose users have tokens of this issuer.
  private var apps: Set<String> = []
  private var keys: [String: JWTKeyCollection] = [:]
  private var onlyKey: JWTKeyCollection?
  private var fetchedAt: Date?
  private var nextTryAt = Date.distantPast
  /// Fetches in a row that failed.
  private var failures = 0
  private var hasToldOfExpiry = false
  private var fetching: Task<Void, any Error>?

  /// For how long keys are used without a look at the issuer.
  private static let maximumAge: TimeInterval = 600
  /// For how long keys are used while a look at the issuer fails.
  static let maximumAgeInOutage: TimeInterval = 86_400
  private static let minimumPause: TimeInterval = 30
  private static let maximumPause: TimeInterval = 300

  /// - Parameter jitter: from 0 to 1, for the pauses between fetches that fail.
  init(
    address: String, client: CurlClient, clock: ServiceClock, logger: Logger, metrics: ServiceMetrics,
    jitter: @escaping @Sendable () -> Double = { Double.random(in: 0...1) }
  ) {
    self.address = address
    self.client = client
    self.clock = clock
    self.logger = logger
    self.metrics = metrics
    self.jitter = jitter
  }

  /// Shows these apps in the metrics from now on, and no others.
  func serve(_ apps: Set<String>) {
    for app in self.apps.subtracting(apps) { metrics.publicKeys.forget(app) }
    self.apps = apps
    show()
  }

  /// The key of this name; of no name, where the issuer has a single key.
  ///
  /// Waits for a fetch only where no usable key fits, or where the keys are older than ten minutes and the last fetch did
  /// not fail.
  /// - Throws: ``Problem`` `auth_unavailable` where the key is not at hand and the keys cannot be had.
  func key(named kid: String?) async throws -> JWTKeyCollection? {
    if age < Self.maximumAge, let key = find(kid) { return key }
    if failures > 0, let key = findInOutage(kid) {
      if isDue { _ = beginFetch() }
      return key
    }
    if age >= Self.maximumAge || failures > 0 || isDue {
      do {
        try await refresh()
      } catch {
        guard let key = findInOutage(kid) else { throw error }
        return key
      }
    }
    return find(kid)
  }

  /// Fetches again where the last fetch failed and its pause is over.
  func retryIfDue() async {
    guard failures > 0 else { return }
    try? await refresh()
  }

  private func find(_ kid: String?) -> JWTKeyCollection? {
    guard let kid else { return onlyKey }
    return keys[kid]
  }

  private func findInOutage(_ kid: String?) -> JWTKeyCollection? {
    age < Self.maximumAgeInOutage ? find(kid) : nil
  }

  private var age: TimeInterval { fetchedAt.map { clock.now().timeIntervalSince($0) } ?? .infinity }

  private var isDue: Bool { clock.now() >= nextTryAt }

  /// Fetches the keys; all that ask meanwhile wait for the same answer.
  private func refresh() async throws {
    guard fetching != nil || isDue else { throw ServiceError.authUnavailable }
    try await beginFetch().value
  }

  private func beginFetch() -> Task<Void, any Error> {
    if let fetching { return fetching }
    let task = Task {
      defer { fetching = nil }
      try await fetch()
    }
    fetching = task
    return task
  }

  private func fetch() async throws {
    do {
      let response = try await client.send(
        CurlRequest(url: address, timeout: .seconds(5), maximumResponseLength: 1 << 20))
      guard response.status == 200 else {
        throw UnusableKeySet(reason: "status \(response.status)")
      }
      try await adopt(JWKSet(json: response.body))
      succeed()
    } catch {
      fail(error)
      throw ServiceError.authUnavailable
    }
  }

  /// An empty set is the issuer's word that no key is valid. One that has keys, but none that can be used, is a fault.
  private func adopt(_ set: JWKSet) async throws {
    var keys: [String: JWTKeyCollection] = [:]
    var all: [JWTKeyCollection] = []
    for var key in set.keys {
      let name = key.keyIdentifier?.string
      key.keyIdentifier = key.keyIdentifier ?? JWKIdentifier(string: "unnamed")
      // A key that we cannot use (another curve, another kind) must not cost us those that we can.
      guard let collection = try? await JWTKeyCollection().add(jwk: key) else { continue }
      all.append(collection)
      if let name { keys[name] = collection }
    }
    guard !all.isEmpty || set.isEmpty else { throw UnusableKeySet(reason: "none of its keys can be used") }
    self.keys = keys
    onlyKey = all.count == 1 ? all[0] : nil
    fetchedAt = clock.now()
  }

  // MARK: What came of a fetch

  private func succeed() {
    if failures > 0 {
      logger.notice("public keys can be fetched again", metadata: ["host": "\(host)"])
    }
    failures = 0
    hasToldOfExpiry = false
    nextTryAt = clock.now() + Self.minimumPause
    for app in apps { metrics.publicKeys.fetched(app) }
    show()
  }

  private func fail(_ error: any Error) {
    // One line when it begins, and one when the keys are too old: not one for each fetch.
    if failures == 0 {
      let useUntil = age < Self.maximumAgeInOutage ? fetchedAt.map { $0 + Self.maximumAgeInOutage } : nil
      logger.error(
        "public keys cannot be fetched",
        metadata: [
          "host": "\(host)", "reason": "\(reason(error))",
          "known-keys-used-until": "\(useUntil?.inWords ?? "none are known")",
        ])
    } else if fetchedAt != nil, age >= Self.maximumAgeInOutage, !hasToldOfExpiry {
      hasToldOfExpiry = true
      logger.error(
        "public keys are too old, and their users' tokens are refused", metadata: ["host": "\(host)"])
    }
    failures += 1
    let pause = Backoff.delay(afterAttempts: failures + 3, jitter: jitter(), atMost: Self.maximumPause)
    nextTryAt = clock.now() + max(pause, Self.minimumPause)
    for app in apps { metrics.publicKeys.failed(app) }
    show()
  }

  private func show() {
    for app in apps { metrics.publicKeys.show(app, fetchedAt: fetchedAt, isFailing: failures > 0) }
  }

  /// The address without what may be secret in it: user information, path and query.
  private var host: String { URL(string: address)?.host() ?? "unknown" }

  private func reason(_ error: any Error) -> String {
    switch error {
    case let error as CurlError: error.words
    case let error as UnusableKeySet: error.reason
    default: "the answer is not a key set"
    }
  }
}

/// A set of keys, of which those that cannot be read are left out.
struct JWKSet {
  var keys: [JWK]
  /// Whether there is nothing in it, not even what cannot be read.
  var isEmpty: Bool

  /// Kinds of keys that verify a token; a symmetric key in a public set would be a mistake to obey.
  private static let usable: Set<String> = ["RSA", "EC", "OKP"]

  private struct Form: Decodable {
    var keys: [JSONValue]
  }

  init(json: [UInt8]) throws {
    let values = try JSONCoding.decode(Form.self, from: json).keys
    isEmpty = values.isEmpty
    keys = values.compactMap { value in
      guard case .object(let members) = value, case .string(let kind)? = members["kty"],
        Self.usable.contains(kind), let data = try? JSONEncoder().encode(value)
      else { return nil }
      return try? JSONDecoder().decode(JWK.self, from: data)
    }
  }
}

/// Why a set of keys cannot be used.
private struct UnusableKeySet: Error, CustomStringConvertible {
  var reason: String
  var description: String { reason }
}
