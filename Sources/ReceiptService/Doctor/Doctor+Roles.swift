import Postgres

extension Doctor {
  /// The functions that `serve` calls. They run with the rights of the tables' owner.
  private static let neededFunctions = [
    "receiptd_forget_notifications(integer)", "receiptd_forget_transactions(integer)",
    "receiptd_erased_account(text)", "receiptd_has_account(text, text)", "receiptd_impersonal_claims(text)",
    "receiptd_writes_premium(regclass, text)", "receiptd_secret_columns()", "receiptd_rights()",
    "receiptd_client_roles()",
    "receiptd_erase_actions(text, text, text[], text[], text, text, text, bigint, text, jsonb, timestamptz)",
  ]

  /// SQL: whether row level security hides rows of the table `guarded` from the connected role. It does without a
  /// policy that permits everything, or with a restrictive policy.
  static let hidesRows: StaticString = """
    row_security_active(guarded) AND NOT coalesce((
      SELECT bool_or(polpermissive AND polcmd = '*' AND pg_get_expr(polqual, polrelid) = 'true')
        AND bool_and(polpermissive)
      FROM pg_policy WHERE polrelid = guarded AND (polroles = '{0}'
        OR EXISTS (SELECT FROM unnest(polroles) AS role WHERE role <> 0 AND pg_has_role(role, 'USAGE')))), false)
    """

  /// Checks that the role has the privileges that `serve` needs, and reports whether it owns the tables.
  func privileges(_ pool: PostgresPool) async throws -> CheckResult {
    var missing = try await pool.query(
      """
      SELECT relation || ' (' || privilege || ')' AS missing
      FROM (
        SELECT relation, to_regclass(relation) AS guarded, privilege
        FROM receiptd_rights(),
          -- The privileges on all columns.
          regexp_matches(app, '([A-Z]+)(?! ?\\(|[A-Z])', 'g') AS found, unnest(found) AS privilege
        WHERE relation NOT IN ('profiles', 'user_preferences')
        -- Without a limit PostgreSQL expects a million rows, and compiles the statement for seconds.
        LIMIT 1000) AS needed
      WHERE NOT coalesce(has_table_privilege(guarded, privilege), false) OR \(unescaped: Self.hidesRows)
      ORDER BY 1
      """
    ).map { try $0.decode("missing", as: String.self) }
    missing += try await pool.query(
      """
      SELECT name || ' (EXECUTE)' AS missing FROM unnest(\(Self.neededFunctions)::text[]) AS name
      WHERE NOT coalesce(has_function_privilege(to_regprocedure(name), 'EXECUTE'), false)
      """
    ).map { try $0.decode("missing", as: String.self) }
    if let first = missing.first {
      let others = missing.count > 1 ? " and \(missing.count - 1) more" : ""
      return .fail(
        "privileges", "the role lacks \(first)\(others)",
        "connect as receiptd_app, after the tables' owner has run SELECT receiptd_set_rights()")
    }
    let owns = try await pool.query(
      """
      SELECT pg_has_role(relowner, 'USAGE') AS is_owner FROM pg_class WHERE oid = to_regclass('public.subscriptions')
      """)[0]
    return try owns.decode("is_owner", as: Bool.self)
      ? .ok("privileges", "the role has all that it needs, and owns the tables; receiptd_app would not")
      : .ok("privileges", "the role has all that it needs, and cannot alter the tables")
  }
}

/// Checks of what other roles than the server's may read and write.
extension Doctor {
  /// Checks that support's role reads its views, and that no role of people or of an API reads what only the server
  /// may.
  func supportRole(_ pool: PostgresPool) async throws -> CheckResult {
    let row = try await pool.query(
      """
      SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = 'receiptd_support') AS exists,
        (SELECT string_agg(view, ', ') FROM unnest(ARRAY['support_customers', 'support_subscriptions',
           'support_timeline', 'grants', 'support_actions']) AS v (view)
         WHERE EXISTS (SELECT FROM pg_roles
           WHERE rolname = 'receiptd_support' AND NOT has_table_privilege(oid, view, 'SELECT')))
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
      WHERE has_column_privilege(role.name, s.relation, s.name, 'SELECT')
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

  /// Names receiptd's roles that PostgREST's sign-in role may take: a client's token names the role of its request.
  /// - Returns: `nil` if there are none.
  static func rolesOfClients(on connection: PostgresConnection) async throws -> CheckResult? {
    let names = try await connection.query(
      """
      SELECT r.rolname::text AS name FROM pg_roles r JOIN pg_roles login ON login.rolname = 'authenticator'
      WHERE r.rolname LIKE 'receiptd\\_%' AND NOT login.rolsuper AND pg_has_role(login.oid, r.oid, 'MEMBER') ORDER BY 1
      """
    ).map { try $0.decode("name", as: String.self) }
    guard !names.isEmpty else { return nil }
    return .fail(
      "roles of clients",
      "authenticator may act as \(names.joined(separator: ", ")), so a token that names the role does",
      "REVOKE \(names.joined(separator: ", ")) FROM authenticator")
  }

  /// Names the roles that receiptd does not know and that may read secrets or write receiptd's tables: a server's own
  /// role, or a mistake.
  /// - Returns: `nil` if there are none.
  func otherRoles(_ pool: PostgresPool) async throws -> CheckResult? {
    let names = try await pool.query(
      """
      SELECT r.rolname::text AS name FROM pg_roles r
      CROSS JOIN (SELECT relowner FROM pg_class WHERE oid = 'public.subscriptions'::regclass) AS tables
      WHERE NOT r.rolsuper AND r.rolname NOT LIKE 'pg\\_%' AND r.rolname NOT IN (current_user, 'service_role')
        AND r.oid <> tables.relowner
        AND (NOT pg_has_role(r.oid, tables.relowner, 'USAGE') OR \(PremiumWriterRows.servesClients))
        AND NOT EXISTS (
          SELECT FROM pg_roles known WHERE pg_has_role(r.oid, known.oid, 'USAGE')
            AND known.rolname IN ('receiptd_app', 'pg_read_all_data', 'pg_write_all_data'))
        AND (EXISTS (
            SELECT FROM receiptd_secret_columns() AS s
            WHERE has_column_privilege(r.oid, s.relation, s.name, 'SELECT'))
          OR EXISTS (
            SELECT FROM receiptd_rights() AS t
            WHERE t.relation NOT IN ('profiles', 'user_preferences')
              AND (has_any_column_privilege(r.oid, t.relation, 'INSERT, UPDATE')
                OR has_table_privilege(r.oid, t.relation, 'DELETE, TRUNCATE, TRIGGER'))))
      ORDER BY 1 LIMIT 10
      """
    ).map { try $0.decode("name", as: String.self) }
    guard !names.isEmpty else { return nil }
    return .warn(
      "other roles", "\(names.joined(separator: ", ")) may read secrets of receiptd or write its tables",
      "unless a server of receiptd signs in with it, REVOKE ALL ON ALL TABLES IN SCHEMA receiptd, public, and grant what it needs"
    )
  }
}

extension Doctor {
  /// Checks that a session looks for tables in the schemas `receiptd` and `public`, in this order. Behind a pooler, the
  /// settings of the role decide.
  /// - Returns: `nil` if it does.
  func searchPath(_ pool: PostgresPool) async throws -> CheckResult? {
    let row = try await pool.query(
      """
      SELECT current_schemas(false) = ARRAY['receiptd', 'public']::name[] AS is_right, current_setting('search_path') AS path,
        has_schema_privilege('receiptd', 'USAGE') AS may_use, quote_ident(current_user) AS role
      """)[0]
    if try row.decode("is_right", as: Bool.self) { return nil }
    if try !row.decode("may_use", as: Bool.self) {
      return .fail("search_path", "the role may not use the schema receiptd", Self.rightsRemedy)
    }
    return .fail(
      "search_path",
      "it is \(try row.decode("path", as: String.self)), so this role does not find receiptd's tables",
      "ALTER ROLE \(try row.decode("role", as: String.self)) SET search_path = receiptd, public; then RECONNECT in PgBouncer"
    )
  }

  /// Checks that no role without the rights of a server may create functions in a schema in which servers look for
  /// them.
  ///
  /// The owner of one of the app's own tables may add triggers to it, so it has the server's rights anyway.
  /// - Returns: `nil` if no role may.
  func creators(in name: String, _ pool: PostgresPool) async throws -> CheckResult? {
    let row = try await pool.query(
      """
      WITH schema AS (
        SELECT n.nspowner, pg_get_userbyid(n.nspowner)::text AS owner, granted.grantee
        FROM pg_namespace n CROSS JOIN LATERAL aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) AS granted
        WHERE n.nspname = \(name) AND granted.privilege_type = 'CREATE'),
      tables AS (
        SELECT oid, relname, relowner, quote_ident(pg_get_userbyid(relowner)) AS owner FROM pg_class
        WHERE oid IN (to_regclass('public.subscriptions'), to_regclass('public.profiles'),
          to_regclass('public.user_preferences')))
      SELECT min(schema.owner) AS owner,
        string_agg(DISTINCT coalesce(quote_ident(r.rolname), 'PUBLIC'), ', ') AS roles,
        (SELECT t.owner FROM tables t
         WHERE t.relname = 'subscriptions' AND EXISTS (SELECT FROM schema s WHERE s.grantee = 0) AND NOT EXISTS (
           SELECT FROM schema s WHERE s.grantee <> 0 AND pg_has_role(t.relowner, s.grantee, 'USAGE'))) AS owner_by_public
      FROM schema LEFT JOIN pg_roles r ON r.oid = schema.grantee
      WHERE schema.grantee <> schema.nspowner AND (schema.grantee = 0 OR NOT r.rolsuper AND NOT EXISTS (
        SELECT FROM tables t WHERE pg_has_role(r.oid, t.relowner, 'USAGE')))
      """)[0]
    guard let roles = try row.decode("roles", as: String?.self) else { return nil }
    let owner = try row.decode("owner", as: String.self)
    // The owner of the tables may have the right by PUBLIC alone.
    let byPublic = try row.decode("owner_by_public", as: String?.self)
    let grant = byPublic.map { "GRANT CREATE ON SCHEMA \(name) TO \($0); " } ?? ""
    return .fail(
      "schema \(name)",
      "\(roles) may create functions in it, which servers would run instead of PostgreSQL's own",
      "as \(owner) or a superuser, \(grant)REVOKE CREATE ON SCHEMA \(name) FROM \(roles)"
    )
  }

  /// Checks that no other role has a schema that is named like the server's role or the owner of the tables. A session
  /// without receiptd's own `search_path`, such as one through PgBouncer or of `psql`, would look for tables and
  /// functions in it first.
  /// - Returns: `nil` if there is none.
  func schemaOfRole(_ pool: PostgresPool) async throws -> CheckResult? {
    let schemas = try await pool.query(
      """
      SELECT quote_ident(n.nspname) AS name, quote_ident(owner.rolname) AS owner
      FROM pg_namespace n JOIN pg_roles owner ON owner.oid = n.nspowner
      WHERE n.nspname NOT IN ('public', 'receiptd') AND n.nspname <> owner.rolname AND NOT owner.rolsuper AND (
        n.nspname IN (current_user, session_user, 'receiptd_app') OR n.nspname = (
          SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = to_regclass('public.subscriptions')))
      ORDER BY 1
      """)
    guard let schema = schemas.first else { return nil }
    let name = try schema.decode("name", as: String.self)
    return .fail(
      "schema \(name)",
      "it is \(try schema.decode("owner", as: String.self))'s and named like a role of the server: sessions of that role look for "
        + "functions in it first",
      "ALTER SCHEMA \(name) RENAME TO …")
  }

  /// Checks whether the policies of `profiles` let clients of the database read other users' premium columns.
  ///
  /// Supabase's example has such a policy. Row level security does not restrict columns, and a missing column privilege
  /// makes a client's `SELECT *` fail, so the operator must decide.
  /// - Returns: `nil` if clients cannot read them.
  static func publicPremium(_ pool: PostgresPool) async throws -> CheckResult? {
    let rows = try await pool.query(
      """
      SELECT string_agg(DISTINCT quote_ident(role.rolname), ', ') AS roles, (
        SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
        WHERE attrelid = profiles.oid AND attnum > 0 AND NOT attisdropped
          AND attname NOT IN ('premium_expires_at', 'premium_product_id', 'premium_original_transaction_id')) AS other_columns
      FROM pg_class profiles, pg_roles role
      WHERE profiles.oid = to_regclass('public.profiles') AND role.oid = ANY (receiptd_client_roles()::oid[])
        AND has_column_privilege(role.oid, profiles.oid, 'premium_original_transaction_id', 'SELECT')
        AND (NOT profiles.relrowsecurity OR EXISTS (
          SELECT FROM pg_policy
          WHERE polrelid = profiles.oid AND polpermissive AND polcmd IN ('r', '*')
            AND pg_get_expr(polqual, polrelid) = 'true' AND (polroles = '{0}'
              OR EXISTS (SELECT FROM unnest(polroles) AS named WHERE named <> 0 AND pg_has_role(role.oid, named, 'USAGE')))))
      GROUP BY profiles.oid
      """)
    guard let row = rows.first, let roles = try row.decode("roles", as: String?.self) else { return nil }
    let others = try row.decode("other_columns", as: String.self)
    return .fail(
      "table profiles",
      "its policies let \(roles) read every user's premium columns, which have the transaction ids of purchases",
      "REVOKE SELECT ON public.profiles FROM \(roles); GRANT SELECT (\(others)) ON public.profiles TO \(roles)"
    )
  }
}
