import Crypto
import FoundationEssentials
import Postgres

/// The keys that all servers share, in the database.
struct EntitlementKeyStore: Sendable {
  let pool: PostgresPool
  let clock: ServiceClock

  /// All keys; makes the first one where there is none. Of any number of servers that start at once, one makes it.
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

  /// Makes the key that is to sign next, and writes down who wanted it.
  /// - Parameter isLeaked: the new one signs at once, and those before are withdrawn.
  /// - Throws: ``SupportRefusal`` where a new key waits for its turn already, and what the database throws.
  func rotate(isLeaked: Bool, by author: SupportAuthor) async throws -> EntitlementKeyRotation {
    try await pool.withTransaction { connection in
      _ = try await connection.query(EntitlementKeyRows.lock)
      // The keys themselves are not read: a damaged one must not stand in the way of its successor.
      let latest = try await connection.query(EntitlementKeyRows.selectLatest)[0].decode(0, as: Date?.self)
      let instant = clock.now()
      if !isLeaked, let latest, latest > instant {
        throw SupportRefusal.alreadyDone("A new key signs from \(latest.inWords) on.")
      }
      // Without a key there is nobody who has to learn of another one first.
      let waits = !isLeaked && latest != nil
      let key = EntitlementKey(Curve25519.Signing.PrivateKey())
      var rotation = EntitlementKeyRotation(
        kid: key.kid, signsFrom: waits ? instant + EntitlementKeyRing.lead : instant, withdrawn: 0)
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

/// A new key of entitlement tokens, as an operator reads it.
public struct EntitlementKeyRotation: Sendable, Hashable, CustomStringConvertible {
  /// The new key's name.
  public let kid: String
  /// From when on it signs.
  public let signsFrom: Date
  /// How many keys were withdrawn.
  public internal(set) var withdrawn: Int

  /// One line.
  public var description: String {
    let before = withdrawn == 0 ? "" : "; withdrawn: \(withdrawn)"
    return "key \(kid) signs from \(signsFrom.inWords) on\(before)"
  }
}
