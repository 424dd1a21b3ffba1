import FoundationEssentials
import Postgres

/// The table `entitlement_keys`.
enum EntitlementKeyRows {
  /// Those that were not withdrawn.
  static let select: Query =
    "SELECT kid, private_key, signs_from FROM entitlement_keys WHERE withdrawn_at IS NULL"

  /// When the latest of them begins to sign; null where there is none.
  static let selectLatest: Query =
    "SELECT max(signs_from) FROM entitlement_keys WHERE withdrawn_at IS NULL"

  /// Whoever makes keys does it alone; who reads them does not wait.
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
    INSERT INTO support_actions (action, by, reason, details, at)
    VALUES ('rotate-entitlement-key', \(author.by), \(author.reason),
      jsonb_build_object('kid', \(rotation.kid)::text, 'signs_from', \(rotation.signsFrom)::timestamptz,
        'withdrawn', \(rotation.withdrawn)::bigint), \(instant))
    """
  }

  /// - Throws: where the bytes are not the key that the row names.
  static func decode(_ row: Row) throws -> EntitlementKeyRing.Entry {
    let kid = try row.decode(0, as: String.self)
    guard let key = try? EntitlementKey(bytes: row.decode(1)), key.kid == kid else {
      throw DamagedEntitlementKey(kid: kid)
    }
    return EntitlementKeyRing.Entry(key: key, signsFrom: try row.decode(2))
  }
}

/// A row whose private key is not the one that its name was made of.
struct DamagedEntitlementKey: Error, CustomStringConvertible {
  var kid: String
  var description: String { "the entitlement key \(kid) in the database is damaged" }
}
