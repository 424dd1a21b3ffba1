import Postgres

/// Compares the rights on receiptd's tables, views and functions with those that `receiptd_set_rights()` gives.
extension Doctor {
  static let rightsRemedy = "as the tables' owner, run SELECT receiptd_set_rights()"

  /// Names rights of receiptd's roles, of clients' roles and of PUBLIC that the list does not have: a `GRANT … ON ALL
  /// TABLES`, say.
  /// - Returns: `nil` if there are none.
  func rightsBeyondTheList(_ pool: PostgresPool) async throws -> CheckResult? {
    let rows = try await pool.withConnection {
      try await $0.pipeline([RightsRows.onRelations, RightsRows.onFunctions])
    }.flatMap { Array($0) }
    guard !rows.isEmpty else { return nil }
    let lines = try rows.map { try $0.decode("line", as: String.self) }
    let more = lines.count > 5 ? " and \(lines.count - 5) more" : ""
    let message = lines.prefix(5).joined(separator: "; ") + more
    // receiptd_app is the server's role: a right too many does harm only after an attacker controls the server.
    return try rows.allSatisfy { try $0.decode("is_of_server", as: Bool.self) }
      ? .warn("rights", message, Self.rightsRemedy) : .fail("rights", message, Self.rightsRemedy)
  }

  /// Names receiptd's views that run with the rights of their owner and not with those of their reader. A view that is
  /// replaced loses the option `security_invoker`.
  /// - Returns: `nil` if there are none, and before PostgreSQL 15, which has no such option.
  func viewsOfOwner(_ pool: PostgresPool) async throws -> CheckResult? {
    let names = try await pool.query(RightsRows.viewsOfOwner).map { try $0.decode("name", as: String.self) }
    guard !names.isEmpty else { return nil }
    return .fail(
      "views",
      "\(names.joined(separator: ", ")): read with the rights of the owner, so that row level security hides nothing from the reader",
      names.map { "ALTER VIEW \($0) SET (security_invoker = true)" }.joined(separator: "; "))
  }
}

/// Queries on rights beyond `receiptd_rights()`. Each row of those on relations and functions has a `line`, and says
/// whether the role is the server's (`is_of_server`).
private enum RightsRows {
  /// The listed views, where the migrations made others of them with the option because the database has clients, and
  /// the views with the former name of a table, which the migrations make with the option everywhere.
  static let viewsOfOwner: Query = """
    WITH views AS (
      SELECT n.nspname || '.' || c.relname AS name,
        coalesce((
          SELECT bool_or(option_value::boolean) FROM pg_options_to_table(c.reloptions)
          WHERE option_name = 'security_invoker'), false) AS is_invoker,
        c.oid IN (SELECT to_regclass(relation) FROM receiptd_rights()) AS is_listed,
        n.nspname = 'public' AND EXISTS (
          SELECT FROM pg_class t
          WHERE t.relnamespace = 'receiptd'::regnamespace AND t.relname = c.relname AND t.relowner = c.relowner)
          AS is_former_name
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE c.relkind = 'v' AND current_setting('server_version_num')::bigint >= 150000
    )
    SELECT name FROM views
    WHERE NOT is_invoker
      AND (is_former_name OR is_listed AND EXISTS (
        SELECT FROM views other WHERE other.is_listed AND NOT other.is_former_name AND other.is_invoker))
    ORDER BY 1
    """

  /// SQL: the roles whose rights the list decides. 0 is PUBLIC.
  private static let roles: StaticString = """
    (SELECT 0::oid AS oid, 'PUBLIC' AS name
     UNION ALL SELECT oid, rolname::text FROM pg_roles
     WHERE rolname IN ('receiptd_app', 'receiptd_support', 'receiptd_numbers') OR oid = ANY (receiptd_client_roles()::oid[]))
    """

  /// On the app's own tables, clients and PUBLIC may have what policies limit, and support further columns.
  static let onRelations: Query = """
    WITH granted AS (
      SELECT t.relation, t.app, t.support, t.relation IN ('profiles', 'user_preferences') AS is_apps,
        role.name AS role, a.privilege_type AS privilege, a.is_grantable, a.attname::text AS attribute
      FROM receiptd_rights() AS t JOIN pg_class c ON c.oid = to_regclass(t.relation)
      CROSS JOIN LATERAL (
        SELECT x.grantee, x.privilege_type, x.is_grantable, NULL::name AS attname FROM aclexplode(c.relacl) AS x
        UNION ALL SELECT x.grantee, x.privilege_type, x.is_grantable, att.attname
        FROM pg_attribute att, aclexplode(att.attacl) AS x
        WHERE att.attrelid = c.oid AND NOT att.attisdropped) AS a
      JOIN \(unescaped: roles) AS role ON role.oid = a.grantee
      WHERE a.grantee <> c.relowner)
    SELECT format('%s may %s %s', role, string_agg(DISTINCT privilege, ', ' ORDER BY privilege), relation) AS line,
      role = 'receiptd_app' AS is_of_server
    FROM granted
    WHERE CASE
      WHEN is_grantable AND NOT is_apps THEN true
      WHEN role = 'receiptd_app' THEN NOT (is_apps AND privilege = 'SELECT' AND attribute = 'created_at') AND app !~ (
        CASE WHEN attribute IS NULL THEN '\\m' || privilege || '(?! \\()'
          ELSE '\\m' || privilege || '((?! \\()| \\([^)]*\\m' || attribute || '\\M)' END)
      WHEN role = 'receiptd_support' THEN privilege <> 'SELECT' OR support IS NULL
        OR support <> '*' AND (attribute IS NULL OR NOT is_apps AND attribute <> ALL (string_to_array(support, ', ')))
      WHEN role = 'receiptd_numbers' THEN privilege <> 'SELECT' OR relation NOT LIKE 'kpi\\_%'
      WHEN is_apps THEN privilege IN ('TRUNCATE', 'TRIGGER', 'REFERENCES')
      ELSE true END
    GROUP BY role, relation ORDER BY 2, 1
    """

  /// Triggers' functions cannot be called.
  static let onFunctions: Query = """
    SELECT format('%s may run %s', role.name, string_agg(p.oid::regprocedure::text, ', ' ORDER BY p.oid)) AS line,
      role.name = 'receiptd_app' AS is_of_server
    FROM pg_proc p CROSS JOIN LATERAL aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS a
    JOIN \(unescaped: roles) AS role ON role.oid = a.grantee
    WHERE p.pronamespace IN ('public'::regnamespace, 'receiptd'::regnamespace) AND p.proname LIKE 'receiptd\\_%' AND p.prorettype <> 'trigger'::regtype
      AND a.grantee <> p.proowner AND NOT (p.proname = 'receiptd_writes_premium' AND a.grantee = 0) AND CASE
        WHEN role.name IN ('receiptd_support', 'receiptd_numbers') THEN p.proname <> 'receiptd_currency_digits'
        ELSE role.name <> 'receiptd_app' END
    GROUP BY role.name ORDER BY 1
    """
}
