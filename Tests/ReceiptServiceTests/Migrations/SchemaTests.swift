import AppStore
import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import TestDatabase
import Testing

@testable import ReceiptService

/// The move of receiptd's own tables from `public` to the schema `receiptd`.
@Suite struct SchemaTests {
  /// The migrations of the build before, in a folder of its own.
  private static func withFormerMigrations(_ body: (String) async throws -> Void) async throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "receiptd-\(UUID())")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    for name in try FileManager.default.contentsOfDirectory(atPath: Harness.migrations)
    where name < "20261126" {
      try FileManager.default.copyItem(
        atPath: "\(Harness.migrations)/\(name)", toPath: "\(folder.path)/\(name)")
    }
    try await body(folder.path)
  }

  /// A database of the build before, in which a server has started.
  private static func withFormerDatabase(_ body: (TestDatabase, PostgresPool, String) async throws -> Void)
    async throws
  {
    try await withFormerMigrations { folder in
      try await withTestDatabase { database in
        try await database.withPool { pool in
          try await Migrator(pool: pool, folder: folder).apply()
          _ = try await pool.query(
            """
            INSERT INTO configured_apps (bundle_id, grace_days, shares_purchases, sandbox_for_everyone, sandbox_testers)
            VALUES ('com.example', 0, false, false, '{}')
            """)
          try await body(database, pool, folder)
        }
      }
    }
  }

  private static func migrate(_ pool: PostgresPool) async throws {
    try await Migrator(pool: pool, folder: Harness.migrations).apply()
  }

  private static func texts(_ query: Query, _ pool: PostgresPool) async throws -> [String] {
    try await pool.query(query).map { try $0.decode("text", as: String.self) }
  }

  /// As servers of the build before connect: they look into `public` alone.
  private static func formerURL(_ database: TestDatabase) -> String {
    database.uri + (database.uri.contains("?") ? "&" : "?") + "options=-csearch_path%3Dpublic"
  }

  // MARK: Rows

  @Test func `a database of the build before keeps the rows of every table, waiting work and leases`()
    async throws
  {
    try await Self.withFormerDatabase { _, pool, _ in
      try await Self.fill(pool)
      _ = try await pool.query(
        """
        INSERT INTO outbox (destination, key, payload, claimed_by, claimed_until)
        VALUES ('webhook', 'leased', '{"a": 1}', gen_random_uuid(), now() + interval '1 hour')
        """)
      let before = try await Self.rows(pool)
      let changes = try await Self.texts("SELECT last_value::text AS text FROM outbox_changes", pool)
      #expect(before.count > 45)
      #expect(before.filter { $0.hasSuffix(": ") } == [])
      try await Self.migrate(pool)
      let after = try await Self.rows(pool)
      // The applied migrations are more. Later ones add columns to five tables, and six tables.
      #expect(
        after.filter { !before.contains($0) }.map { $0.prefix { $0 != ":" } }
          == [
            "backend_writes", "client_write_modes", "console_sessions", "customer_event_bytes",
            "device_secrets",
            "devices",
            "free_access", "free_access_rows", "kpi_acquisition_costs", "pairing_codes", "schema_migrations",
            "servers", "transactions", "user_preferences",
          ])
      #expect(after.count == before.count + 6)
      #expect(try await Self.texts("SELECT last_value::text AS text FROM outbox_changes", pool) == changes)
    }
  }

  /// Writes a row into each empty table. Values are of the columns' types and mean nothing.
  private static func fill(_ pool: PostgresPool) async throws {
    try await LiveTables.run(
      """
      SET session_replication_role = replica;
      DO $$
      DECLARE
        entry record;
        filled boolean;
        names text;
        contents text;
        rule text;
      BEGIN
        FOR entry IN SELECT c.oid, c.oid::regclass AS name FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' LOOP
          EXECUTE format('SELECT EXISTS (SELECT FROM %s)', entry.name) INTO filled;
          CONTINUE WHEN filled;
          FOR rule IN SELECT conname FROM pg_constraint WHERE conrelid = entry.oid AND contype = 'c' LOOP
            EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', entry.name, rule);
          END LOOP;
          SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum), string_agg(CASE
              WHEN atttypid IN ('timestamptz'::regtype, 'date'::regtype) THEN 'now()'
              WHEN atttypid = 'uuid'::regtype THEN 'gen_random_uuid()'
              WHEN atttypid = 'jsonb'::regtype THEN '''{}'''
              WHEN atttypid = 'boolean'::regtype THEN 'true'
              WHEN atttypid = 'bytea'::regtype THEN '''\\x00'''
              WHEN atttypid::regtype::text LIKE '%[]' THEN '''{}'''
              ELSE '''7''' END, ', ' ORDER BY attnum)
          INTO names, contents
          FROM pg_attribute
          WHERE attrelid = entry.oid AND attnum > 0 AND NOT attisdropped AND attidentity = '' AND attgenerated = '';
          EXECUTE format('INSERT INTO %s (%s) VALUES (%s)', entry.name, names, contents);
        END LOOP;
      END
      $$;
      SET session_replication_role = origin;
      """, on: pool)
  }

  /// Each of receiptd's and the app's tables, with its rows.
  private static func rows(_ pool: PostgresPool) async throws -> [String] {
    var lines: [String] = []
    for table in try await texts(
      """
      SELECT relation AS text FROM receiptd_rights() JOIN pg_class ON oid = to_regclass(relation) WHERE relkind = 'r' ORDER BY 1
      """, pool)
    {
      let rows = try await texts(
        "SELECT coalesce(string_agg(t::text, ' ' ORDER BY t::text), '') AS text FROM \(unescaped: table) AS t",
        pool)
      lines.append("\(table): \(rows.joined())")
    }
    return lines
  }

  // MARK: Servers of the build before

  @Test func `a server of the build before goes on after the tables have moved`() async throws {
    try await Self.withFormerMigrations { folder in
      try await withTestDatabase { database in
        try await database.withPool { pool in
          try await Migrator(pool: pool, folder: folder).apply()
          // This build stands for the former one. It reads columns of later migrations.
          _ = try await pool.query(
            "ALTER TABLE client_write_modes ADD COLUMN had_clients boolean NOT NULL DEFAULT false")
          _ = try await pool.query(
            "ALTER TABLE devices ADD COLUMN moved_by text, ADD COLUMN former_parents text[] NOT NULL DEFAULT '{}'"
          )
          _ = try await pool.query(
            "ALTER TABLE device_secrets ADD COLUMN account_hash bytea, ADD COLUMN kept_at timestamptz")
          _ = try await pool.query(
            """
            ALTER TABLE transactions ADD COLUMN latest_revocation timestamptz,
              ADD COLUMN app_account_token_changed boolean NOT NULL DEFAULT false
            """)
          let harness = try await Harness(
            databaseURL: Self.formerURL(database), configuration: TestApps.json,
            environment: ["RECEIPTD_MIGRATIONS": folder], ownerURL: database.uri,
            databaseTimeout: .seconds(60))
          do {
            try await Self.serve(harness) { try await Self.migrate(pool) }
          } catch {
            await harness.stop()
            throw error
          }
          await harness.stop()
        }
      }
    }
  }

  /// Serves customers before, while and after `migrate` runs.
  private static func serve(_ harness: Harness, _ migrate: () async throws -> Void) async throws {
    let (user, bought) = try await harness.customer()
    let waiting = try await harness.count("outbox")
    try await migrate()
    let path = try await harness.service.pool.query("SELECT current_setting('search_path') AS path")[0]
    #expect(try path.decode("path", as: String.self) == "public")
    #expect(try await harness.count("outbox") == waiting)
    #expect(try await harness.premium(user).bool("isPremium") == true)
    #expect(try await harness.send(.get, "/readyz", to: harness.adminAddress).status == 200)
    #expect(try await harness.service.migrator.apply().isEmpty)

    harness.clock.set(try #require(bought.transaction.expiresDate))
    let renewed = try await harness.happens(.renew, to: bought.originalTransactionID)
    #expect(try await harness.premium(user).date("premiumExpiresAt") == renewed.transaction.expiresDate)
    let token = try await harness.token(for: user)
    #expect(
      try await harness.sync([renewed.signedTransaction], user: user, token: token).bool("isPremium") == true)
    _ = try await harness.service.sweep.run()
    try await harness.erase(user.uuidString)
    #expect(try await harness.count("support_actions") >= 1)
    // A part of a table is deleted by the places of rows.
    for table in ["consents", "customer_event_bytes", "events", "refused_attempts", "seen_users"] {
      _ = try await harness.service.pool.query(
        "DELETE FROM \(unescaped: table) WHERE ctid = ANY(ARRAY(SELECT ctid FROM \(unescaped: table) LIMIT 10))"
      )
    }
  }

  @Test(arguments: [true, false])
  func `a server of a former build takes no migrated database for an empty one`(isUpgraded: Bool) async throws
  {
    func check(_ database: TestDatabase, _ folder: String) async throws {
      try await database.withPool { pool in
        _ = try await pool.query("SELECT receiptd_drop_former_names()")
      }
      let former = try TestDatabase(uri: Self.formerURL(database)).pool()
      let migrator = Migrator(pool: former, folder: folder)
      let states = try await migrator.status()
      #expect(states.count > 15)
      #expect(!states.contains { $0.state == .pending })
      #expect(try await migrator.apply().isEmpty)
      await former.close()
    }
    if isUpgraded {
      try await Self.withFormerDatabase { database, pool, folder in
        try await Self.migrate(pool)
        try await check(database, folder)
      }
    } else {
      try await Self.withFormerMigrations { folder in
        try await withTestDatabase(migrationsFolder: Harness.migrations) { try await check($0, folder) }
      }
    }
  }

  @Test func `no client keeps a right to the outbox's sequence while the former names stand`() async throws {
    try await Self.withFormerDatabase { _, pool, _ in
      _ = try await pool.query(
        "GRANT ALL ON SEQUENCE public.outbox_changes TO receiptd_numbers, receiptd_support, PUBLIC")
      try await Self.migrate(pool)
      let open: Query = """
        SELECT role AS text FROM unnest(ARRAY['receiptd_numbers', 'receiptd_support']) AS role
        WHERE has_sequence_privilege(role, 'public.outbox_changes', 'UPDATE')
        """
      #expect(try await Self.texts(open, pool) == [])
      _ = try await pool.query("GRANT ALL ON SEQUENCE public.outbox_changes TO receiptd_numbers, PUBLIC")
      _ = try await pool.query("SELECT receiptd_set_rights()")
      #expect(try await Self.texts(open, pool) == [])
      let serves = try await Self.texts(
        "SELECT has_sequence_privilege('receiptd_app', 'public.outbox_changes', 'USAGE')::text AS text", pool)
      #expect(serves == ["true"])
    }
  }

  // MARK: Both ways

  @Test func `a new database and one of the build before end with the same schema`() async throws {
    var new: [String] = []
    try await withTestDatabase { database in
      try await database.withPool { pool in
        // The roles are the cluster's: another test must not add them between the two migrations.
        try await LiveTables.run(Supabase.rolesOfCluster, on: pool)
        try await Self.migrate(pool)
        new = try await Self.texts(Self.schema, pool)
      }
    }
    #expect(new.count > 900)
    try await Self.withFormerDatabase { _, pool, _ in
      try await Self.migrate(pool)
      let views = try await Self.texts(Self.formerNames, pool)
      #expect(views.count > 40)
      _ = try await pool.query("SELECT receiptd_drop_former_names()")
      #expect(try await Self.texts(Self.formerNames, pool) == ["schema_migrations"])
      let old = try await Self.texts(Self.schema, pool)
      #expect(old.filter { !new.contains($0) } == [])
      #expect(new.filter { !old.contains($0) } == [])
    }
  }

  /// The views in `public` with names of tables in `receiptd`.
  private static let formerNames: Query = """
    SELECT v.relname AS text FROM pg_class v JOIN pg_class t ON t.relname = v.relname
    WHERE v.relnamespace = 'public'::regnamespace AND t.relnamespace = 'receiptd'::regnamespace ORDER BY 1
    """

  /// A line for each object in both schemas, with its definition, rights and comment.
  private static let schema: Query = """
    WITH schemas AS (SELECT oid, nspname, nspacl FROM pg_namespace WHERE nspname IN ('public', 'receiptd')),
    relations AS (SELECT c.*, s.nspname FROM pg_class c JOIN schemas s ON s.oid = c.relnamespace)
    SELECT format('%s %s', nspname, (SELECT string_agg(a::text, ',' ORDER BY a::text) FROM unnest(nspacl) AS a)) AS text FROM schemas
    UNION ALL
    SELECT format('%s.%s %s %s %s %s %s', nspname, relname, relkind, reloptions, relrowsecurity, obj_description(oid, 'pg_class'),
      (SELECT string_agg(a::text, ',' ORDER BY a::text) FROM unnest(relacl) AS a)) FROM relations
    UNION ALL
    SELECT format('%s.%s.%s %s %s %s %s %s %s', r.nspname, r.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
      a.attidentity, pg_get_expr(d.adbin, d.adrelid), a.attacl, col_description(a.attrelid, a.attnum))
    FROM relations r JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    UNION ALL SELECT format('%s.%s %s', nspname, relname, pg_get_viewdef(oid)) FROM relations WHERE relkind = 'v'
    UNION ALL SELECT pg_get_indexdef(oid) FROM relations WHERE relkind = 'i'
    UNION ALL SELECT format('%s.%s %s', r.nspname, r.relname, pg_get_constraintdef(c.oid))
    FROM relations r JOIN pg_constraint c ON c.conrelid = r.oid
    UNION ALL SELECT pg_get_triggerdef(t.oid) FROM relations r JOIN pg_trigger t ON t.tgrelid = r.oid WHERE NOT t.tgisinternal
    UNION ALL SELECT format('%s.%s %s %s %s', schemaname, tablename, policyname, cmd, roles) FROM pg_policies
    WHERE schemaname IN ('public', 'receiptd')
    UNION ALL SELECT format('%s %s %s', pg_get_functiondef(p.oid), obj_description(p.oid, 'pg_proc'),
      (SELECT string_agg(a::text, ',' ORDER BY a::text) FROM unnest(p.proacl) AS a))
    FROM pg_proc p JOIN schemas s ON s.oid = p.pronamespace
    UNION ALL SELECT format('%s owns %s', d.refobjid::regclass, d.objid::regclass) FROM pg_depend d
    JOIN relations r ON r.oid = d.objid WHERE r.relkind = 'S' AND d.classid = 'pg_class'::regclass AND d.deptype = 'a'
    ORDER BY 1
    """

  @Test func `each column of receiptd's tables and of the views for people has a comment`() async throws {
    try await withTestDatabase(migrationsFolder: Harness.migrations) { database in
      try await database.withPool { pool in
        // The app's own tables have columns of the app; the former names are views on the tables.
        let bare: Query = """
          SELECT format('%s.%s', c.oid::regclass, a.attname) AS text
          FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
          WHERE c.relkind IN ('r', 'v') AND col_description(c.oid, a.attnum) IS NULL
            AND (c.relnamespace = 'receiptd'::regnamespace
              OR c.relnamespace = 'public'::regnamespace
                AND c.relname NOT IN ('profiles', 'user_preferences', 'schema_migrations')
                AND to_regclass('receiptd.' || quote_ident(c.relname)) IS NULL)
          ORDER BY 1
          """
        let found = try await Self.texts(bare, pool)
        #expect(found == [])
      }
    }
  }

  @Test func `the guards of the app's own tables can be made again`() async throws {
    try await withTestDatabase(migrationsFolder: Harness.migrations) { database in
      try await database.withPool { pool in
        // PostgreSQL writes fewer parentheses into a definition that it reads again.
        let guards: Query = """
          SELECT translate(pg_get_triggerdef(oid), '()', '') AS text FROM pg_trigger
          WHERE tgrelid IN ('profiles'::regclass, 'user_preferences'::regclass) AND tgname LIKE 'receiptd\\_%' ORDER BY 1
          """
        let before = try await Self.texts(guards, pool)
        #expect(before.count == 26)
        try await LiveTables.run(
          """
          DO $$ DECLARE entry record; BEGIN
            FOR entry IN SELECT tgname, tgrelid::regclass AS relation FROM pg_trigger WHERE tgname LIKE 'receiptd\\_%' LOOP
              EXECUTE format('DROP TRIGGER %I ON %s', entry.tgname, entry.relation);
            END LOOP;
          END $$
          """, on: pool)
        #expect(try await Self.texts(guards, pool) == [])
        _ = try await pool.query("SELECT receiptd_set_guards()")
        #expect(try await Self.texts(guards, pool) == before)
      }
    }
  }

  /// PostgreSQL reads the conditions again for each statement, at some 5 µs for a kilobyte.
  @Test func `the conditions of the guards are short`() async throws {
    try await withTestDatabase(migrationsFolder: Harness.migrations) { database in
      try await database.withPool { pool in
        let long = try await Self.texts(
          """
          SELECT format('%s %s: %s', tgrelid::regclass, event.name, sum(length(tgqual::text))) AS text
          FROM pg_trigger, (VALUES ('INSERT', 4), ('DELETE', 8), ('UPDATE', 16)) AS event (name, bit)
          WHERE tgrelid IN ('profiles'::regclass, 'user_preferences'::regclass) AND tgtype & event.bit <> 0
          GROUP BY tgrelid, event.name HAVING sum(length(tgqual::text)) > 12000
          """, pool)
        #expect(long == [])
      }
    }
  }

  // MARK: Rights

  @Test func `clients and PUBLIC may not use the schema, and receiptd's roles look into it first`()
    async throws
  {
    try await Supabase.with(.own) { supabase in
      let uses = try await Self.texts(
        """
        SELECT name AS text FROM unnest(ARRAY['anon', 'authenticated', 'service_role', 'public', 'receiptd_app', 'receiptd_support',
          'receiptd_numbers']) AS role (name)
        WHERE has_schema_privilege(name::name, 'receiptd', 'USAGE') ORDER BY 1
        """, supabase.pool)
      #expect(uses == ["receiptd_app", "receiptd_numbers", "receiptd_support", "service_role"])
      for caller in [Supabase.Caller.anon, .authenticated(supabase.users[0])] {
        #expect(try await supabase.isRefused("SELECT * FROM receiptd.outbox", as: caller))
      }
      var configuration = try PostgresConfiguration(
        uri: supabase.database.uri(role: "receiptd_app"), applicationName: "tests")
      // As through a pooler.
      configuration.setsOptions = false
      let application = PostgresPool(configuration: configuration)
      let paths = try await Self.texts(
        "SELECT current_setting('search_path') AS text FROM outbox_destinations RIGHT JOIN (SELECT) AS one ON true LIMIT 1",
        application)
      #expect(paths == ["receiptd, public"])
      await application.close()
    }
  }

  @Test func `views with former names show clients no row, also after repeated grants`() async throws {
    try await Self.withFormerMigrations { folder in
      try await withTestDatabase { database in
        try await database.withPool { pool in
          try await LiveTables.run(Supabase.roles, on: pool)
          try await Migrator(pool: pool, folder: folder).apply()
          _ = try await pool.query(
            """
            INSERT INTO configured_apps (bundle_id, grace_days, shares_purchases, sandbox_for_everyone, sandbox_testers)
            VALUES ('com.example', 0, false, false, '{}')
            """)
          try await Self.migrate(pool)
          func open() async throws -> [String] {
            try await Self.texts(
              """
              SELECT format('%s %s', role, relname) AS text
              FROM pg_class, unnest(ARRAY['anon', 'authenticated', 'service_role', 'receiptd_support', 'receiptd_numbers']) AS role
              WHERE relnamespace = 'public'::regnamespace AND relkind = 'v' AND relname !~ '^(support|kpi)_'
                AND has_any_column_privilege(role::name, oid, 'SELECT, INSERT, UPDATE')
              """, pool)
          }
          #expect(try await open() == [])
          try await LiveTables.run("GRANT ALL ON ALL TABLES IN SCHEMA public TO anon", on: pool)
          let error = await #expect(throws: PostgresError.self) {
            try await pool.withTransaction { connection in
              _ = try await connection.query("SET LOCAL ROLE anon")
              _ = try await connection.query("SELECT * FROM public.configured_apps")
            }
          }
          #expect(error?.sqlState == "42501")
          _ = try await pool.query("SELECT receiptd_set_rights()")
          #expect(try await open() == [])
        }
      }
    }
  }
}
