import CoreMetrics
import Curl
import FoundationEssentials
import HTTP
import JWTKit
import Logging
import Synchronization

/// An issuer's public keys (RFC 7517), fetched when they are needed and kept for at most ten minutes.
///
/// During a rotation several are valid; a token with a key that is not among them makes us look again,
/// but not more often than twice a minute, so that made-up key ids do not become a flood at the issuer.
actor PublicKeys {
  private let address: String
  private let client: CurlClient
  private let clock: ServiceClock
  private let logger: Logger
  private let metrics: ServiceMetrics
  private var keys: [String: JWTKeyCollection] = [:]
  private var onlyKey: JWTKeyCollection?
  private var fetchedAt: Date?
  private var triedAt: Date?
  private var fetching: Task<Void, any Error>?

  private static let maximumAge: TimeInterval = 600
  private static let minimumPause: TimeInterval = 30

  init(
    address: String, client: CurlClient, clock: ServiceClock, logger: Logger, metrics: ServiceMetrics
  ) {
    self.address = address
    self.client = client
    self.clock = clock
    self.logger = logger
    self.metrics = metrics
  }

  /// The key of this name; of no name, where the issuer has a single key.
  /// - Throws: ``Problem`` `auth_unavailable` where no keys are at hand and none can be had.
  func key(named kid: String?) async throws -> JWTKeyCollection? {
    if isFresh, let key = find(kid) { return key }
    if !isFresh || mayTryAgain { try await refresh() }
    return find(kid)
  }

  private func find(_ kid: String?) -> JWTKeyCollection? {
    guard let kid else { return onlyKey }
    return keys[kid]
  }

  private var isFresh: Bool {
    fetchedAt.map { clock.now().timeIntervalSince($0) < Self.maximumAge } ?? false
  }

  private var mayTryAgain: Bool {
    triedAt.map { clock.now().timeIntervalSince($0) >= Self.minimumPause } ?? true
  }

  /// Fetches the keys; whoever asks meanwhile waits for the same answer.
  private func refresh() async throws {
    if let fetching { return try await fetching.value }
    if !mayTryAgain { throw ServiceError.authUnavailable }
    triedAt = clock.now()
    let task = Task { try await fetch() }
    fetching = task
    defer { fetching = nil }
    try await task.value
  }

  private func fetch() async throws {
    do {
      let response = try await client.send(
        CurlRequest(url: address, timeout: .seconds(5), maximumResponseLength: 1 << 20))
      guard response.status == 200 else {
        throw UnusableKeySet(reason: "status \(response.status)")
      }
      try await adopt(JWKSet(json: response.body).keys)
      metrics.outcomes.jwksRefreshed.increment()
    } catch {
      metrics.outcomes.jwksFailed.increment()
      logger.error("public keys cannot be had", metadata: ["jwks": "\(address)", "reason": "\(error)"])
      throw ServiceError.authUnavailable
    }
  }

  private func adopt(_ set: [JWK]) async throws {
    var keys: [String: JWTKeyCollection] = [:]
    var all: [JWTKeyCollection] = []
    for var key in set {
      let name = key.keyIdentifier?.string
      key.keyIdentifier = key.keyIdentifier ?? JWKIdentifier(string: "unnamed")
      // A key that we cannot use (another curve, another kind) must not cost us those that we can.
      guard let collection = try? await JWTKeyCollection().add(jwk: key) else { continue }
      all.append(collection)
      if let name { keys[name] = collection }
    }
    self.keys = keys
    onlyKey = all.count == 1 ? all[0] : nil
    fetchedAt = clock.now()
  }
}

/// A set of keys, of which those that cannot be read are left out.
struct JWKSet {
  var keys: [JWK]

  /// Kinds of keys that verify a token; a symmetric key in a public set would be a mistake to obey.
  private static let usable: Set<String> = ["RSA", "EC", "OKP"]

  private struct Form: Decodable {
    var keys: [JSONValue]
  }

  init(json: [UInt8]) throws {
    keys = try JSONCoding.decode(Form.self, from: json).keys.compactMap { value in
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
