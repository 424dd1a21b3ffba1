import Crypto
import Foundation
import Postgres
import Work

/// The signing keys in the database, which all servers share.
struct EntitlementKeyStore: Sendable {
  let pool: PostgresPool
  let clock: ServiceClock

  /// Reads all keys and creates the first one if there is none. If several servers start at once, one creates it.
  func load() async throws -> [EntitlementKeyRing.Entry] {
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

  /// Creates the next signing key and records the author.
  /// - Parameter isLeaked: the new key signs at once, and all others are withdrawn.
  /// - Throws: ``SupportRefusal`` if a newer key is already published and does not sign yet; errors of the database.
  func rotate(isLeaked: Bool, by author: SupportAuthor) async throws -> EntitlementKeyRotation {
    try await pool.withTransaction { connection in
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
