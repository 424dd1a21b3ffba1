import Actions
import Crypto
import Foundation
import Logging
import Postgres
import Text
import Work

/// Creates a new signing key for entitlement tokens. All servers publish it within about a minute; it signs an hour
/// later.
package struct RotateEntitlementKeyRequest: SupportRequest {
  package static let operation = SupportOperation.rotateEntitlementKey

  /// Whether the private key may be known to others: then the new key signs at once, and clients that fetch the key set
  /// again reject all earlier tokens.
  var leaked: Bool?

  package init(leaked: Bool = false) {
    self.leaked = leaked
  }

  package func run(
    at room: CustomerRoom, by author: SupportAuthor, isDryRun: Bool
  ) async throws -> EntitlementKeyRotation {
    guard let refresh = room.entitlementKeyRefresh else {
      throw SupportRefusal.invalid(
        "ENTITLEMENT_KEY is set: append the new key's file to the list, and an hour later move it to the front."
      )
    }
    return try await refresh.store.rotate(isLeaked: leaked ?? false, by: author, isDryRun: isDryRun)
  }
}

/// The signing keys in the database, which all servers share.
package struct EntitlementKeyStore: Sendable {
  let pool: PostgresPool
  let clock: ServiceClock

  package init(pool: PostgresPool, clock: ServiceClock) {
    self.pool = pool
    self.clock = clock
  }

  /// Reads all keys and creates the first one if there is none. If several servers start at once, one creates it.
  package func load() async throws -> [EntitlementKeyRing.Entry] {
    let found = try await pool.query(EntitlementKeyRows.select)
    if !found.isEmpty { return try found.map(EntitlementKeyRows.decode) }
    return try await pool.withTransaction { connection in
      _ = try await connection.query(EntitlementKeyRows.lock)
      let found = try await connection.query(EntitlementKeyRows.select)
      if !found.isEmpty { return try found.map(EntitlementKeyRows.decode) }
      let instant = clock.now()
      let key = EntitlementKey(Curve25519.Signing.PrivateKey())
      _ = try await connection.query(EntitlementKeyRows.insert(key, signsFrom: instant, at: instant))
      return [EntitlementKeyRing.Entry(key: key, signsFrom: instant)]
    }
  }

  /// - Throws: ``SupportRefusal`` if a newer key is already published and does not sign yet; errors of the database.
  fileprivate func rotate(
    isLeaked: Bool, by author: SupportAuthor, isDryRun: Bool
  ) async throws -> EntitlementKeyRotation {
    try await pool.withTransaction(isDryRun: isDryRun) { connection in
      _ = try await connection.query(EntitlementKeyRows.lock)
      // Do not decode the keys: a damaged one must not prevent its replacement.
      let latest = try await connection.query(EntitlementKeyRows.selectLatest)[0]
        .decode("signs_from", as: Date?.self)
      let instant = clock.now()
      if !isLeaked, let latest, latest > instant {
        throw SupportRefusal.alreadyDone("A new key already exists and signs from \(latest.rfc3339).")
      }
      // The first key can sign at once: no cached key set lacks it.
      let isDelayed = !isLeaked && latest != nil
      let key = EntitlementKey(Curve25519.Signing.PrivateKey())
      var rotation = EntitlementKeyRotation(
        kid: key.kid, signsFrom: isDelayed ? instant + EntitlementKeyRing.lead : instant, withdrawn: 0)
      if isLeaked {
        rotation.withdrawn = try await connection.query(EntitlementKeyRows.withdrawAll(at: instant)).affected
      }
      _ = try await connection.query(
        EntitlementKeyRows.insert(key, signsFrom: rotation.signsFrom, at: instant))
      _ = try await connection.query(EntitlementKeyRows.insertAction(rotation, by: author, at: instant))
      return rotation
    }
  }
}

/// The result of a rotation of the entitlement key, for operators.
package struct EntitlementKeyRotation: Sendable, Hashable, CustomStringConvertible {
  /// The new key's id.
  package let kid: String
  /// When it begins to sign.
  package let signsFrom: Date
  /// The number of keys withdrawn.
  package internal(set) var withdrawn: Int

  /// One line.
  package var description: String {
    let before = withdrawn == 0 ? "" : "; withdrawn: \(withdrawn)"
    return "key \(kid) signs from \(signsFrom.rfc3339)\(before)"
  }
}

/// A background job that reads the signing keys every minute, so that a server knows a new key long before it signs.
package struct EntitlementKeyRefresh: Sendable {
  package let store: EntitlementKeyStore
  let signer: EntitlementSigner
  /// The longest lifetime of a token of any app, in seconds; `nil` for no end.
  let lifetime: TimeInterval?
  let clock: ServiceClock
  let logger: Logger

  package init(
    store: EntitlementKeyStore, signer: EntitlementSigner, lifetime: TimeInterval?, clock: ServiceClock,
    logger: Logger
  ) {
    self.store = store
    self.signer = signer
    self.lifetime = lifetime
    self.clock = clock
    self.logger = logger
  }

  /// Reads the keys every minute. Answers have no token until the first keys are read, so a failure is retried soon.
  package var job: BackgroundJob {
    BackgroundJob("entitlement key refresh", every: .seconds(60), retryEvery: .seconds(5)) {
      try await runOnce()
    }
  }

  /// Reads the keys once and logs a failure. The known keys stay in use where they cannot be read.
  package func run() async {
    do {
      try await runOnce()
    } catch {
      logger.warning(
        "the signing keys of entitlement tokens cannot be read", metadata: ["reason": "\(error)"])
    }
  }

  private func runOnce() async throws {
    let known = signer.kid(at: clock.now())
    signer.adopt(EntitlementKeyRing(try await store.load(), lifetime: lifetime))
    guard let known, let kid = signer.kid(at: clock.now()), kid != known else { return }
    logger.info("entitlement tokens are signed with another key", metadata: ["kid": "\(kid)"])
  }
}

/// Statements on the table `entitlement_keys`.
package enum EntitlementKeyRows {
  /// The keys that are not withdrawn.
  package static let select: Query =
    "SELECT kid, private_key, signs_from FROM entitlement_keys WHERE withdrawn_at IS NULL"

  /// When the newest of them begins to sign (`signs_from`); NULL without keys.
  static let selectLatest: Query =
    "SELECT max(signs_from) AS signs_from FROM entitlement_keys WHERE withdrawn_at IS NULL"

  /// Serializes the creation of keys; readers do not wait.
  static let lock: Query = "LOCK TABLE entitlement_keys IN SHARE ROW EXCLUSIVE MODE"

  static func insert(_ key: EntitlementKey, signsFrom: Date, at instant: Date) -> Query {
    """
    INSERT INTO entitlement_keys (kid, private_key, created_at, signs_from)
    VALUES (\(key.kid), \(key.bytes), \(instant), \(signsFrom))
    """
  }

  static func withdrawAll(at instant: Date) -> Query {
    "UPDATE entitlement_keys SET withdrawn_at = \(instant) WHERE withdrawn_at IS NULL"
  }

  static func insertAction(
    _ rotation: EntitlementKeyRotation, by author: SupportAuthor, at instant: Date
  ) -> Query {
    """
    INSERT INTO support_actions (action, by, actor, person_id, reason, details, at)
    VALUES ('rotate-entitlement-key', \(author.by), \(author.actor.kind), \(author.actor.personID)::bigint,
      \(author.reason),
      jsonb_build_object('kid', \(rotation.kid)::text, 'signs_from', \(rotation.signsFrom)::timestamptz,
        'withdrawn', \(rotation.withdrawn)::bigint), \(instant))
    """
  }

  /// - Throws: ``DamagedEntitlementKey`` if the row's key does not match its id.
  package static func decode(_ row: Row) throws -> EntitlementKeyRing.Entry {
    let kid = try row.decode("kid", as: String.self)
    guard let key = try? EntitlementKey(bytes: row.decode("private_key")), key.kid == kid else {
      throw DamagedEntitlementKey(kid: kid)
    }
    return EntitlementKeyRing.Entry(key: key, signsFrom: try row.decode("signs_from"))
  }
}

/// The error for a row whose private key does not match its id.
package struct DamagedEntitlementKey: Error, CustomStringConvertible {
  package var kid: String
  package var description: String { "the entitlement key \(kid) in the database is damaged" }
}
