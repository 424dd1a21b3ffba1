import Postgres

/// Checks of what other roles than the server's may read and write.
extension Doctor {
  private static let rightsRemedy = "as the tables' owner, run SELECT receiptd_set_rights()"

  /// Checks that support's role reads its views, and that no role of people or of an API reads what only the server may.
  func supportRole(_ pool: PostgresPool) async throws -> CheckResult {
    let row = try await pool.query(
      """
      SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = 'receiptd_support') AS exists,
        (SELECT string_agg(view, ', ') FROM unnest(ARRAY['support_customers', 'support_subscriptions',
           'support_timeline', 'grants', 'support_actions']) AS v (view)
         WHERE EXISTS (SELECT FROM pg_roles
           WHERE rolname = 'receiptd_support' AND NOT has_table_privilege(oid, 'public.' || view, 'SELECT')))
           AS hidden_views
      """)[0]
    if try !row.decode("exists", as: Bool.self) {
      return .fail(
        "support role", "the role receiptd_support does not exist",
        "have an administrator run CREATE ROLE receiptd_support NOLOGIN; then, \(Self.rightsRemedy)")
    }
    if let views = try row.decode("hidden_views", as: String?.self) {
      return .fail("support role", "receiptd_support cannot read \(views)", Self.rightsRemedy)
    }
    let readers = try await pool.query(
      """
      SELECT role.name || ' may read ' || string_agg(s.relation || '.' || s.name, ', ' ORDER BY s.relation, s.name) AS line
      FROM (
        SELECT rolname::text AS name FROM pg_roles
        WHERE rolname IN ('receiptd_support', 'receiptd_numbers', 'service_role')
          OR oid = ANY (receiptd_client_roles()::oid[])
        UNION ALL SELECT 'public') AS role
      CROSS JOIN receiptd_secret_columns() AS s
      WHERE has_column_privilege(role.name, 'public.' || s.relation, s.name, 'SELECT')
      GROUP BY role.name ORDER BY role.name
      """
    ).map { try $0.decode("line", as: String.self) }
    if !readers.isEmpty {
      return .fail(
        "support role",
        "\(readers.joined(separator: "; ")), with which a reader can act as a customer or as the server",
        "\(Self.rightsRemedy); a role that keeps the right has it by another role: REVOKE that one")
    }
    return .ok("support role", "receiptd_support can read the views, and no secret")
  }

  /// Names the roles that receiptd does not know and that may read secrets or write receiptd's tables: a server's own role, or a
  /// mistake.
  /// - Returns: `nil` if there are none.
  func otherRoles(_ pool: PostgresPool) async throws -> CheckResult? {
    let names = try await pool.query(
      """
      SELECT r.rolname::text AS name FROM pg_roles r
      CROSS JOIN (SELECT relowner FROM pg_class WHERE oid = 'public.subscriptions'::regclass) AS tables
      WHERE NOT r.rolsuper AND r.rolname NOT LIKE 'pg\\_%' AND r.rolname NOT IN (current_user, 'service_role')
        AND NOT pg_has_role(r.oid, tables.relowner, 'USAGE')
        AND NOT EXISTS (
          SELECT FROM pg_roles known WHERE pg_has_role(r.oid, known.oid, 'USAGE')
            AND known.rolname IN ('receiptd_app', 'pg_read_all_data', 'pg_write_all_data'))
        AND (EXISTS (
            SELECT FROM receiptd_secret_columns() AS s
            WHERE has_column_privilege(r.oid, 'public.' || s.relation, s.name, 'SELECT'))
          OR EXISTS (
            SELECT FROM receiptd_rights() AS t
            WHERE t.relation NOT IN ('profiles', 'user_preferences')
              AND has_table_privilege(r.oid, 'public.' || t.relation, 'INSERT, UPDATE, DELETE, TRIGGER')))
      ORDER BY 1 LIMIT 10
      """
    ).map { try $0.decode("name", as: String.self) }
    guard !names.isEmpty else { return nil }
    return .warn(
      "other roles", "\(names.joined(separator: ", ")) may read secrets of receiptd or write its tables",
      "unless a server of receiptd signs in with it, REVOKE ALL ON ALL TABLES IN SCHEMA public, and grant what it needs"
    )
  }
}
