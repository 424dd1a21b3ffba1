import Foundation
import Postgres

/// Supabase's `auth.users`, where this role may read it.
enum UserDirectory {
  /// Whether this role reads a column of `auth.users`, and sees all rows.
  static func canRead(_ column: String, _ connection: PostgresConnection) async throws -> Bool {
    let rows = try await connection.query(
      """
      SELECT CASE WHEN has_schema_privilege(n.oid, 'USAGE') THEN has_column_privilege(c.oid, 'id', 'SELECT')
        AND has_column_privilege(c.oid, a.attnum, 'SELECT') AND NOT row_security_active(c.oid)
        ELSE false END AS is_readable
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = \(column) AND NOT a.attisdropped
      WHERE n.nspname = 'auth' AND c.relname = 'users'
      """)
    return try rows.first?.decode("is_readable", as: Bool.self) ?? false
  }

  /// The users with an e-mail address.
  /// - Precondition: ``canRead(_:_:)`` of `email`.
  static func users(withEmail email: String, _ connection: PostgresConnection) async throws -> [UUID] {
    // Supabase stores addresses in lower case and has an index on them. Others may have stored them as typed.
    let stored = try await connection.query(
      "SELECT id FROM auth.users WHERE email IN (\(email), \(email.lowercased())) ORDER BY id LIMIT 20")
    let found =
      stored.isEmpty
      ? try await connection.query(
        "SELECT id FROM auth.users WHERE lower(email) = lower(\(email)) ORDER BY id LIMIT 20") : stored
    return try found.map { try $0.decode("id") }
  }

  /// Whether a user signed up.
  /// - Precondition: ``canRead(_:_:)`` of `id`.
  static func has(_ user: UUID, _ connection: PostgresConnection) async throws -> Bool {
    try await !connection.query("SELECT FROM auth.users WHERE id = \(user)").isEmpty
  }
}
