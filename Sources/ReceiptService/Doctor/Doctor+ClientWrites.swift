import Adoption
import Configuration
import Customers
import Foundation
import Postgres
import Subscriptions
import Text
import Work

extension Doctor {
  /// For how long no client may have written before `refuse` is safe, in days.
  private static let quietDays = 30.0

  /// Reports, for each of the app's own tables, the mode in which clients may write the premium columns, how many wrote
  /// lately, and when the mode `refuse` breaks no old build.
  func clientWrites(
    _ pool: PostgresPool, _ settings: Settings, _ catalog: AppCatalog
  ) async throws -> [CheckResult] {
    let modes = ClientWriteModes(catalog: catalog, appsWithKey: catalog.appsWithStoreKey(settings))
    let recent = try await pool.query(ClientWriteRows.recent(at: clock.now())).map(
      ClientWriteRows.Recent.init)
    var results: [CheckResult] = []
    for stored in try await ClientWriteModes.read(pool) {
      guard let table = ProfileTable.all.first(where: { $0.destination.rawValue == stored.table }),
        let recent = recent.first(where: { $0.table == stored.table })
      else { continue }
      guard let mode = modes.mode(of: table, stored) else {
        guard stored.hasApps, let mode = stored.mode, mode != .accept else { continue }
        results.append(Self.withoutApps(stored.table, mode))
        results += try await premiumWriters(pool, stored, modes, table)
        continue
      }
      results.append(report(stored, mode, modes, table, recent))
      results += try await premiumWriters(pool, stored, modes, table)
    }
    return results
  }

  /// A table to which no configured app writes any more.
  private static func withoutApps(_ table: String, _ mode: ClientWrites) -> CheckResult {
    .warn(
      "client writes to \(table)",
      "no configured app writes to it, and its mode stays \(mode.rawValue)",
      "put the app back into the configuration; if it has left receiptd for good: "
        + "UPDATE receiptd.client_write_modes SET mode = 'accept' WHERE table_name = '\(table)'")
  }

  private func report(
    _ stored: ClientWriteModes.StoredMode, _ configured: ClientWrites, _ modes: ClientWriteModes,
    _ table: ProfileTable, _ recent: ClientWriteRows.Recent
  ) -> CheckResult {
    let isSet = modes.apps(writingTo: table).contains { $0.clientWrites != nil }
    var parts = [
      "\(configured.rawValue)" + (isSet ? "" : " (by default; clientWrites is not set)")
        + (stored.mode == configured
          ? ""
          : ", in force once a server has started or read its configuration; now \(stored.inForce.rawValue)")
    ]
    if configured != .refuse || recent.writes > 0 {
      let users = recent.users == 1 ? "1 user" : "\(recent.users) users"
      let writes = recent.writes == 1 ? "1 client write" : "\(recent.writes) client writes"
      let bound = recent.bound > 0 ? ", \(recent.bound) of them with a verified purchase" : ""
      parts.append("\(writes) of \(users) in the last 30 days\(bound)")
      if let last = recent.last { parts.append("the last at \(last.rfc3339)") }
    }
    if configured != .refuse {
      // The count may be younger than 30 days.
      let quietSince = max(recent.last ?? .distantPast, stored.countedSince)
      let safe = quietSince.addingTimeInterval(Self.quietDays * 86_400)
      parts.append(
        safe <= clock.now()
          ? "refuse is safe now" : "refuse is safe from \(safe.rfc3339), if no client writes until then")
    }
    return .ok("client writes to \(stored.table)", parts.joined(separator: "; "))
  }
}

extension ClientWriteModes.StoredMode {
  /// The mode that the triggers apply.
  fileprivate var inForce: ClientWrites {
    mode ?? (existedBefore ? .accept : hadClients ? .observe : .refuse)
  }
}

extension Doctor {
  /// Names the roles, beside receiptd's and Supabase's, that may write premium columns of a table, or can get that
  /// right.
  private func premiumWriters(
    _ pool: PostgresPool, _ stored: ClientWriteModes.StoredMode, _ modes: ClientWriteModes,
    _ table: ProfileTable
  ) async throws -> [CheckResult] {
    let configured = modes.writers(to: table)
    return try await pool.withConnection { connection in
      try await PremiumWriters.read(stored, configured: configured, on: connection).results
    }
  }
}

/// The roles and functions that may write premium columns of a table.
struct PremiumWriters: Sendable {
  let stored: ClientWriteModes.StoredMode
  /// The roles of `premiumWriters` in the configuration.
  let configured: [String]
  let roles: [PremiumWriterRows.Holder]
  let known: [PremiumWriterRows.Listed]
  /// Functions that clients may call and that may write the table with the rights of a writer.
  let functions: [String]
  /// The statements that undo a setting with which sessions of clients begin without the triggers.
  let resets: [String]

  static func read(
    _ stored: ClientWriteModes.StoredMode, configured: [String], on connection: PostgresConnection
  ) async throws -> PremiumWriters {
    let server = try await connection.query(
      "SELECT current_setting('server_version_num')::bigint >= 150000 AS has_parameter_rights")[0]
    let holders = PremiumWriterRows.holders(
      of: stored.table, listed: configured,
      hasParameterRights: try server.decode("has_parameter_rights"))
    return try await PremiumWriters(
      stored: stored, configured: configured,
      roles: connection.query(holders).map(PremiumWriterRows.Holder.init),
      known: connection.query(PremiumWriterRows.known(configured)).map(PremiumWriterRows.Listed.init),
      functions: connection.query(PremiumWriterRows.functions(writing: stored.table)).map {
        try $0.decode("name", as: String.self)
      },
      resets: connection.query(PremiumWriterRows.resets).map { try $0.decode("statement", as: String.self) })
  }

  private var subject: String { "premium writers of \(stored.table)" }

  var results: [CheckResult] { ofTriggers + ofConfiguration + ofRoles }

  /// The roles that can get around the triggers.
  private var ofTriggers: [CheckResult] {
    var results = resets.map { statement in
      CheckResult.fail(
        subject,
        "sessions begin with session_replication_role set, which stops the triggers that watch clients' writes",
        statement)
    }
    for role in roles where role.addsTriggers && !role.writes {
      results.append(
        .fail(
          subject, "\(role.name) may add triggers to the table, which would run with the server's rights",
          "REVOKE TRIGGER ON public.\(stored.table) FROM \(role.addsTriggersByPublic ? "PUBLIC" : role.name)"
        ))
    }
    for role in roles where role.stopsTriggers && role.mayWrite && !role.writes {
      results.append(
        .fail(
          subject,
          "\(role.name) may set session_replication_role, or begins with it set, which stops the triggers that watch its writes",
          """
          REVOKE SET, ALTER SYSTEM ON PARAMETER session_replication_role FROM \(role.name), PUBLIC; \
          ALTER ROLE \(role.name) RESET session_replication_role
          """))
    }
    return results
  }

  private var ofConfiguration: [CheckResult] {
    var results: [CheckResult] = []
    if let role = known.first(where: \.isClient) {
      results.append(
        .fail(
          subject, "PostgREST acts as \(role.name) for clients, so each of them could make itself premium",
          "remove it from premiumWriters"))
    }
    let missing = Set(configured).subtracting(known.map(\.name)).sorted()
    if !missing.isEmpty {
      results.append(
        .warn(
          subject,
          "premiumWriters names \(missing.joined(separator: ", ")), and the database has no such role",
          "correct the name"))
    }
    return results
  }

  /// At most twenty names, and how many more there are.
  private static func listed(_ names: [String]) -> String {
    let more = names.count - 20
    return names.prefix(20).joined(separator: ", ") + (more > 0 ? " and \(more) more" : "")
  }

  private var ofRoles: [CheckResult] {
    var results: [CheckResult] = []
    let serving = roles.filter { $0.writes && $0.mayWrite && $0.servesClients }.map(\.name)
    if !serving.isEmpty {
      results.append(
        .fail(
          subject,
          "PostgREST may act as \(Self.listed(serving)) for clients, and it writes like a server, by BYPASSRLS, membership or "
            + "premiumWriters: no mode stops it",
          "REVOKE it from authenticator, or what makes it a writer from it"))
    }
    let writers = roles.filter { $0.writes && !$0.mayBecomeWriter && !serving.contains($0.name) }.map(\.name)
    if !writers.isEmpty {
      results.append(
        .ok(
          subject,
          "\(Self.listed(writers)) may write them too, by premiumWriters, BYPASSRLS or membership"))
    }
    let becoming = roles.filter { $0.mayBecomeWriter && !serving.contains($0.name) }.map(\.name)
    if !becoming.isEmpty {
      results.append(
        .warn(
          subject,
          "\(Self.listed(becoming)) may act as a writer, by membership in its role or by CREATEROLE: no mode stops it",
          "unless it is an administrator's, REVOKE the writer's role from it, or ALTER ROLE … NOCREATEROLE"))
    }
    if !functions.isEmpty {
      results.append(
        .warn(
          subject,
          "clients may call \(Self.listed(functions)), SECURITY DEFINER with a writer's rights: no mode stops it",
          "see that it writes no premium status or user id that a client chooses, or REVOKE EXECUTE"))
    }
    let clients = roles.filter { role in
      !role.writes && role.mayWrite && !role.isUsualClient
        && (stored.mode != .refuse || !role.addsTriggers && !role.stopsTriggers && !role.mayBecomeWriter)
    }.map(\.name)
    if !clients.isEmpty {
      let message = "\(Self.listed(clients)) has rights on them and counts as a client"
      results.append(
        stored.mode == .refuse
          ? .ok(subject, "\(message): its writes are refused")
          : .warn(
            subject, message,
            "if it is your own backend's role, list it in premiumWriters before clientWrites is refuse"))
    }
    return results
  }
}

/// Queries on the roles that may write premium columns.
enum PremiumWriterRows {
  /// A role with a right on the premium columns of a table, or that can get one.
  struct Holder: Sendable {
    var name: String
    /// Whether it counts as a server, by `receiptd_writes_premium` or the configuration.
    var writes: Bool
    /// Whether it may write a premium column, or move a row to another user.
    var mayWrite: Bool
    var addsTriggers: Bool
    /// Whether each role may add triggers.
    var addsTriggersByPublic: Bool
    var stopsTriggers: Bool
    /// Whether it can take the role of a writer that may write.
    var mayBecomeWriter: Bool
    /// Whether it is one of Supabase's roles for clients.
    var isUsualClient: Bool
    /// Whether PostgREST may act as it.
    var servesClients: Bool

    init(_ row: Row) throws {
      name = try row.decode("name")
      writes = try row.decode("writes")
      mayWrite = try row.decode("may_write")
      addsTriggers = try row.decode("adds_triggers")
      addsTriggersByPublic = try row.decode("adds_triggers_by_public")
      stopsTriggers = try row.decode("stops_triggers")
      mayBecomeWriter = try row.decode("may_become_writer")
      isUsualClient = try row.decode("is_usual_client")
      servesClients = try row.decode("serves_clients")
    }
  }

  /// A role of the configuration that the database has.
  struct Listed: Sendable {
    var name: String
    var isClient: Bool

    init(_ row: Row) throws {
      name = try row.decode("name")
      isClient = try row.decode("is_client")
    }
  }

  /// Whether the login of PostgREST may take the role `r`, also one that `receiptd_client_roles()` counts as a
  /// server's.
  static let servesClients: Query = """
    (r.rolname NOT IN ('authenticator', 'service_role') AND EXISTS (
      SELECT FROM pg_roles login
      WHERE login.rolname = 'authenticator' AND NOT login.rolsuper AND pg_has_role(login.oid, r.oid, 'MEMBER')))
    """

  /// MEMBER counts roles that do not inherit: SET ROLE takes the role, and ADMIN OPTION gives it. Before PostgreSQL 16
  /// CREATEROLE gives any role. A role of clients counts also if it inherits. `authenticator` takes the role of each
  /// request, and Supabase's own roles are its administrators'.
  /// - Parameters:
  ///   - listed: the writers of the configuration.
  ///   - hasParameterRights: whether the server has rights on parameters (PostgreSQL 15 and later).
  static func holders(of table: String, listed: [String], hasParameterRights: Bool) -> Query {
    let maySet: Query =
      hasParameterRights
      ? "has_parameter_privilege(r.oid, 'session_replication_role', 'SET, ALTER SYSTEM')" : "false"
    // ALTER ROLE … SET: the setting of each of its sessions.
    let stopsTriggers: Query = """
      (\(maySet) OR EXISTS (
        SELECT FROM pg_db_role_setting s, unnest(s.setconfig) AS setting
        WHERE s.setrole = r.oid AND setting LIKE 'session\\_replication\\_role=%' AND setting NOT LIKE '%=origin'))
      """
    return """
      WITH guarded AS (
        SELECT oid, relowner, CASE relname WHEN 'profiles' THEN 'id' ELSE 'user_id' END AS key FROM pg_class
        WHERE oid = to_regclass('public.' || \(table))),
      roles AS MATERIALIZED (
        SELECT r.oid, r.rolname, r.rolsuper, r.rolcreaterole,
          r.rolname = ANY(\(listed)) OR receiptd_writes_premium(t.oid, r.rolname) AS writes, EXISTS (
            SELECT FROM pg_attribute a WHERE a.attrelid = t.oid AND NOT a.attisdropped AND CASE
              WHEN a.attname = t.key THEN has_column_privilege(r.oid, t.oid, a.attnum, 'UPDATE')
              WHEN a.attname IN ('premium_expires_at', 'premium_product_id', 'premium_original_transaction_id', 'is_premium',
                'bookmark_limit') THEN has_column_privilege(r.oid, t.oid, a.attnum, 'INSERT, UPDATE') END) AS may_write
        FROM pg_roles r CROSS JOIN guarded t)
      SELECT * FROM (
        SELECT r.rolname::text AS name, r.writes, r.may_write,
          has_table_privilege(r.oid, t.oid, 'TRIGGER') AS adds_triggers,
          has_table_privilege('public', t.oid, 'TRIGGER') AS adds_triggers_by_public, \(stopsTriggers) AS stops_triggers,
          (NOT r.writes OR r.oid = ANY (receiptd_client_roles()::oid[]))
            AND r.rolname NOT IN ('authenticator', 'dashboard_user') AND r.rolname NOT LIKE 'supabase\\_%' AND (
              r.rolcreaterole AND current_setting('server_version_num')::integer < 160000 OR EXISTS (
                SELECT FROM roles w WHERE w.writes AND w.may_write AND w.oid <> r.oid AND pg_has_role(r.oid, w.oid, 'MEMBER')))
            AS may_become_writer,
          r.rolname IN ('anon', 'authenticated') AS is_usual_client, \(servesClients) AS serves_clients
        FROM roles r CROSS JOIN guarded t
        WHERE NOT r.rolsuper AND r.rolname NOT LIKE 'pg\\_%' AND r.oid <> t.relowner
          AND r.rolname NOT IN ('receiptd_app', 'service_role')
      ) AS holder
      WHERE may_write AND (NOT is_usual_client OR stops_triggers) OR adds_triggers OR may_become_writer
      ORDER BY name
      """
  }

  /// The settings of the database, and of roles that sign in for clients, that stop the triggers. `holders` has the
  /// clients' own.
  static let resets: Query = """
    SELECT format('ALTER %s RESET session_replication_role', CASE
      WHEN r.oid IS NULL AND d.oid IS NULL THEN 'ROLE ALL' WHEN r.oid IS NULL THEN 'DATABASE ' || quote_ident(d.datname)
      ELSE 'ROLE ' || quote_ident(r.rolname) || coalesce(' IN DATABASE ' || quote_ident(d.datname), '') END) AS statement
    FROM pg_db_role_setting s LEFT JOIN pg_roles r ON r.oid = s.setrole LEFT JOIN pg_database d ON d.oid = s.setdatabase
    WHERE (d.oid IS NULL OR d.datname = current_database()) AND (r.oid IS NULL OR NOT r.rolsuper
        AND r.oid <> ALL (receiptd_client_roles()::oid[])
        AND EXISTS (
          SELECT FROM unnest(receiptd_client_roles()::oid[]) AS client WHERE pg_has_role(r.oid, client, 'MEMBER')))
      AND EXISTS (
        SELECT FROM unnest(s.setconfig) AS setting
        WHERE setting LIKE 'session\\_replication\\_role=%' AND setting NOT LIKE '%=origin')
    ORDER BY 1
    """

  static func known(_ names: [String]) -> Query {
    """
    SELECT rolname::text AS name, oid = ANY (receiptd_client_roles()::oid[]) AS is_client FROM pg_roles
    WHERE rolname = ANY(\(names)) ORDER BY 1
    """
  }

  /// The functions with a writer's rights that clients may call and that name the table in a statement that writes, or
  /// run text as SQL. Triggers are not called, and extensions do not know the table.
  static func functions(writing table: String) -> Query {
    """
    SELECT p.oid::regprocedure::text AS name
    FROM pg_proc p JOIN pg_roles owner ON owner.oid = p.proowner JOIN pg_class t ON t.oid = to_regclass('public.' || \(table))
    WHERE p.prosecdef AND p.prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype)
      AND CASE WHEN p.prosecdef AND p.prokind IN ('f', 'p') THEN
        pg_get_functiondef(p.oid) ~* '\\mexecute\\M' OR pg_get_functiondef(p.oid) ~* '\\m(insert|update|merge)\\M'
          AND pg_get_functiondef(p.oid) ~* ('\\m' || t.relname || '\\M') END
      AND receiptd_writes_premium(t.oid, owner.rolname)
      AND NOT EXISTS (
        SELECT FROM pg_depend WHERE classid = 'pg_proc'::regclass AND objid = p.oid AND deptype = 'e')
      AND EXISTS (
        SELECT FROM unnest(receiptd_client_roles()::oid[]) AS client
        WHERE has_schema_privilege(client, p.pronamespace, 'USAGE') AND has_function_privilege(client, p.oid, 'EXECUTE'))
    ORDER BY 1
    """
  }
}
