import Foundation
import Postgres
import Subscriptions

/// The place that tells which users an app has: `auth.users`, or else the app's own tables, if they are from before
/// receiptd.
struct KnownUsers: Sendable {
  /// The tables, each with its column of user ids.
  private let sources: [(table: String, column: String)]

  /// Finds the tables that this role can read.
  /// - Returns: `nil` if none tells.
  static func find(for app: App, in pool: PostgresPool) async throws -> KnownUsers? {
    let accounts = try await pool.query(
      """
      SELECT coalesce(bool_or(CASE WHEN has_schema_privilege(n.oid, 'USAGE')
        THEN has_column_privilege(c.oid, 'id', 'SELECT') AND NOT row_security_active(c.oid) END), false) AS is_readable
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE n.nspname = 'auth' AND c.relname = 'users'
      """)[0]
    if try accounts.decode("is_readable", as: Bool.self) {
      return KnownUsers(sources: [("auth.users", "id")])
    }
    let existing = Set(try await ClientWriteModes.read(pool).filter(\.existedBefore).map(\.table))
    let own: [(StatusDestination, String)] = [(.profiles, "id"), (.userPreferences, "user_id")]
    let sources = own.filter { app.writeTo.contains($0.0) && existing.contains($0.0.rawValue) }
      .map { (table: $0.0.rawValue, column: $0.1) }
    return sources.isEmpty ? nil : KnownUsers(sources: sources)
  }

  /// Which of these users the app has.
  func among(_ users: [UUID], in pool: PostgresPool) async throws -> Set<UUID> {
    var known: Set<UUID> = []
    for (table, column) in sources {
      let rows = try await pool.query(
        "SELECT \(unescaped: column) AS user_id FROM \(unescaped: table) WHERE \(unescaped: column) = ANY(\(users))"
      )
      for row in rows { known.insert(try row.decode("user_id")) }
    }
    return known
  }
}
