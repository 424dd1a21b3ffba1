import CoreMetrics
import Curl
import Foundation
import HTTP
import JSON
import JWTKit
import Logging
import Platform
import PrometheusText
import Requests
import Text
import Work

/// A cache of an issuer's public keys (RFC 7517), fetched on demand and fresh for ten minutes.
///
/// - While a fetch fails, known keys stay in use for 24 hours after the last fetch: an outage of the issuer must not
///   sign its users out.
/// - A successful fetch replaces all keys, so a withdrawn key is gone at once.
/// - An unknown key id causes a fetch at most twice a minute, so that invented ids do not flood the issuer.
/// - Ages are measured with the monotonic clock: setting the wall clock neither ages nor renews the keys.
actor PublicKeys {
  private let address: String
  private let client: CurlClient
  private let clock: ServiceClock
  private let logger: Logger
  private let metrics: AuthenticationMetrics
  private let jitter: @Sendable () -> Double
  /// The apps whose users have tokens of this issuer.
  private var apps: Set<String> = []
  private var keys: [String: JWTKeyCollection] = [:]
  private var onlyKey: JWTKeyCollection?
  private var lastFetch: (date: Date, uptime: MonotonicInstant)?
  private var nextAttempt = MonotonicInstant(nanoseconds: 0)
  private var consecutiveFailures = 0
  private var hasLoggedExpiry = false
  private var fetching: Task<Void, any Error>?

  /// How long keys are used without another fetch.
  private static let maximumAge: Duration = .seconds(600)
  /// How long keys are used while fetches fail.
  static let maximumAgeInOutage: Duration = .seconds(86_400)
  private static let minimumDelay: TimeInterval = 30
  private static let backoff = Backoff(base: .seconds(32), maximum: .seconds(300), jitter: 0.5)

  /// - Parameter jitter: from 0 to 1, for the delays after failed fetches.
  init(
    address: String, client: CurlClient, clock: ServiceClock, logger: Logger, metrics: AuthenticationMetrics,
    jitter: @escaping @Sendable () -> Double = { Double.random(in: 0...1) }
  ) {
    self.address = address
    self.client = client
    self.clock = clock
    self.logger = logger
    self.metrics = metrics
    self.jitter = jitter
  }

  /// Reports metrics for these apps from now on, and for no others.
  func serve(_ apps: Set<String>) {
    // Reset, so that no alert of an app that a reload removed keeps firing.
    for app in self.apps.subtracting(apps) { metrics.showKeys(app, fetchedAt: nil, isFailing: false) }
    self.apps = apps
    updateMetrics()
  }

  /// The key with this id; without an id, the issuer's only key.
  ///
  /// Waits for a fetch only where no usable key fits, or where the keys are older than ten minutes and the last fetch
  /// succeeded.
  /// - Throws: ``Problem`` `auth_unavailable` where the key is not cached and cannot be fetched.
  func key(named kid: String?) async throws -> JWTKeyCollection? {
    let isFresh = isYounger(than: Self.maximumAge)
    if isFresh, let key = find(kid) { return key }
    if consecutiveFailures > 0, let key = findInOutage(kid) {
      if isAttemptDue { _ = beginFetch() }
      return key
    }
    if !isFresh || consecutiveFailures > 0 || isAttemptDue {
      do {
        try await refresh()
      } catch {
        guard let key = findInOutage(kid) else { throw error }
        return key
      }
    }
    return find(kid)
  }

  /// Fetches again where the last fetch failed and its delay is over.
  func retryIfDue() async {
    guard consecutiveFailures > 0 else { return }
    try? await refresh()
  }

  private func find(_ kid: String?) -> JWTKeyCollection? {
    guard let kid else { return onlyKey }
    return keys[kid]
  }

  private func findInOutage(_ kid: String?) -> JWTKeyCollection? {
    isYounger(than: Self.maximumAgeInOutage) ? find(kid) : nil
  }

  private func isYounger(than maximum: Duration) -> Bool {
    lastFetch.map { clock.uptime().duration(since: $0.uptime) < maximum } ?? false
  }

  private var isAttemptDue: Bool { clock.uptime() >= nextAttempt }

  /// Fetches the keys; concurrent callers share one fetch.
  private func refresh() async throws {
    guard fetching != nil || isAttemptDue else { throw ServiceError.authUnavailable }
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
      try await replaceKeys(with: JWKSet(json: response.body))
      recordSuccess()
    } catch {
      recordFailure(error)
      throw ServiceError.authUnavailable
    }
  }

  /// An empty set means that no key is valid. A set that has only unusable keys is an error.
  private func replaceKeys(with set: JWKSet) async throws {
    var keys: [String: JWTKeyCollection] = [:]
    var all: [JWTKeyCollection] = []
    for var key in set.keys {
      let name = key.keyIdentifier?.string
      key.keyIdentifier = key.keyIdentifier ?? JWKIdentifier(string: "unnamed")
      // Skip a key that JWTKit does not support (another curve or type); the others stay usable.
      guard let collection = try? await JWTKeyCollection().add(jwk: key) else { continue }
      all.append(collection)
      if let name { keys[name] = collection }
    }
    guard !all.isEmpty || set.isEmpty else { throw UnusableKeySet(reason: "none of its keys can be used") }
    self.keys = keys
    onlyKey = all.count == 1 ? all[0] : nil
    lastFetch = (clock.now(), clock.uptime())
  }

  // MARK: Results of a fetch

  private func recordSuccess() {
    if consecutiveFailures > 0 {
      logger.notice("public keys can be fetched again", metadata: ["host": "\(host)"])
    }
    consecutiveFailures = 0
    hasLoggedExpiry = false
    nextAttempt = clock.uptime().advanced(by: .seconds(Self.minimumDelay))
    for app in apps { metrics.keyRefreshes[app, "ok"].increment() }
    updateMetrics()
  }

  private func recordFailure(_ error: any Error) {
    // Log the first failure and the expiry of the keys, not each failed fetch.
    if consecutiveFailures == 0 {
      logger.error(
        "public keys cannot be fetched",
        metadata: [
          "host": "\(host)", "reason": "\(reason(error))",
          "known-keys-used-until": "\(usedUntil?.rfc3339 ?? "no keys are known")",
        ])
    } else if lastFetch != nil, !isYounger(than: Self.maximumAgeInOutage), !hasLoggedExpiry {
      hasLoggedExpiry = true
      logger.error(
        "public keys are too old; access tokens of this issuer are refused", metadata: ["host": "\(host)"])
    }
    consecutiveFailures += 1
    let delay = Self.backoff.seconds(afterFailures: consecutiveFailures, random: jitter())
    nextAttempt = clock.uptime().advanced(by: .seconds(max(delay, Self.minimumDelay)))
    for app in apps { metrics.keyRefreshes[app, "failed"].increment() }
    updateMetrics()
  }

  /// When the known keys expire during an outage; `nil` where none are known or they have expired.
  private var usedUntil: Date? {
    guard let lastFetch else { return nil }
    let remaining = Self.maximumAgeInOutage - clock.uptime().duration(since: lastFetch.uptime)
    return remaining > .zero ? clock.now() + remaining / .seconds(1) : nil
  }

  private func updateMetrics() {
    for app in apps {
      metrics.showKeys(app, fetchedAt: lastFetch?.date, isFailing: consecutiveFailures > 0)
    }
  }

  /// The host of the address; user information, path and query may be secret.
  private var host: String { URL(string: address)?.host() ?? "unknown" }

  private func reason(_ error: any Error) -> String {
    switch error {
    case let error as CurlError: error.message
    case let error as UnusableKeySet: error.reason
    default: "the response is not a key set"
    }
  }
}

/// Why a key set cannot be used.
private struct UnusableKeySet: Error, CustomStringConvertible {
  var reason: String
  var description: String { reason }
}

/// A key set (RFC 7517 section 5) without the keys that cannot be read.
struct JWKSet {
  var keys: [JWK]
  /// Whether the set has no members at all, readable or not.
  var isEmpty: Bool

  /// Key types that verify a token; a symmetric key in a public set must not be accepted.
  private static let usableTypes: Set<String> = ["RSA", "EC", "OKP"]

  private struct Body: Decodable {
    var keys: [JSONValue]
  }

  init(json: [UInt8]) throws {
    let values = try JSONCoding.decode(Body.self, from: json).keys
    isEmpty = values.isEmpty
    keys = values.compactMap { value in
      guard case .object(let members) = value, case .string(let type)? = members["kty"],
        Self.usableTypes.contains(type), let data = try? JSONEncoder().encode(value)
      else { return nil }
      return try? JSONDecoder().decode(JWK.self, from: data)
    }
  }
}
