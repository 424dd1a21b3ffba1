import Foundation
import Postgres

/// Statements on the table `entitlement_keys`.
enum EntitlementKeyRows {
  /// The keys that are not withdrawn.
  static let select: Query =
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
  static func decode(_ row: Row) throws -> EntitlementKeyRing.Entry {
    let kid = try row.decode("kid", as: String.self)
    guard let key = try? EntitlementKey(bytes: row.decode("private_key")), key.kid == kid else {
      throw DamagedEntitlementKey(kid: kid)
    }
    return EntitlementKeyRing.Entry(key: key, signsFrom: try row.decode("signs_from"))
  }
}
